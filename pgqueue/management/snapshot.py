"""The current state of the queue for commands; each statement reads a bounded number of rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, NamedTuple

from pgqueue.conf import settings
from pgqueue.database.connections import borrow
from pgqueue.engine import overview
from pgqueue.engine.live_counts import Stats
from pgqueue.engine.overview import DeadGroup, QueueSnapshot, Running
from pgqueue.engine.run_statistics import (
    OUTCOMES,
    WINDOWS,
    Counts,
    quantile,
)
from pgqueue.management.rows import plain
from pgqueue.models import Worker

LIMIT = 100
"""The most channels, tasks and workers that are shown."""


class ChannelSeen(NamedTuple):
    """A channel with its current counts, and its failed runs within the window."""

    name: str
    stats: Stats
    raised: int


class WorkerSeen(NamedTuple):
    """A worker, and some of its running messages, the longest run first."""

    host: str
    pid: int
    channels: Sequence[str] | None
    silent_for: timedelta
    is_alive: bool
    running: Sequence[Running]


@dataclass(frozen=True, kw_only=True)
class WatchSnapshot:
    """The state of the queue at one moment."""

    window: str
    channels: Sequence[ChannelSeen]
    tasks: Sequence[Counts]
    workers: Sequence[WorkerSeen]
    dead: Sequence[DeadGroup]


def look(alias: str, window: str, only: Collection[str] = ()) -> WatchSnapshot:
    """Return the state of the queue, read on this thread's connection of Django.

    Args:
        alias: The alias of the database.
        window: The period of counted runs: a name of `WINDOWS`.
        only: The channels to read; empty: the first used channels by name.

    Raises:
        django.db.Error: the database refuses a statement, or is unreachable.
    """
    with borrow(alias) as connection:
        seen = overview.look(connection, WINDOWS[window], channels=only, limit=LIMIT)
    return WatchSnapshot(
        window=window,
        channels=[
            ChannelSeen(name, stats, _raised(seen.counts, name))
            for name, stats in seen.stats.items()
        ],
        tasks=[each for each in seen.counts if not only or each.channel in only],
        workers=_workers(alias, seen),
        dead=[each for each in seen.dead if not only or each.channel in only],
    )


def _raised(counts: Sequence[Counts], channel: str) -> int:
    return sum(each.raised for each in counts if each.channel == channel)


def _workers(alias: str, seen: QueueSnapshot) -> list[WorkerSeen]:
    lease = settings().lease
    return [
        WorkerSeen(
            each.host,
            each.pid,
            each.channels,
            silent_for := max(seen.at - each.last_seen, timedelta()),
            silent_for < lease,
            seen.running.get(each.pk, []),
        )
        for each in Worker.objects.using(alias).order_by("-last_seen", "host", "pid")[:LIMIT]
    ]


def as_json(seen: WatchSnapshot) -> dict[str, Any]:
    """Return a snapshot as the JSON document of `pgqueue_stats`; durations are seconds."""
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
    return {**stats_as_json(each.stats), "raised": each.raised}


def stats_as_json(stats: Stats) -> dict[str, Any]:
    """Return the counts of a channel as a JSON object."""
    age, until = stats.oldest_ready_age, stats.paused_until
    return {
        **asdict(stats),
        "paused_until": None if until is None else until.isoformat(),
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
