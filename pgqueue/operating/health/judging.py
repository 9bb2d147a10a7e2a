"""The status of a check, and the queue that checks look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, TypeAlias

from pgqueue.conf import settings
from pgqueue.engine import channels, health
from pgqueue.engine.live_counts import Stats, measure_all
from pgqueue.engine.values import Connection


class Status(StrEnum):
    """The result of a check. "Unknown" means that this role lacks a right: no reason to alarm."""

    OK = "ok"
    UNKNOWN = "unknown"
    WARNING = "warning"
    FAILING = "failing"


@dataclass(frozen=True, kw_only=True)
class HealthLimits:
    """The limits of the checks.

    Args:
        host: count only workers of this host; None: workers of all hosts.
        min_workers: with fewer living workers that run tasks, the check fails.
        max_age: seconds that the oldest message may have been ready; from half of them on it warns.
        max_dead: with more dead letters, the check warns.
        max_late: seconds that a duty may have been due.
        min_days: days after today that need a partition of history. With fewer the check warns;
            with none it fails.
        max_bloat: with more dead rows in the table of live messages, the check warns.
        max_horizon: seconds for which a transaction may keep dead rows from being vacuumed.
        max_connections: the share of the connections that may be in use.
        max_export: seconds since the last export to each target, where retention waits for it.
        max_lag: seconds that a group's next event, or an event without a position, may have waited;
            from half of them on the check warns.
        max_wal: megabytes of WAL that the WAL feed may be behind.
        max_failing: seconds for which a webhook's endpoint may have failed.
        max_locked: seconds for which a session may keep a lock of the queue.
        max_busy: seconds for which a worker may have had no free thread.
        max_notify: the share of the queue of notifications that may be full; at 0.9 it fails.
    """

    host: str | None = None
    min_workers: int = 1
    max_age: float = 300
    max_dead: int = 100
    max_late: float = 300
    min_days: int = 3
    max_bloat: int = 1_000_000
    max_horizon: float = 3600
    max_connections: float = 0.9
    max_export: float = 172_800
    max_lag: float = 300
    max_wal: int = 1024
    max_failing: float = 300
    max_locked: float = 60
    max_busy: float = 3600
    max_notify: float = 0.25


@dataclass(frozen=True)
class Check:
    """The result of one check.

    Attributes:
        said: the result in words.
        figures: the figures that the status depends on, in JSON's types.
    """

    name: str
    status: Status
    said: str
    figures: Mapping[str, Any] = field(default_factory=dict)


Judgement: TypeAlias = "tuple[Status, str, Mapping[str, Any]]"


@dataclass(frozen=True)
class ExaminedQueue:
    """The queue that the checks look at, and the limits."""

    alias: str
    connection: Connection
    limits: HealthLimits

    @cached_property
    def workers(self) -> Sequence[health.WorkerHealth]:
        """The processes with a heartbeat within a lease, on the host of the limits."""
        lease, host = settings().lease.total_seconds(), self.limits.host
        found = health.workers(self.connection)
        return [each for each in found if each.silent_for < lease and host in (None, each.host)]

    @cached_property
    def names(self) -> list[str]:
        """The channels; one more than `channels.MOST` where there are more."""
        return channels.in_use(self.connection, limit=channels.MOST + 1)

    @cached_property
    def stats(self) -> Mapping[str, Stats]:
        return measure_all(self.connection, self.names[: channels.MOST])

    @property
    def beyond(self) -> str:
        """A remark that not all channels were looked at; "": they were."""
        if len(self.names) <= channels.MOST:
            return ""
        return f"; of more channels, {channels.MOST} were looked at, from {self.names[0]}"


QueueCheck: TypeAlias = "Callable[[ExaminedQueue], Judgement]"


def status_of(value: float, *, warning: float, failing: float = float("inf")) -> Status:
    """Return the status of a value by its limits."""
    if value > failing:
        return Status.FAILING
    return Status.WARNING if value > warning else Status.OK


def worse(*statuses: Status) -> Status:
    """Return the worst of the statuses; OK if there are none."""
    return max(statuses, key=list(Status).index, default=Status.OK)
