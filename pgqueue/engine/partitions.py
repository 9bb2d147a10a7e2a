"""Make the daily partitions of history ahead, so that no settle waits for one, and drop them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from psycopg.errors import CheckViolation
from psycopg.pq import TransactionStatus
from psycopg.sql import SQL as Text
from psycopg.sql import Literal

from pgqueue.database.sql_files import load
from pgqueue.engine import partitioning
from pgqueue.engine import retention as retaining
from pgqueue.engine.culprits import one_by_one
from pgqueue.engine.partitioning import Log, PartitionToDrop
from pgqueue.engine.values import EVERYTHING, Connection, Position

if TYPE_CHECKING:
    from pgqueue.options.retention import Retention

SQL = load(__name__)

TABLE = "pgqueue_history"
AHEAD = timedelta(days=14)


def ensure(connection: Connection, *, ahead: timedelta = AHEAD) -> list[date]:
    """Make the missing partitions from yesterday on; return their days.

    If the making of a partition fails, the log names it, and the others are made all the same.
    """
    rows = connection.execute(SQL["missing"], {"days": ahead.days}).fetchall()

    def make(missing: tuple[date, str]) -> date | None:
        day, schema = missing
        return day if _make(connection, schema, day) else None

    def name(missing: tuple[date, str]) -> str:
        return _name(missing[0])

    made = one_by_one(make, rows, what=partitioning.MAKING, row=name, is_own=partitioning.is_own)
    return [day for day in made if day is not None]


def _name(day: date) -> str:
    return f"{TABLE}_{day:%Y%m%d}"


def _make(connection: Connection, schema: str, day: date) -> bool:
    """Make one day's partition; return False if another session has made it meanwhile."""
    first, end = f"{day} 00:00Z", f"{day + timedelta(days=1)} 00:00Z"
    return partitioning.make_partition(connection, schema, TABLE, _name(day), first=first, end=end)


def drop(
    connection: Connection, retention: Retention, *, exported: Position = EVERYTHING
) -> list[date] | None:
    """Drop the days whose retention is over, as `partitioning.drop` does.

    Args:
        connection: in autocommit, and used for nothing else: its time-outs are changed.
        retention: the retention of messages whose channel configures none.
        exported: days with rows after this position are kept.

    Returns:
        The days that were dropped; None: another session is dropping days.

    Raises:
        psycopg.errors.LockNotAvailable: another session reads history for too long.
    """
    dropped = partitioning.drop(connection, _history(retention, exported))
    return None if dropped is None else [_day(each) for each in dropped]


def waiting(connection: Connection, retention: Retention, exported: Position) -> list[date]:
    """Return the days whose retention is over, but that wait for an export."""
    return [_day(each) for each in partitioning.kept(connection, _history(retention, exported))]


def _history(retention: Retention, exported: Position) -> Log:
    return Log(
        table=TABLE,
        pattern=f"^{TABLE}_[0-9]{{8}}$",
        past=SQL["past"],
        given=retaining.given(retention),
        floor=_last,
        may_go=lambda connection, past: _is_exported(connection, past, exported),
    )


def _day(past: PartitionToDrop) -> date:
    """Return the UTC day of a partition."""
    return datetime.strptime(past.name[-8:], "%Y%m%d").date()


def _last(connection: Connection, past: PartitionToDrop) -> int | None:
    """Return the id of the last transaction that has written to a day."""
    last = Text("SELECT max(txid) FROM {}").format(past.table)
    row = connection.execute(last).fetchone()
    return row[0] if row else None


def _is_exported(connection: Connection, past: PartitionToDrop, exported: Position) -> bool:
    """Return whether a day has no rows after a position."""
    if exported == EVERYTHING:
        return True
    after = Text("SELECT NOT EXISTS (SELECT FROM {} WHERE (txid, id) > ({}, {}))")
    row = connection.execute(after.format(past.table, *map(Literal, exported))).fetchone()
    return bool(row and row[0])


def repeat_if_missing(
    connection: Connection, statement: str, parameters: Mapping[str, Any]
) -> list[Any]:
    """Run a statement that writes history; if today has no partition, make it and repeat.

    In a transaction of the caller it runs in a savepoint, so that the caller's changes stay.
    """
    is_alone = connection.info.transaction_status == TransactionStatus.IDLE
    if is_alone and not connection.autocommit:
        # Without autocommit, a transaction begins with its first statement. If this were our
        # savepoint, psycopg would make a transaction of it, and commit at its end.
        connection.execute("SELECT 1")
        is_alone = False
    try:
        with nullcontext() if is_alone else connection.transaction():
            return connection.execute(statement, parameters).fetchall()
    except CheckViolation:
        # No worker has made the partition ahead.
        ensure(connection)
        return connection.execute(statement, parameters).fetchall()
