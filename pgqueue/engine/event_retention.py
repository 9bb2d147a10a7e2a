"""Drop what the log need not keep any more: whole partitions, from its front.

The first partition goes once it is full, its youngest event is too old, and all have passed it who
must get every event: groups, subscriptions and, if so asked, exports. The floor is raised before:
who reads from behind it is told so.
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

    There may be more: the next call continues with the next one.

    Args:
        connection: in autocommit, and used for nothing else: its time-outs are changed.
        keep: how long an event is kept at least.
        max_age: after which it goes even if a group has not passed it; None: never.
        exports_first: it goes only after all targets of exports have it.

    Returns:
        How many partitions were dropped; None: another session is dropping some.

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
    """Return whom the drop of a partition waits for that is over otherwise: "group mails"."""
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
    # The head is looked for once: that reads each partition, and they may be locked later.
    return {"size": SIZE, "head": log.bounds(connection).head}


def _last(past: PartitionToDrop) -> int:
    """Return the last position of a partition, which is full."""
    number = int(past.name.rpartition("_")[2])
    return (number + 1) * SIZE - 1


def _behind(connection: Connection, past: PartitionToDrop, exports_first: bool) -> list[str]:
    """Return who has not passed a partition yet."""
    given = {"last": _last(past), "exports_first": exports_first}
    return [name for (name,) in connection.execute(SQL["behind"], given)]


def _is_older(connection: Connection, past: PartitionToDrop, age: timedelta | None) -> bool:
    """Return whether all events of a partition are older; None: older than any."""
    if age is None:
        return False
    older = Text(SQL["is_older"]).format(table=past.table)
    row = connection.execute(older, {"age": age}).fetchone()
    return bool(row and row[0])
