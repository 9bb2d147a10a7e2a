"""Count how runs end, by channel and task, until the heartbeat stores it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from datetime import datetime
from typing import TypeAlias

from pgqueue.endings import Cancelled, Deferred, Died, Discarded, Ending, Retried, Succeeded
from pgqueue.engine import statistics
from pgqueue.engine.statistics import BUCKETS, Counts
from pgqueue.engine.values import Connection
from pgqueue.worker.leases import LeasedMessage

GATHERED = 500
MOST = 1000
"""Channels and tasks that are counted apart between two heartbeats."""
OTHER = "(other)"
ORDER: dict[type, int] = {
    Succeeded: 0,
    Retried: 1,
    Died: 2,
    Deferred: 3,
    Discarded: 4,
    Cancelled: 5,
}


_Run: TypeAlias = tuple[str, str, type, datetime, datetime, float, float, float]


class _Sums:
    __slots__ = ("ended", "ran", "runs", "waited", "waits")

    def __init__(self) -> None:
        self.ended = [0] * len(ORDER)
        self.waited = 0.0
        self.ran = 0.0
        self.waits = [0] * BUCKETS
        self.runs = [0] * BUCKETS


class Tally:
    """Counts runs. Any thread may add; one at a time adds up, and none waits for it."""

    def __init__(self) -> None:
        self._gathered: deque[_Run] = deque()
        self._sums: dict[tuple[str, str], _Sums] = {}
        self._adding_up = threading.Lock()

    def add(self, leased: LeasedMessage, ending: Ending) -> None:
        """Count a run that has ended."""
        claim = leased.claim
        # Not the message itself, which may be large.
        self._gathered.append(
            (claim.channel, claim.task, type(ending), claim.run_at, claim.claimed_at,
             leased.claimed, leased.started, leased.finished)
        )  # fmt: skip
        if len(self._gathered) >= GATHERED and self._adding_up.acquire(blocking=False):
            try:
                self._add_up()
            finally:
                self._adding_up.release()

    def store(self, connection: Connection) -> None:
        """Store what was counted since the last time; where that fails, it is kept.

        Raises:
            psycopg.Error: the database refused, or can't be reached.
        """
        with self._adding_up:
            self._add_up()
            taken, self._sums = self._sums, {}
        if not taken:
            return
        try:
            statistics.add(connection, [_counts(*each) for each in taken.items()])
        except BaseException:
            with self._adding_up:
                self._put_back(taken.items())
            raise

    def _add_up(self) -> None:
        for _ in range(len(self._gathered)):
            channel, task, ended, due, claimed_at, claimed, started, finished = (
                self._gathered.popleft()
            )
            index = ORDER.get(ended)
            if index is None:
                continue
            sums = self._of((channel, task))
            waited = max((claimed_at - due).total_seconds(), 0.0) + started - claimed
            ran = finished - started
            sums.ended[index] += 1
            sums.waited += waited
            sums.ran += ran
            sums.waits[statistics.bucket(waited)] += 1
            sums.runs[statistics.bucket(ran)] += 1

    def _of(self, pair: tuple[str, str]) -> _Sums:
        sums = self._sums.get(pair)
        if sums is None:
            if len(self._sums) >= MOST:
                pair = (OTHER, OTHER)
            sums = self._sums.setdefault(pair, _Sums())
        return sums

    def _put_back(self, taken: Iterable[tuple[tuple[str, str], _Sums]]) -> None:
        for pair, of in taken:
            sums = self._of(pair)
            sums.ended = [a + b for a, b in zip(sums.ended, of.ended, strict=True)]
            sums.waited += of.waited
            sums.ran += of.ran
            sums.waits = [a + b for a, b in zip(sums.waits, of.waits, strict=True)]
            sums.runs = [a + b for a, b in zip(sums.runs, of.runs, strict=True)]


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
