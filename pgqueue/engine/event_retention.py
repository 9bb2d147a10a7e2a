"""Drop the partitions of the log whose retention is over, from its front.

The first partition is dropped once it is full, its youngest event is too old, and all groups and
subscriptions have passed it. On request, exports must have passed it, too. The floor is raised
before the drop. So a reader with a position below the floor gets an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from psycopg.sql import SQL as Text

from pgqueue.database.sql_files import load
from pgqueue.engine import log, partitioning
from pgqueue.engine.event_partitions import SIZE, TABLE
from pgqueue.engine.partitioning import Log, PartitionToDrop
from pgqueue.engine.values import Connection

SQL = load(__name__)


def drop(
    connection: Connection,
    *,
    keep: timedelta,
    max_age: timedelta | None = None,
    exports_first: bool = False,
) -> int | None:
    """Drop the first partition if its retention is over, as `partitioning.drop` does.

    The next call continues with the next partition.

    Args:
        connection: in autocommit, and used for nothing else: its time-outs are changed.
        keep: how long an event is kept at least.
        max_age: the age at which a partition is dropped even if a group has not passed it; None:
            it waits for all groups.
        exports_first: drop a partition only after all targets of exports have its events.

    Returns:
        The number of dropped partitions; None: another session is dropping some.

    Raises:
        psycopg.errors.LockNotAvailable: another session reads the log for too long.
    """
    dropped = partitioning.drop(connection, _log(connection, keep, max_age, exports_first))
    return None if dropped is None else len(dropped)


def waits_for(
    connection: Connection,
    *,
    keep: timedelta,
    max_age: timedelta | None = None,
    exports_first: bool = False,
) -> list[str]:
    """Return the readers that keep a partition beyond its retention, such as "group mails"."""
    for past in partitioning.kept(connection, _log(connection, keep, None, exports_first)):
        if _is_older(connection, past, keep) and not _is_older(connection, past, max_age):
            return _behind(connection, past, exports_first)
    return []


def _log(
    connection: Connection, keep: timedelta, max_age: timedelta | None, exports_first: bool
) -> Log:
    def may_go(connection: Connection, past: PartitionToDrop) -> bool:
        if not _is_older(connection, past, keep):
            return False
        is_passed = not _behind(connection, past, exports_first)
        return is_passed or _is_older(connection, past, max_age)

    return Log(
        table=TABLE,
        pattern=f"^{TABLE}_(0|[1-9][0-9]{{0,11}})$",
        past=SQL["past"],
        given=_given(connection),
        floor=lambda _, past: _last(past),
        may_go=may_go,
    )


def _given(connection: Connection) -> Mapping[str, Any]:
    # The head is read once: this reads each partition, and a later step may lock them.
    return {"size": SIZE, "head": log.bounds(connection).head}


def _last(past: PartitionToDrop) -> int:
    """Return the last position of a full partition."""
    number = int(past.name.rpartition("_")[2])
    return (number + 1) * SIZE - 1


def _behind(connection: Connection, past: PartitionToDrop, exports_first: bool) -> list[str]:
    """Return the names of the readers that have not passed a partition yet."""
    given = {"last": _last(past), "exports_first": exports_first}
    return [name for (name,) in connection.execute(SQL["behind"], given)]


def _is_older(connection: Connection, past: PartitionToDrop, age: timedelta | None) -> bool:
    """Return whether all events of a partition are older than `age`; None: False."""
    if age is None:
        return False
    older = Text(SQL["is_older"]).format(table=past.table)
    row = connection.execute(older, {"age": age}).fetchone()
    return bool(row and row[0])
