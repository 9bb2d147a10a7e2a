"""Count how runs end, by channel and task, until the heartbeat stores it."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from pgqueue.endings import Cancelled, Deferred, Died, Discarded, Ending, Retried, Succeeded
from pgqueue.engine import statistics
from pgqueue.engine.statistics import BUCKETS, Counts, bucket
from pgqueue.engine.values import Connection
from pgqueue.worker.leases import LeasedMessage

MOST = 1000
"""Channels and tasks that are counted apart between two heartbeats."""
MOST_TOLD = 500
"""Those that are told apart by `totals`."""
OTHER = "(other)"
ORDER: dict[type, int] = {
    Succeeded: 0,
    Retried: 1,
    Died: 2,
    Deferred: 3,
    Discarded: 4,
    Cancelled: 5,
}


Pair = tuple[str, str]
"""A channel and a task."""


class _Sums:
    __slots__ = ("ended", "ran", "runs", "waited", "waits")

    def __init__(self) -> None:
        self.ended = [0] * len(ORDER)
        self.waited = 0.0
        self.ran = 0.0
        self.waits = [0] * BUCKETS
        self.runs = [0] * BUCKETS

    def add(self, other: _Sums) -> None:
        self.ended = [a + b for a, b in zip(self.ended, other.ended, strict=True)]
        self.waited += other.waited
        self.ran += other.ran
        self.waits = [a + b for a, b in zip(self.waits, other.waits, strict=True)]
        self.runs = [a + b for a, b in zip(self.runs, other.runs, strict=True)]


_SumsByPair = dict[Pair, _Sums]


class Tally:
    """Counts runs. Any thread may add: the settler does for a batch, an atomic run for itself."""

    def __init__(self) -> None:
        self._sums: _SumsByPair = {}
        self._stored: _SumsByPair = {}
        self._changing = threading.Lock()

    def add(self, ended: Iterable[tuple[LeasedMessage, Ending]]) -> None:
        """Count runs that have ended, and are settled."""
        with self._changing:
            for leased, ending in ended:
                index = ORDER.get(type(ending))
                if index is not None:
                    self._count(leased, index)

    def _count(self, leased: LeasedMessage, index: int) -> None:
        # For each run of a worker, so in few steps.
        claim = leased.claim
        pair = claim.channel, claim.task
        sums = self._sums.get(pair) or _new(self._sums, pair, MOST)
        waited = leased.started - leased.claimed
        if claim.run_at < claim.claimed_at:
            waited += (claim.claimed_at - claim.run_at).total_seconds()
        ran = leased.finished - leased.started
        sums.ended[index] += 1
        sums.waited += waited
        sums.ran += ran
        sums.waits[bucket(waited)] += 1
        sums.runs[bucket(ran)] += 1

    def store(self, connection: Connection) -> None:
        """Store what was counted since the last time; where that fails, it is kept.

        Raises:
            psycopg.Error: the database refused, or can't be reached.
        """
        with self._changing:
            taken, self._sums = self._sums, {}
        if not taken:
            return
        try:
            statistics.add(connection, [_counts(*each) for each in taken.items()])
        except BaseException:
            with self._changing:
                _add_up(self._sums, taken, MOST)
            raise
        with self._changing:
            _add_up(self._stored, taken, MOST_TOLD)

    def totals(self) -> list[Counts]:
        """Return what was counted from the beginning on, stored or not. It only grows."""
        found: _SumsByPair = {}
        with self._changing:
            _add_up(found, self._stored, MOST_TOLD)
            _add_up(found, self._sums, MOST_TOLD)
        return [_counts(*each) for each in found.items()]


def _new(sums: _SumsByPair, pair: Pair, most: int) -> _Sums:
    return sums.setdefault(pair if len(sums) < most else (OTHER, OTHER), _Sums())


def _add_up(sums: _SumsByPair, more: _SumsByPair, most: int) -> None:
    for pair, each in more.items():
        (sums.get(pair) or _new(sums, pair, most)).add(each)


def _counts(pair: tuple[str, str], sums: _Sums) -> Counts:
    channel, task = pair
    succeeded, failed, dead, deferred, discarded, cancelled = sums.ended
    return Counts(
        channel=channel,
        task=task,
        succeeded=succeeded,
        failed=failed,
        dead=dead,
        deferred=deferred,
        discarded=discarded,
        cancelled=cancelled,
        waited=sums.waited,
        ran=sums.ran,
        waits=sums.waits,
        runs=sums.runs,
    )
