"""What waits to be sent to one client, in its event loop, and never grows beyond a bound."""

from __future__ import annotations

import asyncio

from pgqueue.streams import wire

MOST_EVENTS = 1000
MOST_BYTES = 1024 * 1024
"""What waits for a client that does not read, at most. Then it is dropped, and comes back."""
TOO_SLOW = wire.comment("dropped: too slow; it goes on after the Last-Event-ID")
WENT_WRONG = wire.comment("ended: see the server's log")


class Client:
    """One open stream. Everything but `loop` is the business of its event loop's thread."""

    # There are thousands: no dict, and no deque, which takes 600 bytes while it is empty.
    __slots__ = ("_bytes", "_chunks", "_events", "_has_begun", "_is_over", "_waiting", "loop")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._chunks: list[bytes] = []
        self._events = self._bytes = 0
        self._has_begun = self._is_over = False
        self._waiting: asyncio.Future[None] | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing more will be sent than what waits."""
        return self._is_over

    @property
    def has_begun(self) -> bool:
        """Whether what it had missed has come."""
        return self._has_begun

    def begin(self, missed: bytes) -> None:
        """Send what it had missed, and then what has come since, and comes."""
        if not self._is_over:
            self._chunks.insert(0, missed)
            self._has_begun = True
            self._wake()

    def push(self, chunk: bytes, events: int = 1) -> None:
        """Send some events; drop the client if too many wait."""
        if self._is_over:
            return
        self._events += events
        self._bytes += len(chunk)
        # One alone may be larger than the bound.
        if self._chunks and (self._events > MOST_EVENTS or self._bytes > MOST_BYTES):
            self._chunks.clear()
            self.end(TOO_SLOW)
        else:
            self._chunks.append(chunk)
            self._wake()

    def end(self, last: bytes = b"") -> None:
        """End the stream after what waits, and this."""
        if not self._is_over:
            self._chunks.append(last)
            self._has_begun = self._is_over = True
            self._wake()

    async def next(self, patience: float) -> bytes | None:
        """Return what is to be sent next.

        Args:
            patience: how many seconds to wait for that.

        Returns:
            b"" if nothing came meanwhile; None if the stream is over.
        """
        if not (self._chunks and self._has_begun) and not self._is_over:
            await self._wait(patience)
        if self._chunks and self._has_begun:
            chunk = b"".join(self._chunks)
            self._chunks.clear()
            self._events = self._bytes = 0
            return chunk
        return None if self._is_over else b""

    async def _wait(self, patience: float) -> None:
        # asyncio.wait_for() would make a task of each wait before Python 3.12.
        self._waiting = self.loop.create_future()
        timer = self.loop.call_later(patience, self._wake)
        try:
            await self._waiting
        finally:
            timer.cancel()
            self._waiting = None

    def _wake(self) -> None:
        if self._waiting and not self._waiting.done():
            self._waiting.set_result(None)
