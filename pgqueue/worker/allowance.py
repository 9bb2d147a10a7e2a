"""How much a process may run, and how large it may grow, before another takes its place."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

from pgqueue.outcomes import Outcome
from pgqueue.worker.held import Held

Ended = Callable[[Held, Outcome], None]


class Allowance:
    """Passes on what ended, and counts it.

    Args:
        on_used_up: called when it was `most`, and each time after that. Any thread may be it.
    """

    def __init__(self, most: int, ended: Ended, *, on_used_up: Callable[[], None]) -> None:
        self._most = most
        self._ended = ended
        self._on_used_up = on_used_up
        self._counter = count(1)

    @classmethod
    def of(cls, most: int | None, ended: Ended, *, on_used_up: Callable[[], None]) -> Ended:
        """Return one; or `ended` itself, where there may be any number."""
        return ended if most is None else cls(most, ended, on_used_up=on_used_up)

    def __call__(self, held: Held, outcome: Outcome) -> None:
        """Take one that ended."""
        self._ended(held, outcome)
        if next(self._counter) >= self._most:
            self._on_used_up()


def memory() -> float:
    """Return how much memory this process has, in MB of a million bytes.

    Where there is no /proc, or no file can be opened, the most that it ever had.
    """
    with suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize() / 1e6
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / 1e6 if sys.platform == "darwin" else most * 1024 / 1e6
