"""The bounded buffer of chunks for one client, in the client's event loop."""

from __future__ import annotations

import asyncio

from pgqueue.streams import wire

MOST_EVENTS = 1000
MOST_BYTES = 1024 * 1024
"""The maximum of buffered bytes. A slower client is dropped, and connects again."""
TOO_SLOW = wire.comment("dropped: too slow; the stream goes on after the Last-Event-ID")
WENT_WRONG = wire.comment("ended: see the server's log")


class Client:
    """One open stream. Only the thread of its event loop uses its attributes, except `loop`."""

    # There are thousands of clients: no dict, and no deque, which takes 600 bytes while empty.
    __slots__ = ("_bytes", "_chunks", "_events", "_has_begun", "_is_over", "_waiting", "loop")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._chunks: list[bytes] = []
        self._events = self._bytes = 0
        self._has_begun = self._is_over = False
        self._waiting: asyncio.Future[None] | None = None

    @property
    def is_over(self) -> bool:
        """Whether the stream ends behind the buffered chunks."""
        return self._is_over

    @property
    def has_begun(self) -> bool:
        """Whether the client has got its missed events."""
        return self._has_begun

    def begin(self, missed: bytes) -> None:
        """Send the missed events before the buffered ones; then send new events, too."""
        if not self._is_over:
            self._chunks.insert(0, missed)
            self._has_begun = True
            self._wake()

    def push(self, chunk: bytes, events: int = 1) -> None:
        """Send some events; drop the client if too many are buffered."""
        if self._is_over:
            return
        self._events += events
        self._bytes += len(chunk)
        # A single chunk may be larger than the bound.
        if self._chunks and (self._events > MOST_EVENTS or self._bytes > MOST_BYTES):
            self._chunks.clear()
            self.end(TOO_SLOW)
        else:
            self._chunks.append(chunk)
            self._wake()

    def end(self, last: bytes = b"") -> None:
        """End the stream behind the buffered chunks and this last one."""
        if not self._is_over:
            self._chunks.append(last)
            self._has_begun = self._is_over = True
            self._wake()

    async def next(self, patience: float) -> bytes | None:
        """Wait for the next chunk, and return it.

        Args:
            patience: the longest wait, in seconds.

        Returns:
            b"" if no chunk came in time; None if the stream is over.
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
        # Before Python 3.12, asyncio.wait_for() would make a task for each wait.
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
