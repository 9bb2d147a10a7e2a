"""How many tasks a process runs, and how large it may grow, before another one replaces it."""

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
    """Passes on how runs ended, and counts them.

    Args:
        most: the number of runs of this process.
        on_reached: called when `most` runs have ended, and after each further one. Any thread may
            call it.
    """

    def __init__(self, most: int, ended: Ended, *, on_reached: Callable[[], None]) -> None:
        self._most = most
        self._ended = ended
        self._on_reached = on_reached
        self._counter = count(1)

    @classmethod
    def of(cls, most: int | None, ended: Ended, *, on_reached: Callable[[], None]) -> Ended:
        """Return a limit; or `ended` itself, if there is none."""
        return ended if most is None else cls(most, ended, on_reached=on_reached)

    def __call__(self, leased: LeasedMessage, ending: Ending) -> None:
        """Pass on one that ended."""
        self._ended(leased, ending)
        if next(self._counter) >= self._most:
            self._on_reached()


def memory() -> float:
    """Return the resident memory of this process, in MB of a million bytes.

    Without /proc, or if no file can be opened: the largest that it ever had.
    """
    with suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize() / 1e6
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / 1e6 if sys.platform == "darwin" else most * 1024 / 1e6
