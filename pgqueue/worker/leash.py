"""End the process when its time is over, whatever its threads are at."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from math import inf
from time import monotonic

from pgqueue import signals

STATUS = 1
SAYING_WHY = 1.0  # seconds
LEFT_BEHIND = timedelta(seconds=2)


def end_soon(status: int) -> None:
    """End the process in a moment, though whoever is to say why should be stuck at that."""
    _after(SAYING_WHY, partial(os._exit, status))


def _after(seconds: float, end: Callable[[], None]) -> threading.Timer:
    """Call `end` after so long, on a thread that keeps no process from ending before."""
    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    return timer


class Leash:
    """A last resort, behind everything that ends in time by itself."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None
        self._ends_at = inf

    def shorten(self, left: timedelta) -> None:
        """Let the process live for so long at most; never longer than was said before."""
        ends_at = monotonic() + left.total_seconds()
        if ends_at >= self._ends_at:
            return
        self.loosen()
        self._ends_at = ends_at
        self._timer = _after(left.total_seconds(), self._end)

    def loosen(self) -> None:
        """Let it live."""
        if self._timer:
            self._timer.cancel()
        self._ends_at = inf

    def _end(self) -> None:
        end_soon(STATUS)
        signals.worker_cut_short.send_robust(type(self))
        os._exit(STATUS)


def leave_threads_behind() -> None:
    """End at once, with status 0: tasks that would not end were handed back."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def wait_for_no_thread() -> None:
    """Let the process end soon, with status 0, though tasks have left threads behind."""
    _after(LEFT_BEHIND.total_seconds(), partial(os._exit, 0))
