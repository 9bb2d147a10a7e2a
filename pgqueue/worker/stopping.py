"""Requests to stop, from signals, other threads or the parent, for the main thread to act on."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from types import FrameType

from pgqueue.wakeup import Readable, Wakeup
from pgqueue.worker.parent import Superior

SIGNALS = (signal.SIGTERM, signal.SIGINT)
"""The signals that request to stop."""

Handler = Callable[[int, FrameType | None], None]


class StopRequests:
    """Counts requests to stop, and lets the main thread wait for the next one.

    A signal handler only adds to a number and sets a wake-up. It runs in the main thread, which may
    hold any lock at that moment, so it must not take one.

    systemd and Ctrl-C send the same signal to all processes of a group: to a parent, which passes
    it on, and to its children. A child must not count these as two requests.
    """

    def __init__(self, parent: Superior | None = None) -> None:
        self._here = 0
        self._parent = parent
        self._wakeup = Wakeup()

    @property
    def count(self) -> int:
        """The number of requests until now."""
        return max(self._here, self._parent.requests if self._parent else 0)

    def add(self) -> None:
        """Request to stop, once more."""
        self._here += 1
        self.wake()

    def wake(self) -> None:
        """End the wait, or the next one, without a request."""
        self._wakeup.set()

    def wait(self, timeout: timedelta, *others: Readable | int) -> None:
        """Wait for a request, until one of the others is readable, or until the time is over."""
        parent = self._parent
        if parent and not parent.is_gone:
            others = (*others, parent)
        ready = self._wakeup.wait(timeout.total_seconds(), *others)
        if parent and parent in ready:
            parent.listen()

    def close(self) -> None:
        """Take no more requests."""
        self._wakeup.close()

    @contextmanager
    def on_signals(self, *numbers: signal.Signals) -> Iterator[None]:
        """Let each of these signals request to stop; restore their handlers at the end."""

        def handle(number: int, frame: FrameType | None) -> None:
            self.add()

        with _handled(numbers, handle):
            yield


@contextmanager
def ending_on_signals(*numbers: signal.Signals) -> Iterator[None]:
    """Let each of these signals end the process at once, with status 0: it has no leases yet.

    A request to stop would be noticed only after the database has answered, which may be never.
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
    """Block these signals: they wait until the end of the block.

    A process that is started in the block begins with them blocked.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
