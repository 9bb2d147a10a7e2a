"""Count the outcomes of runs, by channel and task, until a heartbeat stores the counts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import NamedTuple, Protocol
from uuid import uuid4

from pgqueue.calls.outcomes import (
    Cancelled,
    Deferred,
    Died,
    Discarded,
    Ending,
    Retried,
    Succeeded,
)
from pgqueue.engine import run_statistics
from pgqueue.engine.run_statistics import (
    BUCKETS,
    OTHER,
    CountKey,
    Counts,
    Pair,
    bucket,
)
from pgqueue.engine.values import Claim, Connection

MOST = 1000
"""Pairs of a channel and a task that are counted apart between two heartbeats."""
MOST_BY_TENANT = 500
"""Counts between two heartbeats beyond which further tenants of a task are counted together."""
MOST_TOLD = 500
"""Pairs of a channel and a task that `totals` tells apart."""
PATIENCE = 1.0
"""Seconds to wait for another thread that stores counts."""
ORDER: dict[type, int] = {
    Succeeded: 0,
    Retried: 1,
    Died: 2,
    Deferred: 3,
    Discarded: 4,
    Cancelled: 5,
}


class TimedRun(Protocol):
    """A claim, and when it arrived, and its run began and ended, by the monotonic clock."""

    @property
    def claim(self) -> Claim: ...

    @property
    def claimed(self) -> float: ...

    @property
    def started(self) -> float: ...

    @property
    def finished(self) -> float: ...


class CountedRun(NamedTuple):
    """A run that has ended, for the counts alone."""

    claim: Claim
    claimed: float
    started: float
    finished: float


class _Sums:
    __slots__ = ("ended", "ran", "released", "runs", "waited", "waits")

    def __init__(self) -> None:
        self.ended = [0] * len(ORDER)
        self.released = 0
        self.waited = 0.0
        self.ran = 0.0
        self.waits = [0] * BUCKETS
        self.runs = [0] * BUCKETS

    def add(self, other: _Sums) -> None:
        """Add the counts of the same channel and task."""
        self.ended = _added(self.ended, other.ended)
        self.released += other.released
        self.waited += other.waited
        self.ran += other.ran
        self.waits = _added(self.waits, other.waits)
        self.runs = _added(self.runs, other.runs)


def _added(counts: Sequence[int], more: Sequence[int]) -> list[int]:
    return [a + b for a, b in zip(counts, more, strict=True)]


_SumsByKey = dict[CountKey, _Sums]


class Tally:
    """Counts runs. Any thread may add: the settler does for a batch, an atomic run for itself.

    Args:
        tenant_of: returns the tenant of a message, or ""; None: runs are not counted by tenant.
    """

    def __init__(self, tenant_of: Callable[[Claim], str] | None = None) -> None:
        self._tenant_of = tenant_of
        self._sums: _SumsByKey = {}
        self._taken: _SumsByKey = {}
        """The last batch, which may have been stored or not: only the database knows."""
        self._stored: dict[Pair, Counts] = {}
        self._source = uuid4()
        self._batch = 0
        self._changing = threading.Lock()
        self._storing = threading.Lock()

    def add(self, ended: Iterable[tuple[TimedRun, Ending]]) -> None:
        """Count runs that have ended, and are settled."""
        with self._changing:
            for run, ending in ended:
                index = ORDER.get(type(ending))
                if index is not None:
                    self._count(run, index)

    def add_released(self, claims: Iterable[Claim]) -> None:
        """Count runs that were handed back before they ended."""
        with self._changing:
            for claim in claims:
                self._of(claim, "").released += 1

    def _count(self, run: TimedRun, index: int) -> None:
        # A worker does this for each run, so it takes few steps.
        claim = run.claim
        tenant = self._tenant_of(claim) if self._tenant_of else ""
        sums = self._sums.get((claim.channel, claim.task, tenant)) or self._of(claim, tenant)
        waited = run.started - run.claimed
        if claim.run_at < claim.claimed_at:
            waited += (claim.claimed_at - claim.run_at).total_seconds()
        ran = run.finished - run.started
        sums.ended[index] += 1
        sums.waited += waited
        sums.ran += ran
        sums.waits[bucket(waited)] += 1
        sums.runs[bucket(ran)] += 1

    def _of(self, claim: Claim, tenant: str) -> _Sums:
        return self._sums.setdefault(self._with_room((claim.channel, claim.task, tenant)), _Sums())

    def _with_room(self, key: CountKey) -> CountKey:
        """Return a key, or the one under which its runs are counted if there are too many."""
        channel, task, tenant = key
        if tenant and key not in self._sums and len(self._sums) >= MOST_BY_TENANT:
            key = channel, task, OTHER
        if key not in self._sums and len(self._sums) >= MOST:
            key = OTHER, OTHER, tenant and OTHER
        return key

    def store(self, connection: Connection) -> None:
        """Store the new counts; a batch that failed the last time comes first.

        The counts of a channel and task that the database refuses are kept, and tried again after a
        minute. All others are stored.

        Raises:
            psycopg.Error: the database refused a statement, or is out of reach.
        """
        if self._storing.acquire(timeout=PATIENCE):
            try:
                if self._taken:
                    self._send(connection)
                aside = run_statistics.refused(connection)
                with self._changing:
                    self._taken, self._sums = self._sums, {}
                    for key in aside:
                        if key in self._taken:
                            self._sums[key] = self._taken.pop(key)
                    self._batch += 1
                if self._taken:
                    self._send(connection)
            finally:
                self._storing.release()

    def close(self, connection: Connection) -> None:
        """Store the rest; later counts may still be stored by another call.

        Raises:
            psycopg.Error: the database refused a statement, or is out of reach.
        """
        self.store(connection)
        run_statistics.leave(connection, self._source)

    def _send(self, connection: Connection) -> None:
        # A batch that fails is sent again unchanged: the database would refuse another batch with
        # the same number.
        counts = [_counts(*each) for each in self._taken.items()]
        refused = run_statistics.add(connection, counts, source=self._source, batch=self._batch)
        with self._changing:
            for key in refused:
                self._put_back(key, self._taken.pop(key))
            stored = [each for each in counts if each.key not in refused]
            add_up(self._stored, stored, most=MOST_TOLD)
            self._taken = {}

    def _put_back(self, key: CountKey, sums: _Sums) -> None:
        """Put counts that the database refused into a later batch."""
        self._sums.setdefault(self._with_room(key), _Sums()).add(sums)

    def totals(self) -> list[Counts]:
        """Return all counts since the beginning, stored or not, of all tenants. They only grow."""
        with self._changing:
            found = dict(self._stored)
            for sums in (self._taken, self._sums):
                add_up(found, [_counts(*each) for each in sums.items()], most=MOST_TOLD)
        return list(found.values())


def add_up(counts: dict[Pair, Counts], more: Iterable[Counts], *, most: float = inf) -> None:
    """Add each count to the one of the same channel and task, whatever its tenant is.

    Args:
        most: how many pairs are counted apart; further pairs are counted together.
    """
    for each in more:
        pair = each.channel, each.task
        if pair not in counts and len(counts) >= most:
            pair = OTHER, OTHER
            each = each._replace(channel=OTHER, task=OTHER)
        each = each._replace(tenant="")
        counts[pair] = counts[pair].plus(each) if pair in counts else each


def _counts(key: CountKey, sums: _Sums) -> Counts:
    channel, task, tenant = key
    succeeded, failed, dead, deferred, discarded, cancelled = sums.ended
    return Counts(
        channel=channel,
        task=task,
        tenant=tenant,
        succeeded=succeeded,
        failed=failed,
        dead=dead,
        deferred=deferred,
        discarded=discarded,
        cancelled=cancelled,
        released=sums.released,
        waited=sums.waited,
        ran=sums.ran,
        # Copies: runs are counted into the lists themselves.
        waits=list(sums.waits),
        runs=list(sums.runs),
    )
