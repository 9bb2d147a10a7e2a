"""Requests to stop, from signals, other threads or the parent. The main thread acts on them.

Two more signals end nothing. On SIGUSR1 a process of pgqueue's writes the stacks of all its threads
to stderr; SIGUSR2 is ignored. The handlers of the project stay.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from types import FrameType

from pgqueue.database import forking
from pgqueue.threads.wakeup import HasFileno, Wakeup
from pgqueue.worker.parent import Superior

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""The signals that request to stop."""
STACKS = signal.SIGUSR1
OTHERS = (STACKS, signal.SIGUSR2)
"""The signals that end nothing."""
SURVIVES_HANGUP = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
"""Whether this process was started with SIGHUP ignored, as nohup does."""

Handler = Callable[[int, FrameType | None], None]


class StopRequests:
    """Counts requests to stop, and lets the main thread wait for the next one.

    A signal handler only increments a number and sets a wake-up. It runs in the main thread, which
    may hold any lock at that moment. So the handler must not take a lock.

    systemd and Ctrl-C send a signal to all processes of a group. The parent also passes it on to
    its children. A child must not count the two as two requests.
    """

    def __init__(self, parent: Superior | None = None) -> None:
        self._here = 0
        self._parent = parent
        self._wakeup = Wakeup()

    @property
    def count(self) -> int:
        """The number of requests so far."""
        return max(self._here, self._parent.requests if self._parent else 0)

    def add(self) -> None:
        """Add a request to stop."""
        self._here += 1
        self.wake()

    def wake(self) -> None:
        """End the wait, or the next one, without a request."""
        self._wakeup.set()

    def wait(self, timeout: timedelta, *others: HasFileno | int) -> None:
        """Wait until a request comes, one of the others is readable, or the time is over."""
        parent = self._parent
        if parent and not parent.is_gone:
            others = (*others, parent)
        ready = self._wakeup.wait(timeout.total_seconds(), *others)
        if parent and parent in ready:
            parent.listen()

    def close(self) -> None:
        """Close the wake-up: no further request ends a wait."""
        self._wakeup.close()

    @contextmanager
    def on_signals(
        self, *numbers: signal.Signals, on_stacks: Callable[[], None] = lambda: None
    ) -> Iterator[None]:
        """Make each given signal a request to stop; restore the handlers at the end.

        Outside of the main thread, the signals belong to the project: then nothing is changed.

        Args:
            on_stacks: called after SIGUSR1. As a part of a handler it must not take a lock.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def handle(number: int, frame: FrameType | None) -> None:
            self.add()

        with asked_for_stacks(on_stacks), _handled(numbers, handle):
            yield


@contextmanager
def ending_on_signals(*numbers: signal.Signals) -> Iterator[None]:
    """Let each given signal end the process at once, with status 0: it has no leases yet.

    The process would see a request to stop only after the database has answered: perhaps never.
    """

    def end(number: int, frame: FrameType | None) -> None:
        os._exit(0)

    with asked_for_stacks(), _handled(numbers, end):
        yield


@contextmanager
def asked_for_stacks(also: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Let SIGUSR1 write all stacks to stderr, and SIGUSR2 do nothing, until the end of the block.

    The main thread writes them, at its next step in Python. `faulthandler.register()` would write
    them at once, but reads the frames of threads that run: on Python 3.11 that ends the process by
    a segmentation fault, about once in a thousand signals.
    """

    _also.append(also)
    ours = [number for number in OTHERS if signal.getsignal(number) == signal.SIG_DFL]
    try:
        with _handled(ours, _answer):
            yield
    finally:
        _also.remove(also)


_also: list[Callable[[], None]] = []


def _answer(number: int, frame: FrameType | None) -> None:
    if number == STACKS:
        with suppress(Exception):  # there is no stderr, or nobody reads it any more
            _write_stacks(frame)
        for also in list(_also):
            also()


def _write_stacks(interrupted: FrameType | None) -> None:
    """Write the stacks of all threads to stderr, in the format of `faulthandler`.

    It takes no lock, and reads no source files: the thread that it interrupts may hold any lock.

    Args:
        interrupted: the frame of this thread that the signal has interrupted.
    """
    here = threading.get_ident()
    frames = {**sys._current_frames(), here: interrupted}
    lines = []
    for ident, frame in frames.items():
        kind = "Current thread" if ident == here else "Thread"
        lines.append(f"{kind} {ident:#018x} (most recent call first):")
        while frame:
            code = frame.f_code
            lines.append(f'  File "{code.co_filename}", line {frame.f_lineno} in {code.co_name}')
            frame = frame.f_back
        lines.append("")
    stderr = sys.__stderr__.fileno() if sys.__stderr__ else 2
    text = "\n".join([*lines, ""]).encode(errors="backslashreplace")
    while text:
        text = text[os.write(stderr, text) :]


@contextmanager
def _handled(numbers: Sequence[signal.Signals], handle: Handler) -> Iterator[None]:
    previous = {}
    for number in numbers:
        if number == signal.SIGHUP and SURVIVES_HANGUP:
            continue
        noted = forking.note_handler(number, handle)
        previous[number] = signal.signal(number, handle), noted
    try:
        yield
    finally:
        for number, (handler, noted) in previous.items():
            signal.signal(number, handler)
            forking.note_handler(number, noted)


@contextmanager
def blocked(*numbers: signal.Signals) -> Iterator[None]:
    """Block these signals: they are delivered at the end of the block.

    A process that is started in the block starts with these signals blocked.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
