"""Figures that tell whether the queue is healthy. Their cost does not grow with the queue."""

from __future__ import annotations

from typing import Any, NamedTuple

from pgqueue.database.sql_files import load
from pgqueue.engine.values import Connection

SQL = load(__name__)


class WorkerHealth(NamedTuple):
    """A worker, and for how many seconds it has been silent.

    Its kind: "worker" (runs tasks), "consumer" (receives messages), "driver" (has workers on
    a cluster) or "duties" (does only duties).
    """

    kind: str
    host: str
    pid: int
    version: str | None
    silent_for: float
    busy_for: float
    """Seconds for which none of its threads has been free; 0: less than a minute."""
    left_out: int
    """Rows that the process leaves out, since statements fail with them."""


class DutySeen(NamedTuple):
    """A duty: the seconds since it was due (negative: not due yet), and since it was done.

    And since it first failed since then; None: it did not.
    """

    name: str
    late: float
    done_ago: float | None
    failing_for: float | None


class Size(NamedTuple):
    """The size of the table of live messages; rows as PostgreSQL estimates them."""

    table_bytes: int
    index_bytes: int
    rows: int
    dead_rows: int


class Holder(NamedTuple):
    """What keeps dead rows from being vacuumed; for a replication slot, no seconds are known."""

    kind: str
    who: str
    transactions: int
    seconds: float | None


class GroupSeen(NamedTuple):
    """A group of the log. The one without a name dispatches to subscriptions.

    Attributes:
        lag: how many positions are after its slowest partition's.
        stopped: how many of its partitions an event has stopped.
        is_cut_off: what it has to read next was removed by retention.
        seconds: since its next event was published; None: there is none.
    """

    name: str
    lag: int
    stopped: int
    is_cut_off: bool
    seconds: float | None


class WebhookSeen(NamedTuple):
    """A webhook that was stopped, or whose endpoint failed the last time.

    Attributes:
        stopped: why it was paused or disabled by a worker; "": it was not.
        failures: that were noted since its last success.
        failing_for: seconds since the first of them; None: there is none.
    """

    name: str
    stopped: str
    failures: int
    failing_for: float | None


def workers(connection: Connection) -> list[WorkerHealth]:
    """Return all workers and consumers that have a row, alive or not."""
    return [WorkerHealth(*row) for row in connection.execute(SQL["workers"])]


def paused(connection: Connection) -> set[str]:
    """Return the channels that are paused."""
    return {name for (name,) in connection.execute(SQL["paused"])}


def duties(connection: Connection) -> list[DutySeen]:
    """Return the state of each duty."""
    return [DutySeen(*row) for row in connection.execute(SQL["duties"])]


def days_ahead(connection: Connection) -> int:
    """Return how many days after today have a partition of history; -1: today has none."""
    return int(_row(connection, "days_ahead")[0])


def size(connection: Connection) -> Size:
    """Return how large the table of live messages is."""
    return Size(*_row(connection, "size"))


def holders(connection: Connection) -> list[Holder]:
    """Return what holds the xmin horizon back, as far as this role may see it, oldest first."""
    return [Holder(*row) for row in connection.execute(SQL["horizon"])]


class Locked(NamedTuple):
    """A lock that a session has: its kind, the session, and for how many seconds.

    None: this role may not see since when.
    """

    what: str
    who: str
    seconds: float | None


def locks(connection: Connection) -> list[Locked]:
    """Return the sessions that have locks which others may need, the longest first."""
    return [Locked(*row) for row in connection.execute(SQL["locks"])]


def hidden(connection: Connection) -> int:
    """Return how many sessions' details this role may not see."""
    return int(_row(connection, "hidden")[0])


def connections(connection: Connection) -> tuple[int, int]:
    """Return how many connections the server has, and how many it accepts."""
    used, most = _row(connection, "connections")
    return used, most


def notifications(connection: Connection) -> tuple[float, list[str]]:
    """Return the share of the notification queue that is full, and the oldest transactions.

    A session that listens in an old transaction keeps the queue from being emptied.
    """
    used, oldest = _row(connection, "notifications")
    return used, oldest


def groups(connection: Connection) -> list[GroupSeen]:
    """Return all groups of the log, by their names."""
    return [GroupSeen(*row) for row in connection.execute(SQL["groups"])]


def flows(connection: Connection, *, bound: int) -> tuple[int, int]:
    """Return how many flows have not ended, and how many of these have a dead message.

    Args:
        bound: so many flows, and dead letters, are looked at, at most.
    """
    living, stopped = connection.execute(SQL["flows"], {"bound": bound}).fetchone() or (0, 0)
    return living, stopped


def schedules(connection: Connection, *, limit: int) -> list[tuple[str, float]]:
    """Return schedules, and for how many seconds their next tick has been due; latest first."""
    return connection.execute(SQL["schedules"], {"limit": limit}).fetchall()


def subscriptions(connection: Connection, *, limit: int) -> list[tuple[str, int]]:
    """Return subscriptions with a position of their own, and their events; most first."""
    return connection.execute(SQL["subscriptions"], {"limit": limit}).fetchall()


def webhooks(connection: Connection) -> list[WebhookSeen]:
    """Return the webhooks that a worker has stopped or that fail now, by their names."""
    return [WebhookSeen(*row) for row in connection.execute(SQL["webhooks"])]


def _row(connection: Connection, name: str) -> tuple[Any, ...]:
    row = connection.execute(SQL[name]).fetchone()
    return tuple(row or ())
