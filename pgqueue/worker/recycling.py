"""The limits of a process, in tasks and memory, after which another process replaces it."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

from pgqueue.calls.outcomes import Ending
from pgqueue.worker.leases import LeasedMessage

Ended = Callable[[LeasedMessage, Ending], None]


class TaskLimit:
    """Counts the endings of runs, and passes them on.

    Args:
        most: the maximum number of runs of this process.
        on_reached: called when `most` runs have ended, and after each further run, by any thread.
    """

    def __init__(self, most: int, ended: Ended, *, on_reached: Callable[[], None]) -> None:
        self._most = most
        self._ended = ended
        self._on_reached = on_reached
        self._counter = count(1)

    @classmethod
    def of(cls, most: int | None, ended: Ended, *, on_reached: Callable[[], None]) -> Ended:
        """Return a limit, or `ended` itself if there is no maximum."""
        return ended if most is None else cls(most, ended, on_reached=on_reached)

    def __call__(self, leased: LeasedMessage, ending: Ending) -> None:
        """Pass on a run's ending, and count it."""
        self._ended(leased, ending)
        if next(self._counter) >= self._most:
            self._on_reached()


def memory() -> float:
    """Return the resident memory of this process, in MB of a million bytes.

    Without /proc, or if no file can be opened, return the largest size so far.
    """
    with suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize() / 1e6
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / 1e6 if sys.platform == "darwin" else most * 1024 / 1e6
