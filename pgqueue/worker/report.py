"""The reports of a worker's process: to its supervisor, and to scrapers of its metrics."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic

from pgqueue.claiming.run_counts import add_up
from pgqueue.engine.run_statistics import Counts, Pair
from pgqueue.worker.parent import REPORT, RUNS


@dataclass(frozen=True, kw_only=True)
class ProcessReport:
    """The state of one process at a moment, and its counts until then.

    Attributes:
        slots: the number of tasks that it runs at once.
        running: the number of tasks that run.
        buffered: the number of claimed messages that wait for their turn.
        unsettled: the number of runs that have ended, and are not written yet.
        claims: the number of statements that claimed.
        claimed: the number of claimed messages.
        leases_lost: the number of runs that could not be settled, since their lease was lost.
        busy_for: seconds for which none of its threads has been free.
        is_too_busy: whether `busy_for` exceeds the limit.
        silence: seconds since the database accepted a heartbeat; None: it has accepted none so far.
        stuck: the names of its stuck services.
        at: the time of the report, by the monotonic clock of the process that holds it.
    """

    slots: int = 0
    running: int = 0
    buffered: int = 0
    unsettled: int = 0
    claims: int = 0
    claimed: int = 0
    leases_lost: int = 0
    busy_for: float = 0.0
    is_too_busy: bool = False
    silence: float | None = None
    stuck: Sequence[str] = ()
    at: float

    @property
    def silent_for(self) -> float | None:
        """The `silence` until now: it includes the time since the report."""
        return None if self.silence is None else self.silence + monotonic() - self.at


@dataclass(frozen=True, kw_only=True)
class WorkerSnapshot:
    """The state of a worker with one or more processes, and its counts since the start.

    Attributes:
        reports: the reports of the living processes that have reported.
        runs: the counts of all runs, including processes that have ended.
        claims: as in a report, of all processes so far.
        claimed: likewise.
        leases_lost: likewise.
        started: the number of processes that were started.
        died: the number of processes that ended without a request.
        complaints: further reasons why the worker is unhealthy, in addition to the reports.
    """

    reports: Sequence[ProcessReport] = ()
    runs: Sequence[Counts] = ()
    claims: int = 0
    claimed: int = 0
    leases_lost: int = 0
    started: int = 1
    died: int = 0
    complaints: Sequence[str] = ()

    def not_alive(self) -> list[str]:
        """Return the reasons to restart it; none: it is alive, with or without a database."""
        stuck = sorted({name for each in self.reports for name in each.stuck})
        busy = max((each.busy_for for each in self.reports if each.is_too_busy), default=0)
        occupied = [f"no thread has been free for {busy:.0f} s"] if busy else []
        return [*self.complaints, *(f"stuck: {name}" for name in stuck), *occupied]

    def not_working(self, lease: timedelta) -> list[str]:
        """Return the reasons why it does not work: it is not alive, or the database is away.

        Args:
            lease: the longest time without a heartbeat that the database accepted.
        """
        return [*self.not_alive(), *_silence(self.reports, lease.total_seconds())]


def _silence(reports: Sequence[ProcessReport], longest: float) -> list[str]:
    silences = [each.silent_for for each in reports]
    known = [each for each in silences if each is not None]
    if not known:  # one new process without a heartbeat yet is no reason
        return ["the database has taken no heartbeat so far"]
    if max(known) > longest:
        return [f"the database has taken no heartbeat for {max(known):.0f} s"]
    return []


class Reports:
    """The reports of one process so far. Its supervisor keeps them."""

    def __init__(self) -> None:
        self.last: ProcessReport | None = None
        self.runs: dict[Pair, Counts] = {}

    def take(self, message: bytes) -> None:
        """Read a message of a `health.Reporter`."""
        if message.startswith(REPORT):
            told = json.loads(message.removeprefix(REPORT))
            self.last = ProcessReport(**told | {"at": monotonic()})
        else:
            counts = Counts(*json.loads(message.removeprefix(RUNS)))
            self.runs[counts.channel, counts.task] = counts


class Gathered:
    """The reports of all processes of a supervisor, including processes that have ended."""

    def __init__(self) -> None:
        self.started = 0
        self.died = 0
        self._runs: dict[Pair, Counts] = {}
        self._claims = self._claimed = self._leases_lost = 0

    def keep(self, ended: Reports) -> None:
        """Add the counts of a process that has ended."""
        add_up(self._runs, ended.runs.values())
        if last := ended.last:
            self._claims += last.claims
            self._claimed += last.claimed
            self._leases_lost += last.leases_lost

    def with_those(self, living: Iterable[Reports], complaints: Sequence[str]) -> WorkerSnapshot:
        """Return the counts of all processes, and the state of the living ones.

        Args:
            complaints: further reasons why the worker is unhealthy.
        """
        runs, reports = dict(self._runs), []
        for each in living:
            add_up(runs, each.runs.values())
            if each.last:
                reports.append(each.last)
        return WorkerSnapshot(
            reports=reports,
            runs=list(runs.values()),
            claims=self._claims + sum(each.claims for each in reports),
            claimed=self._claimed + sum(each.claimed for each in reports),
            leases_lost=self._leases_lost + sum(each.leases_lost for each in reports),
            started=self.started,
            died=self.died,
            complaints=complaints,
        )
