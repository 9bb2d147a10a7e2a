"""End the process when its time is over, whatever its threads are at."""

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

STATUS = 1
LOOK = 0.25  # seconds
SAYING_WHY = 1.0  # seconds
LEFT_BEHIND = timedelta(seconds=2)


def end_soon(status: int) -> None:
    """End the process in a moment, though whoever is to say why should be stuck at that."""
    with suppress(RuntimeError):  # there is no room for a thread: then it is only not seen to
        _after(SAYING_WHY, partial(os._exit, status))


def _after(seconds: float, end: Callable[[], None]) -> None:
    """Call `end` after so long, on a thread that keeps no process from ending before."""
    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()


class Leash:
    """A last resort, behind everything that ends in time by itself.

    Its thread is there from the beginning: in the end there may be no room for one.

    Args:
        holding: what would be left to its lease.
        time_left: returns how long the process may live from now on; None: nothing is said of it.
            It is asked again and again: a signal handler may take no lock, and wakes nobody.
    """

    def __init__(
        self, holding: Sized = (), time_left: Callable[[], timedelta | None] = lambda: None
    ) -> None:
        self._holding = holding
        self._time_left = time_left
        self._ends_at = inf
        self._is_loose = False
        self._changed = threading.Condition()
        threading.Thread(target=self._watch, name="leash", daemon=True).start()

    def shorten(self, left: timedelta) -> None:
        """Let the process live for so long at most; never longer than was said before."""
        with self._changed:
            self._ends_at = min(self._ends_at, monotonic() + left.total_seconds())
            self._changed.notify()

    def loosen(self) -> None:
        """Let it live, for good."""
        with self._changed:
            self._is_loose = True
            self._changed.notify()

    def _watch(self) -> None:
        with self._changed:
            while not self._is_loose and (left := self._left()) > 0:
                self._changed.wait(min(left, LOOK))
        if not self._is_loose:
            self._end()

    def _left(self) -> float:
        if (left := self._time_left()) is not None:
            self.shorten(left)
        return self._ends_at - monotonic()

    def _end(self) -> None:
        end_soon(STATUS)
        left = len(self._holding)
        signals.worker_cut_short.send_robust(type(self), left=left, error=None)
        os._exit(STATUS)


def leave_threads_behind(status: int = 0) -> NoReturn:
    """End at once: tasks that would not end were handed back, or there is no time for them."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def wait_for_no_thread() -> None:
    """Let the process end soon, with status 0, though tasks have left threads behind."""
    try:
        _after(LEFT_BEHIND.total_seconds(), partial(os._exit, 0))
    except RuntimeError:  # so many are left that there is no room for another
        leave_threads_behind()
