"""Whether it has become slower. Nothing but arithmetic is here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

LEAST = 0.9
"""Of the throughput of the first tenth."""
ENOUGH = 3
"""Bursts to compare at each end, also where a tenth of the run has fewer."""
LONGEST_CYCLE = 180.0
PINNED = 1 / 3


@dataclass(frozen=True)
class Probe:
    """A burst, and how long it took.

    Attributes:
        at: when it began, in seconds from the start.
        each: seconds until the last on each of its channels was done.
    """

    at: float
    count: int
    seconds: float
    each: Mapping[str, float] = field(default_factory=dict)

    @property
    def per_s(self) -> float:
        """Messages done in a second."""
        return self.count / self.seconds


@dataclass(frozen=True)
class Verdict:
    """Messages a second in the first and the last tenth, medians of bursts."""

    first: float
    last: float

    @property
    def ratio(self) -> float:
        """What is left of the first."""
        return self.last / self.first

    @property
    def is_good(self) -> bool:
        """Whether that is enough."""
        return self.ratio >= LEAST

    def __str__(self) -> str:
        return (
            f"{self.first:.0f} messages/s in the first tenth, {self.last:.0f} in the last: "
            f"{self.ratio:.2f}, which must be {LEAST} or more"
        )


def judge(probes: Sequence[Probe], lasted: float) -> Verdict:
    """Compare the last tenth of the run with the first.

    Args:
        probes: in the order of their times.
        lasted: seconds.

    Raises:
        ValueError: there are too few to say anything.
    """
    if len(probes) < 2 * ENOUGH:
        raise ValueError(f"{len(probes)} bursts are too few: run it for longer.")
    tenth = lasted / 10
    first = max(sum(each.at < tenth for each in probes), ENOUGH)
    last = max(sum(each.at >= lasted - tenth for each in probes), ENOUGH)
    return Verdict(_per_s(probes[:first]), _per_s(probes[-last:]))


def _per_s(probes: Sequence[Probe]) -> float:
    return median(each.per_s for each in probes)


def is_pinned(at: float, lasts: float) -> bool:
    """Whether a snapshot is to be held at this moment of a run that lasts so long.

    It is for the middle third of each cycle; in a tenth are whole cycles, so that none has more
    of it than another.
    """
    tenth = lasts / 10
    cycle = tenth / -(-tenth // LONGEST_CYCLE)
    return PINNED <= (at % cycle) / cycle < 2 * PINNED


def growth(counter: Iterable[int]) -> Iterator[int]:
    """Yield how far a counter has come in all that begins again at 0 when the server crashes."""
    total = 0
    for before, now in pairwise([0, *counter]):
        total += now - before if now >= before else now
        yield total
