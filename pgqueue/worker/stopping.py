"""Requests to stop, from signals or other threads, for the main thread to act on."""

from __future__ import annotations

import selectors
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from types import FrameType


class StopRequests:
    """Counts them, and lets one thread wait for the next.

    A signal handler runs between two bytecodes of the main thread, which may hold any
    lock just then: so it takes none, and only writes a byte.
    """

    def __init__(self) -> None:
        self.count = 0
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)

    def add(self) -> None:
        """Ask once more."""
        self.count += 1
        with suppress(OSError):  # enough are unread, or nobody waits any more
            self._writer.send(b".")

    def wait(self, timeout: timedelta) -> None:
        """Wait for a request, or until the time is over."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._reader, selectors.EVENT_READ)
            if selector.select(timeout.total_seconds()):
                self._reader.recv(4096)

    def close(self) -> None:
        """Take no more requests."""
        self._reader.close()
        self._writer.close()

    @contextmanager
    def on_signals(self, *numbers: signal.Signals) -> Iterator[None]:
        """Make each of these signals a request; restore their handlers at the end."""

        def handle(number: int, frame: FrameType | None) -> None:
            self.add()

        previous = {number: signal.signal(number, handle) for number in numbers}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
