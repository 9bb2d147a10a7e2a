"""What the queue does now, as commands show it: each statement reads a bounded number of rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, NamedTuple

from django.db.models import DurationField, ExpressionWrapper, F, QuerySet

from pgqueue.conf import settings
from pgqueue.connections import borrow
from pgqueue.engine import channels, health, overview, statistics
from pgqueue.engine.overview import DeadGroup, Running
from pgqueue.engine.statistics import HOUR, MINUTE, Counts, quantile
from pgqueue.engine.stats import Stats, measure
from pgqueue.management.rows import plain
from pgqueue.models import Worker
from pgqueue.models.clock import StatementTimestamp

CHANNELS = 100
TASKS = 100
WORKERS = 100
WINDOWS = {
    "hour": (MINUTE, timedelta(hours=1)),
    "day": (HOUR, timedelta(days=1)),
    "month": (HOUR, timedelta(days=30)),
}
"""How far back runs are counted, and in which periods they are kept."""
OUTCOMES = ("succeeded", "failed", "dead", "deferred", "discarded", "cancelled")


class ChannelSeen(NamedTuple):
    """A channel, what it has now, and how many of its runs raised within the window."""

    name: str
    stats: Stats
    is_paused: bool
    raised: int


class WorkerSeen(NamedTuple):
    """A worker, and some of what it runs, the longest first."""

    host: str
    pid: int
    channels: Sequence[str] | None
    silent_for: timedelta
    is_alive: bool
    running: Sequence[Running]


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """What is seen of one moment."""

    window: str
    channels: Sequence[ChannelSeen]
    tasks: Sequence[Counts]
    workers: Sequence[WorkerSeen]
    dead: Sequence[DeadGroup]


def look(alias: str, window: str, only: Collection[str] = ()) -> Snapshot:
    """Look at the queue, on this thread's connection of Django's.

    Args:
        alias: the database.
        window: how far back runs are counted: a name of `WINDOWS`.
        only: these channels; none: those in use, the first ones by name.

    Raises:
        django.db.Error: the database refused, or can't be reached.
    """
    period, span = WINDOWS[window]
    with borrow(alias) as connection:
        names = sorted(only) or channels.in_use(connection)[:CHANNELS]
        stats, paused = measure(connection, names), health.paused(connection)
        counts = statistics.by_task(connection, period=period, span=span, limit=TASKS)
        running, dead = overview.running(connection), overview.dead(connection)
    return Snapshot(
        window=window,
        channels=[
            ChannelSeen(name, stats[name], name in paused, _raised(counts, name)) for name in names
        ],
        tasks=[each for each in counts if not only or each.channel in only],
        workers=_workers(alias, running),
        dead=[each for each in dead if not only or each.channel in only],
    )


def _raised(counts: Sequence[Counts], channel: str) -> int:
    return sum(each.failed + each.dead for each in counts if each.channel == channel)


def _workers(alias: str, running: Mapping[Any, Sequence[Running]]) -> list[WorkerSeen]:
    silent_for = ExpressionWrapper(StatementTimestamp() - F("last_seen"), DurationField())
    rows: QuerySet[Any] = Worker.objects.using(alias).annotate(silent_for=silent_for)
    lease = settings().lease
    return [
        WorkerSeen(
            each.host,
            each.pid,
            each.channels,
            max(each.silent_for, timedelta()),
            each.silent_for < lease,
            running.get(each.pk, []),
        )
        for each in rows.order_by("-last_seen", "host", "pid")[:WORKERS]
    ]


def as_json(seen: Snapshot) -> dict[str, Any]:
    """Return a snapshot as the JSON document of `pgqueue_stats`. Durations are seconds."""
    return {
        "window": seen.window,
        "channels": {each.name: _channel(each) for each in seen.channels},
        "tasks": [_task(each) for each in seen.tasks],
        "workers": [_worker(each) for each in seen.workers],
        "dead": [
            {name: plain(value) for name, value in each._asdict().items()} for each in seen.dead
        ],
    }


def _channel(each: ChannelSeen) -> dict[str, Any]:
    return {**stats_as_json(each.stats), "paused": each.is_paused, "raised": each.raised}


def stats_as_json(stats: Stats) -> dict[str, Any]:
    """Return the counts of a channel as JSON has them."""
    age = stats.oldest_ready_age
    return {
        **asdict(stats),
        "oldest_ready_age": None if age is None else age.total_seconds(),
        "estimated": sorted(stats.estimated),
    }


def _task(counts: Counts) -> dict[str, Any]:
    return {
        "channel": counts.channel,
        "task": counts.task,
        "runs": counts.total,
        **{name: getattr(counts, name) for name in OUTCOMES},
        "failure_rate": counts.failure_rate,
        "wait_p50": quantile(counts.waits, 0.5),
        "wait_p95": quantile(counts.waits, 0.95),
        "run_p50": quantile(counts.runs, 0.5),
        "run_p95": quantile(counts.runs, 0.95),
    }


def _worker(each: WorkerSeen) -> dict[str, Any]:
    return {
        "host": each.host,
        "pid": each.pid,
        "channels": each.channels,
        "alive": each.is_alive,
        "silent_for": each.silent_for.total_seconds(),
        "running": [
            {name: plain(value) for name, value in run._asdict().items()} for run in each.running
        ],
    }
