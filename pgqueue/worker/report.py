"""What a worker's process tells of itself: to its supervisor, and to those who scrape it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic

from pgqueue.claiming.run_counts import add_up
from pgqueue.engine.run_statistics import Counts, Pair
from pgqueue.threads.service import Service
from pgqueue.worker.parent import REPORT, RUNS, Superior

EVERY = timedelta(seconds=1)


@dataclass(frozen=True, kw_only=True)
class ProcessReport:
    """What one process does at a moment, and what it has done until then.

    Attributes:
        slots: how many tasks it runs at once.
        running: how many it runs.
        buffered: messages that it has claimed, and that wait for their turn.
        unsettled: runs that have ended, and are not written yet.
        claims: how many statements it has claimed with.
        claimed: how many messages it has claimed.
        leases_lost: how many runs could not be settled, since their lease was lost.
        busy_for: seconds for which none of its threads has been free.
        is_too_busy: whether that is longer than it may be.
        silence: seconds since the database took its last heartbeat; None: it took none so far.
        stuck: the names of what is stuck in it.
        at: when that was so, by the monotonic clock of who has the report.
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
        """As `silence`, by now: a report of long ago tells of no heartbeat since."""
        return None if self.silence is None else self.silence + monotonic() - self.at


@dataclass(frozen=True, kw_only=True)
class WorkerSnapshot:
    """What a worker does, in however many processes, and what it has done since it began.

    Attributes:
        reports: of the processes that live, and have reported.
        runs: the counts of all runs, also of processes that have ended.
        claims: as in a report, of all processes so far.
        claimed: likewise.
        leases_lost: likewise.
        started: how many processes were started.
        died: how many of them ended unasked.
        complaints: why the worker is not well, beside what the reports say.
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
        """Return why it should be restarted; nothing: it is alive, with a database or without."""
        stuck = sorted({name for each in self.reports for name in each.stuck})
        busy = max((each.busy_for for each in self.reports if each.is_too_busy), default=0)
        occupied = [f"no thread has been free for {busy:.0f} s"] if busy else []
        return [*self.complaints, *(f"stuck: {name}" for name in stuck), *occupied]

    def not_working(self, lease: timedelta) -> list[str]:
        """Return why it does not work: it is not alive, or the database is not.

        Args:
            lease: for so long the database may take no heartbeat.
        """
        return [*self.not_alive(), *_silence(self.reports, lease.total_seconds())]


def _silence(reports: Sequence[ProcessReport], longest: float) -> list[str]:
    silences = [each.silent_for for each in reports]
    known = [each for each in silences if each is not None]
    if not known:  # a process that has just replaced another one is no reason
        return ["the database has taken no heartbeat so far"]
    if max(known) > longest:
        return [f"the database has taken no heartbeat for {max(known):.0f} s"]
    return []


class Reporter(Service):
    """Sends the supervisor, once a second, a report, and the counts that have changed since.

    Args:
        report: makes a report.
        totals: returns the counts of all runs so far.
    """

    def __init__(
        self,
        parent: Superior,
        report: Callable[[], ProcessReport],
        totals: Callable[[], Iterable[Counts]],
    ) -> None:
        super().__init__()
        self._parent = parent
        self._report_now = report
        self._totals = totals
        self._told: dict[Pair, int] = {}

    def tick(self) -> timedelta:
        """Report once. What the pipe has no room for is told the next time."""
        told = self._report_now().__dict__ | {"at": 0}
        self._parent.say(REPORT + json.dumps(told).encode())
        for each in self._totals():
            pair = each.channel, each.task
            total = each.total + each.released
            if self._told.get(pair) == total:
                continue
            if not self._parent.say(RUNS + json.dumps(each).encode()):
                break
            self._told[pair] = total
        return EVERY

    def finish(self) -> None:
        """Report what has ended last."""
        self.tick()


class Reports:
    """What one process has reported so far, as its supervisor keeps it."""

    def __init__(self) -> None:
        self.last: ProcessReport | None = None
        self.runs: dict[Pair, Counts] = {}

    def take(self, message: bytes) -> None:
        """Take a message of a `Reporter`."""
        if message.startswith(REPORT):
            told = json.loads(message.removeprefix(REPORT))
            self.last = ProcessReport(**told | {"at": monotonic()})
        else:
            counts = Counts(*json.loads(message.removeprefix(RUNS)))
            self.runs[counts.channel, counts.task] = counts


class Gathered:
    """What the processes of a supervisor have reported, also those that have ended."""

    def __init__(self) -> None:
        self.started = 0
        self.died = 0
        self._runs: dict[Pair, Counts] = {}
        self._claims = self._claimed = self._leases_lost = 0

    def keep(self, ended: Reports) -> None:
        """Keep what a process has done that has ended."""
        add_up(self._runs, ended.runs.values())
        if last := ended.last:
            self._claims += last.claims
            self._claimed += last.claimed
            self._leases_lost += last.leases_lost

    def with_those(self, living: Iterable[Reports], complaints: Sequence[str]) -> WorkerSnapshot:
        """Return what all of them have done, and what the living do.

        Args:
            complaints: why the worker is not well, beside what they report.
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
