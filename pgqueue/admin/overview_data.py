"""The data of the overview; each statement reads a bounded number of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, NamedTuple

from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from pgqueue.conf import settings
from pgqueue.database.connections import borrow
from pgqueue.engine import health, overview, run_statistics
from pgqueue.engine.live_counts import Stats
from pgqueue.engine.overview import DeadGroup, HeldBack, Running, StoppedFlow
from pgqueue.engine.run_statistics import (
    HOUR,
    MINUTE,
    CountingWindow,
    Counts,
    PeriodCounts,
    quantile,
)
from pgqueue.models import Duty, Schedule, Subscription, Webhook, Worker
from pgqueue.tasks import redacting

ROWS_OF_MANY = 50
"""The most channels, tasks and workers that are shown."""
ROWS = 25
LATE = timedelta(minutes=5)
STARTED_BEFORE = timedelta(minutes=15)
"""The longest time from a worker's start to failures that it may have caused."""


LABELS = {
    "hour": _("The last hour"),
    "day": _("The last 24 hours"),
    "month": _("The last 30 days"),
}
"""The labels of `WINDOWS`."""


class ChannelRow(NamedTuple):
    """A channel with its current counts."""

    name: str
    stats: Stats
    about: frozenset[str]


class TaskRow(NamedTuple):
    """A task in a channel, with the outcomes of its runs."""

    counts: Counts
    wait_p50: float | None
    wait_p95: float | None
    run_p50: float | None
    run_p95: float | None

    @property
    def failure_percent(self) -> float:
        """The percentage of runs that raised an error."""
        return 100 * self.counts.failure_rate


class WorkerRow(NamedTuple):
    """A worker, and some of its running messages."""

    worker: Worker
    is_alive: bool
    running: Sequence[Running]


class DutyRow(NamedTuple):
    """A duty, and whether it is far overdue."""

    duty: Duty
    is_late: bool


class DeadRow(NamedTuple):
    """A group of dead letters, and the last worker that started before they began to fail."""

    group: DeadGroup
    started: Worker | None


@dataclass(frozen=True, kw_only=True)
class OverviewSnapshot:
    """The data of the overview at one moment."""

    at: datetime
    window: CountingWindow
    channels: Sequence[ChannelRow]
    tasks: Sequence[TaskRow]
    periods: Sequence[PeriodCounts]
    workers: Sequence[WorkerRow]
    limited: HeldBack
    dead: Sequence[DeadRow]
    flows: Sequence[StoppedFlow]
    duties: Sequence[DutyRow]
    schedules: Sequence[Schedule]
    groups: Sequence[health.GroupSeen]
    subscriptions: Sequence[Subscription]
    webhooks: Sequence[Webhook]

    @cached_property
    def totals(self) -> Mapping[str, Any]:
        """The sums, for the headline."""
        runs = sum(each.total for each in self.periods)
        failures = sum(each.raised for each in self.periods)
        waited = sum(each.waited for each in self.periods)
        ran = sum(each.ran for each in self.periods)
        return {
            "ready": sum(each.stats.ready for each in self.channels),
            "running": sum(each.stats.running for each in self.channels),
            "dead": sum(each.stats.dead for each in self.channels),
            "workers": sum(each.is_alive for each in self.workers),
            "runs": runs,
            "failures": failures,
            "per_minute": runs / (self.window.span / timedelta(minutes=1)),
            "failure_percent": 100 * failures / runs if runs else 0.0,
            "wait": waited / runs if runs else None,
            "run": ran / runs if runs else None,
        }

    @cached_property
    def chart(self) -> Mapping[str, Sequence[float | None]]:
        """The series of the charts, by time in seconds since 1970, without gaps."""
        step = timedelta(minutes=1) if self.window.period == MINUTE else timedelta(hours=1)
        known = {each.at: each for each in self.periods}
        last = self.at.replace(second=0, microsecond=0)
        if self.window.period == HOUR:
            last = last.replace(minute=0)
        times = [last - n * step for n in range(self.window.span // step)][::-1]
        none = PeriodCounts(last, 0, 0, 0, 0.0, 0.0, 0)
        each = [known.get(time, none) for time in times]
        return {
            "at": [time.timestamp() for time in times],
            "succeeded": [period.succeeded for period in each],
            "failed": [period.raised for period in each],
            "wait": [period.mean_wait for period in each],
            "run": [period.mean_run for period in each],
        }


def look(alias: str, window: CountingWindow) -> OverviewSnapshot:
    """Read the data of the overview.

    Args:
        alias: the alias of the queue's database.
        window: the period of the counts of runs.

    Raises:
        django.db.Error, psycopg.Error: the database refuses a statement, or is unreachable.
    """
    with borrow(alias) as connection:
        seen = overview.look(connection, window, limit=ROWS_OF_MANY)
        periods = run_statistics.over_time(connection, period=window.period, span=window.span)
        limited = overview.limited(connection)
        flows = overview.stopped_flows(connection)
        groups = health.groups(connection)
    now, workers = seen.at, _workers(alias)
    lease = settings().lease
    return OverviewSnapshot(
        at=now,
        window=window,
        channels=[ChannelRow(name, stats, stats.estimated) for name, stats in seen.stats.items()],
        tasks=[_task_row(each) for each in seen.counts],
        periods=periods,
        workers=[
            WorkerRow(each, each.last_seen > now - lease, seen.running.get(each.pk, []))
            for each in workers
        ],
        limited=limited,
        dead=[DeadRow(group, _started_before(group.first_at, workers)) for group in seen.dead],
        flows=flows,
        duties=[
            DutyRow(each, each.due_at < now - LATE)
            for each in Duty.objects.using(alias).order_by("name")
        ],
        schedules=_schedules(alias),
        groups=groups,
        subscriptions=list(
            Subscription.objects.using(alias)
            .filter(Q(paused=True) | Q(follows=False) | ~Q(error=""))
            .order_by("position", "name")[:ROWS]
        ),
        webhooks=list(
            Webhook.objects.using(alias)
            .filter(Q(failing_since__isnull=False) | Q(paused=True) | Q(enabled=False))
            .order_by("failing_since", "name")[:ROWS]
        ),
    )


def _task_row(counts: Counts) -> TaskRow:
    return TaskRow(
        counts,
        quantile(counts.waits, 0.5),
        quantile(counts.waits, 0.95),
        quantile(counts.runs, 0.5),
        quantile(counts.runs, 0.95),
    )


def _workers(alias: str) -> list[Worker]:
    return list(Worker.objects.using(alias).order_by("-last_seen", "host", "pid")[:ROWS_OF_MANY])


def _started_before(moment: datetime, workers: Sequence[Worker]) -> Worker | None:
    """Return the last worker that started before a moment, if it started shortly before."""
    before = [each for each in workers if moment - STARTED_BEFORE <= each.started_at <= moment]
    return max(before, key=lambda each: each.started_at, default=None)


def _schedules(alias: str) -> list[Schedule]:
    """Return the next schedules; their errors are redacted like their arguments."""
    rows = list(Schedule.objects.using(alias).order_by("paused", "next_at", "name")[:ROWS])
    for row in rows:
        if row.error:
            row.error = redacting.redacted_call(row.task, row.args, row.kwargs)[2](row.error)
    return rows
