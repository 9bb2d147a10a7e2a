from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import starmap
from typing import NamedTuple
from uuid import UUID

from pgqueue.database.sql_files import load
from pgqueue.engine import run_statistics
from pgqueue.engine.channels import in_use
from pgqueue.engine.live_counts import Stats, measure
from pgqueue.engine.run_statistics import CountingWindow, Counts
from pgqueue.engine.values import Connection

SQL = load(__name__)

RUNNING = 5000
"""Running messages that are read, of which some are shown."""
RUNNING_EACH = 5
LIMITED = 25
"""Keys that a limit holds back, at most, and as many channels."""
GATES = 200
"""Channels with a policy for the channel as a whole that are read, the first ones by name."""
DEAD_EACH = 500
"""The newest dead letters of each channel that are grouped."""
DEAD_CHANNELS = 10
DEAD_GROUPS = 25
STOPPED = 5000
"""Dead letters whose flows are read."""
STOPPED_FLOWS = 25


class Running(NamedTuple):
    """A message that a worker runs."""

    id: int
    channel: str
    task: str
    claimed_at: datetime


class Limited(NamedTuple):
    """A key, or a channel, whose messages may not start now.

    Attributes:
        what: "key" or "channel".
        state: "saturated" (max_running is reached), "throttled" (its rate is used up) or "stopped"
            (its circuit breaker is open, or waits for its probe).
        wake_at: when its rate or its breaker allows the next start.
        running: the number of its running messages.
    """

    what: str
    channel: str
    key: str
    state: str
    wake_at: datetime | None
    max_running: int | None
    rate: float | None
    per: timedelta | None
    running: int


class HeldBack(NamedTuple):
    """The keys and channels that limits hold back.

    Attributes:
        found: the keys and channels, ordered by name.
        is_all: whether there are surely no others.
    """

    found: Sequence[Limited]
    is_all: bool


class DeadGroup(NamedTuple):
    """Dead letters of one task that ended with the same error.

    Attributes:
        error: the class of the last error.
        message: the text of the newest letter's error.
        first_at: when the first letter failed for the first time.
        last_at: when the newest letter was claimed the last time.
        newest: the id of the newest letter.
        releases: the releases (`PGQUEUE["RELEASE"]`) in which they failed, the first one first.
    """

    channel: str
    task: str
    error: str
    message: str | None
    letters: int
    first_at: datetime
    last_at: datetime
    newest: int
    releases: Sequence[str]


class StoppedFlow(NamedTuple):
    """A flow that does not end, since some of its messages are dead."""

    id: int
    name: str
    created_at: datetime
    dead: int


class QueueSnapshot(NamedTuple):
    """The state of the queue at one moment.

    Attributes:
        at: the moment by the database's clock, like all instants in its tables.
        stats: the counts of each channel that was looked at.
        counts: the counts of runs within the window, by channel and task.
        running: some running messages of each worker.
        dead: dead letters by channel, task and error.
    """

    at: datetime
    stats: Mapping[str, Stats]
    counts: Sequence[Counts]
    running: Mapping[UUID, Sequence[Running]]
    dead: Sequence[DeadGroup]


def look(
    connection: Connection, window: CountingWindow, *, channels: Collection[str] = (), limit: int
) -> QueueSnapshot:
    """Return the state of the queue.

    Args:
        window: the time in which runs are counted.
        channels: the channels to look at; none: the first channels in use by name.
        limit: the most channels in use, and the most tasks: the ones with the most runs.
    """
    [[at]] = connection.execute(SQL["now"]).fetchall()
    names = sorted(channels) or in_use(connection)[:limit]
    stats = measure(connection, names)
    return QueueSnapshot(
        at,
        {name: stats[name] for name in names},
        run_statistics.by_task(connection, period=window.period, span=window.span, limit=limit),
        running(connection),
        dead(connection),
    )


def running(connection: Connection) -> Mapping[UUID, Sequence[Running]]:
    """Return some running messages of each worker, the longest running first."""
    found: defaultdict[UUID, list[Running]] = defaultdict(list)
    given = {"bound": RUNNING, "each": RUNNING_EACH}
    for worker, *row in connection.execute(SQL["running"], given):
        found[worker].append(Running(*row))
    return found


def limited(connection: Connection) -> HeldBack:
    """Return the lanes and channels that a limit holds back, and the limits."""
    given = {"bound": RUNNING, "limit": LIMITED, "gates": GATES}
    found = [Limited(*row) for row in connection.execute(SQL["limited"], given)]
    [[has_more]] = connection.execute(SQL["has_more_gates"], given).fetchall()
    by_kind = Counter(each.what for each in found)
    return HeldBack(found, not has_more and max(by_kind.values(), default=0) < LIMITED)


def dead(connection: Connection) -> list[DeadGroup]:
    """Return the newest dead letters by channel, task and error; the newest group comes first."""
    given = {"each": DEAD_EACH, "channels": DEAD_CHANNELS, "limit": DEAD_GROUPS}
    rows = connection.execute(SQL["dead"], given)
    return [
        group._replace(releases=_distinct(group.releases)) for group in starmap(DeadGroup, rows)
    ]


def stopped_flows(connection: Connection, *, limit: int = STOPPED_FLOWS) -> list[StoppedFlow]:
    """Return flows of the first dead letters, the oldest flow first."""
    given = {"bound": STOPPED, "limit": limit}
    return [StoppedFlow(*row) for row in connection.execute(SQL["stopped_flows"], given)]


def _distinct(releases: Sequence[str | None]) -> list[str]:
    return [each for each in dict.fromkeys(releases) if each is not None]
