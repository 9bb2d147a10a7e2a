"""Requests to stop, from signals, other threads or the parent, for the main thread to act on."""

from __future__ import annotations

import os
import selectors
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from types import FrameType

from pgqueue.worker.child import Parent

Handler = Callable[[int, FrameType | None], None]


class StopRequests:
    """Counts them, and lets one thread wait for the next.

    A signal handler runs between two bytecodes of the main thread, which may hold any
    lock just then: so it takes none, and only writes a byte.

    What stops a whole group of processes (systemd, Ctrl-C) sends the same signal to a parent, which
    passes it on, and to its children: they must not take it for a second one.
    """

    def __init__(self, parent: Parent | None = None) -> None:
        self._here = 0
        self._parent = parent
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        # Once: whoever has no file left to open for it would not hear that he is to stop.
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._reader, selectors.EVENT_READ)
        if parent:
            self._selector.register(parent, selectors.EVENT_READ, parent)

    @property
    def count(self) -> int:
        """How often it was asked."""
        return max(self._here, self._parent.requests if self._parent else 0)

    def add(self) -> None:
        """Ask once more."""
        self._here += 1
        self.wake()

    def wake(self) -> None:
        """End the wait."""
        with suppress(OSError):  # enough are unread, or nobody waits any more
            self._writer.send(b".")

    def wait(self, timeout: timedelta) -> None:
        """Wait for a request, or until the time is over."""
        for key, _ in self._selector.select(timeout.total_seconds()):
            if not key.data:
                self._reader.recv(4096)
                continue
            key.data.listen()
            if key.data.is_gone:
                self._selector.unregister(key.data)

    def fileno(self) -> int:
        """Return what becomes readable with a request."""
        return self._reader.fileno()

    def close(self) -> None:
        """Take no more requests."""
        self._selector.close()
        self._reader.close()
        self._writer.close()

    @contextmanager
    def on_signals(self, *numbers: signal.Signals) -> Iterator[None]:
        """Make each of these signals a request; restore their handlers at the end."""

        def handle(number: int, frame: FrameType | None) -> None:
            self.add()

        with _handled(numbers, handle):
            yield


@contextmanager
def ending_on_signals(*numbers: signal.Signals) -> Iterator[None]:
    """End the process at once with each of these, and status 0: it has begun with nothing.

    A request would wait with it for a database that says nothing.
    """

    def end(number: int, frame: FrameType | None) -> None:
        os._exit(0)

    with _handled(numbers, end):
        yield


@contextmanager
def _handled(numbers: Sequence[signal.Signals], handle: Handler) -> Iterator[None]:
    previous = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextmanager
def blocked(*numbers: signal.Signals) -> Iterator[None]:
    """Let these signals wait; a process that is started in the block has them wait, too."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
