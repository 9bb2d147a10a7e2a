"""End the process when its time is over, even if its threads hang."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sized
from contextlib import suppress
from datetime import timedelta
from functools import partial
from math import inf
from time import monotonic
from typing import NoReturn

from pgqueue import signals
from pgqueue.worker.shutdown import Shutdown

STATUS = 1
"""The exit status of a process whose time was over."""
OVERRUN = 75
"""The exit status of a process that stopped in order because a run exceeded its hard timeout:
EX_TEMPFAIL. Its supervisor must start another process."""
CHECK_EVERY = 0.25  # seconds
LOGGING = 1.0
"""The limit of seconds for logging the reason of an exit."""
THREADS_LEFT = timedelta(seconds=2)
"""The time that the interpreter may wait for threads that tasks have left behind."""


def exit_soon(status: int) -> None:
    """Exit in a moment, even if the thread that logs the reason hangs."""
    with suppress(RuntimeError):  # no memory for a thread: the log call is then not bounded
        _after(LOGGING, partial(os._exit, status))


def _after(seconds: float, end: Callable[[], None]) -> None:
    """Call `end` after `seconds`, on a daemon thread."""
    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()


class Deadline:
    """A last resort: ends the process if its stop takes too long.

    Its thread is started at once: later there may be no memory for a thread.

    Args:
        leases: the leases; their number is logged at the exit.
        shutdown: knows the time that the process may still live. It is polled: a signal handler
            must not take a lock, so it cannot wake a thread.
    """

    def __init__(self, leases: Sized = (), shutdown: Shutdown | None = None) -> None:
        self._leases = leases
        self._shutdown = shutdown
        self._ends_at = inf
        self._is_cancelled = False
        self._changed = threading.Condition()
        threading.Thread(target=self._watch, name="deadline", daemon=True).start()

    def shorten(self, left: timedelta) -> None:
        """Let the process live for `left` at most; an earlier limit stays."""
        with self._changed:
            self._ends_at = min(self._ends_at, monotonic() + left.total_seconds())
            self._changed.notify()

    def cancel(self) -> None:
        """Remove the limit for good."""
        with self._changed:
            self._is_cancelled = True
            self._changed.notify()

    def _watch(self) -> None:
        with self._changed:
            while not self._is_cancelled and (left := self._left()) > 0:
                self._changed.wait(min(left, CHECK_EVERY))
        if not self._is_cancelled:
            self._end()

    def _left(self) -> float:
        if self._shutdown and (left := self._shutdown.time_left()) is not None:
            self.shorten(left)
        return self._ends_at - monotonic()

    def _end(self) -> None:
        exit_soon(STATUS)
        left = len(self._leases)
        signals.send(signals.worker_cut_short, type(self), left=left, error=None)
        os._exit(STATUS)


def exit_at_once(status: int = 0) -> NoReturn:
    """Exit without waiting for threads: their messages were handed back, or the time is over."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(BaseException):  # it is None, or nobody reads it any more
            stream.flush()
    os._exit(status)


def bound_interpreter_exit() -> None:
    """Let the interpreter wait only briefly for threads that tasks left behind; exit with 0."""
    try:
        _after(THREADS_LEFT.total_seconds(), partial(os._exit, 0))
    except RuntimeError:  # so many are left that no further thread can be started
        exit_at_once()
