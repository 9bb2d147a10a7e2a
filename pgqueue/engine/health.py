"""Read the figures of the queue's health, at a cost that does not grow with the queue."""

from __future__ import annotations

from typing import Any, NamedTuple

from pgqueue.database.sql_files import load
from pgqueue.engine.values import Connection

SQL = load(__name__)


class WorkerHealth(NamedTuple):
    """A worker, and the seconds since its last heartbeat.

    Its kind is "worker" (runs tasks), "consumer" (receives messages), "driver" (has workers on
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
    """A duty: the seconds since it was due, since it was done, and since it has been failing.

    `late` is negative before the duty is due. `failing_for` is None if it has not failed since it
    was last done.
    """

    name: str
    late: float
    done_ago: float | None
    failing_for: float | None


class Size(NamedTuple):
    """The size of the table of live messages; its rows are PostgreSQL's estimates."""

    table_bytes: int
    index_bytes: int
    rows: int
    dead_rows: int


class Holder(NamedTuple):
    """A transaction or a slot that keeps dead rows from VACUUM; a slot has no known seconds."""

    kind: str
    who: str
    transactions: int
    seconds: float | None


class GroupSeen(NamedTuple):
    """A group of the log. The group without a name dispatches to subscriptions.

    Attributes:
        lag: the number of positions after its slowest partition.
        stopped: how many of its partitions an event has stopped.
        is_cut_off: whether retention has removed its next event.
        seconds: the seconds since its next event was published; None: there is no next event.
    """

    name: str
    lag: int
    stopped: int
    is_cut_off: bool
    seconds: float | None


class WebhookSeen(NamedTuple):
    """A webhook that was stopped, or whose endpoint failed the last time.

    Attributes:
        stopped: the reason why a worker paused or disabled it; "": no worker did.
        failures: the failures that were noted since its last success.
        failing_for: seconds since the first of these failures; None: there is none.
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
    """Return the number of days after today with a partition of history; -1: today has none."""
    return int(_row(connection, "days_ahead")[0])


def size(connection: Connection) -> Size:
    """Return the size of the table of live messages."""
    return Size(*_row(connection, "size"))


def holders(connection: Connection) -> list[Holder]:
    """Return the holders of the xmin horizon that this role may see, the oldest first."""
    return [Holder(*row) for row in connection.execute(SQL["horizon"])]


class Locked(NamedTuple):
    """A lock that a session has: its kind, the session, and its seconds.

    The seconds are None if this role may not see them.
    """

    what: str
    who: str
    seconds: float | None


def locks(connection: Connection) -> list[Locked]:
    """Return the locks of sessions which other sessions may need, the longest first."""
    return [Locked(*row) for row in connection.execute(SQL["locks"])]


def hidden(connection: Connection) -> int:
    """Return the number of sessions whose details this role may not see."""
    return int(_row(connection, "hidden")[0])


def connections(connection: Connection) -> tuple[int, int]:
    """Return the number of the server's connections, and the number that it accepts."""
    used, most = _row(connection, "connections")
    return used, most


def notifications(connection: Connection) -> tuple[float, list[str]]:
    """Return the full share of the queue of notifications, and the oldest transactions.

    The queue is not emptied while a listening session is in an old transaction.
    """
    used, oldest = _row(connection, "notifications")
    return used, oldest


def groups(connection: Connection) -> list[GroupSeen]:
    """Return all groups of the log, ordered by name."""
    return [GroupSeen(*row) for row in connection.execute(SQL["groups"])]


def flows(connection: Connection, *, bound: int) -> tuple[int, int]:
    """Return the number of flows that have not ended, and the number with a dead message.

    Args:
        bound: the most flows, and the most dead letters, that are counted.
    """
    living, stopped = connection.execute(SQL["flows"], {"bound": bound}).fetchone() or (0, 0)
    return living, stopped


def schedules(connection: Connection, *, limit: int) -> list[tuple[str, float]]:
    """Return schedules, each with the seconds since its next tick was due, the latest first."""
    return connection.execute(SQL["schedules"], {"limit": limit}).fetchall()


def subscriptions(connection: Connection, *, limit: int) -> list[tuple[str, int]]:
    """Return subscriptions with their own position, each with the number of its waiting events."""
    return connection.execute(SQL["subscriptions"], {"limit": limit}).fetchall()


def webhooks(connection: Connection) -> list[WebhookSeen]:
    """Return the webhooks that a worker has stopped or that fail now, ordered by name."""
    return [WebhookSeen(*row) for row in connection.execute(SQL["webhooks"])]


def _row(connection: Connection, name: str) -> tuple[Any, ...]:
    row = connection.execute(SQL[name]).fetchone()
    return tuple(row or ())
