"""The daily partitions of history: made ahead, so that no settle waits for one, and dropped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from datetime import date, datetime, timedelta
from itertools import takewhile
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from psycopg import Error
from psycopg.errors import (
    CheckViolation,
    DuplicateObject,
    DuplicateTable,
    ObjectNotInPrerequisiteState,
    UniqueViolation,
)
from psycopg.pq import TransactionStatus
from psycopg.sql import SQL as Text
from psycopg.sql import Composed, Identifier, Literal

from pgqueue.engine import retention as retaining
from pgqueue.engine.values import EVERYTHING, Connection, Position
from pgqueue.statements import load
from pgqueue.transactions import is_pooled, wait_at_most

if TYPE_CHECKING:
    from pgqueue.retention import Retention

SQL = load(__name__)

AHEAD = timedelta(days=14)
PATIENCE = "5s"
"""The lock_timeout: a lock that this code waits for blocks other sessions meanwhile."""
LONGEST = 60.0
"""Seconds after which no further day is begun: the duty must report its progress."""
UNMARKING = "1min"
"""The lock_timeout for removing a mark, which matters more than marking."""
MARK = "pgqueue: nothing in here is kept any more"
"""The comment on a table that is to be dropped, so that no operator's archive is taken for one."""


class Past(NamedTuple):
    """A day that is to be dropped, and how far that has come.

    Stale: it is marked, but detaching it has not begun.
    """

    schema: str
    name: str
    is_attached: bool
    is_pending: bool
    is_stale: bool

    @property
    def day(self) -> date:
        """The UTC day."""
        return datetime.strptime(self.name[-8:], "%Y%m%d").date()

    @property
    def table(self) -> Identifier:
        """The day's table."""
        return Identifier(self.schema, self.name)

    @property
    def parent(self) -> Identifier:
        """The partitioned table that it is, or was, a part of."""
        return Identifier(self.schema, "pgqueue_history")


def ensure(connection: Connection, *, ahead: timedelta = AHEAD) -> list[date]:
    """Make the missing partitions from yesterday on; return their days."""
    rows = connection.execute(SQL["missing"], {"days": ahead.days}).fetchall()
    return [day for day, schema in rows if _make(connection, schema, day)]


def _make(connection: Connection, schema: str, day: date) -> bool:
    """Make one day's partition; return False if another session has just made it."""
    # LIKE and ATTACH: PARTITION OF would wait for every reader of history, and every settle
    # would wait behind it. ATTACH makes the indexes, too.
    name = Identifier(schema, f"pgqueue_history_{day:%Y%m%d}")
    try:
        with connection.transaction():
            wait_at_most(connection, PATIENCE)
            connection.execute(
                Text(
                    "CREATE TABLE {} "
                    "(LIKE pgqueue_history INCLUDING DEFAULTS INCLUDING CONSTRAINTS)"
                ).format(name)
            )
            connection.execute(
                Text(
                    "ALTER TABLE pgqueue_history ATTACH PARTITION {} FOR VALUES FROM ({}) TO ({})"
                ).format(
                    name, Literal(f"{day} 00:00Z"), Literal(f"{day + timedelta(days=1)} 00:00Z")
                )
            )
    except (DuplicateTable, DuplicateObject, UniqueViolation):
        # Of two sessions at the same moment, one gets UniqueViolation, from the catalog, or
        # DuplicateObject where the other one commits between the looks for the table and its type.
        return False
    return True


def drop(
    connection: Connection, retention: Retention, *, exported: Position = EVERYTHING
) -> list[date] | None:
    """Drop the days whose retention is over, for a minute at most; there may be more.

    Settles and reports go on meanwhile and do not wait. If a lock takes too long, for example
    because of a long report on history, it gives up; the next call continues there.

    Args:
        connection: in autocommit, and used for nothing else: its time-outs are changed.
        retention: the retention of messages whose channel configures none.
        exported: days with rows after this are kept.

    Returns:
        The days that were dropped; None: another session is dropping days.

    Raises:
        psycopg.errors.LockNotAvailable: another session reads history for too long.
    """
    parameters = _given(retention)
    drop_them = _drop_at_once if is_pooled(connection) else _drop_concurrently
    return drop_them(connection, parameters, exported)


def waiting(connection: Connection, retention: Retention, exported: Position) -> list[date]:
    """Return the days whose retention is over, and that are kept since they are not exported."""
    past = _find(connection, _given(retention))
    return [each.day for each in past if not _is_exported(connection, each, exported)]


def _given(retention: Retention) -> Mapping[str, Any]:
    return {**retaining.given(retention), "mark": MARK, "only": None}


def _drop_concurrently(
    connection: Connection, parameters: Mapping[str, Any], exported: Position
) -> list[date] | None:
    """Detach days while history is read and written, then drop their tables."""
    connection.execute(f"SET lock_timeout = '{PATIENCE}'; SET statement_timeout = '10min'")
    if not _one(connection, SQL["try_for_session"]):
        return None
    try:
        past = _past(connection, parameters)
        return [
            each.day
            for each in _in_time(past)
            if _is_exported(connection, each, exported) and _drop(connection, each, parameters)
        ]
    finally:
        if not connection.closed:
            connection.execute(SQL["leave"])


def _drop(connection: Connection, past: Past, parameters: Mapping[str, Any]) -> bool:
    """Drop a day; return False if it must not be dropped any more."""
    if past.is_pending:
        connection.execute(_alter("DETACH PARTITION {} FINALIZE", past))
    elif past.is_attached:
        if not _mark(connection, past, parameters):
            return False
        _detach(connection, past, parameters)
    connection.execute(Text("DROP TABLE {}").format(past.table))
    return True


def _mark(connection: Connection, past: Past, parameters: Mapping[str, Any]) -> bool:
    """Mark a day as to be dropped; return False if it must not be dropped any more."""
    with connection.transaction():
        # Detaching a day takes these locks, too; reading or writing it does not. The parent's lock
        # is waited for before the day is marked: an operator who detaches it meanwhile must not get
        # the mark.
        connection.execute(
            Text("LOCK TABLE ONLY {}, {} IN SHARE UPDATE EXCLUSIVE MODE").format(
                past.parent, past.table
            )
        )
        if not _is_found(connection, past, parameters):
            return False
        _raise_floor(connection, past)
        connection.execute(_comment(past, MARK))
        return True


def _raise_floor(connection: Connection, past: Past) -> None:
    """Tell those who follow history how far it is gone."""
    last = _one(connection, Text("SELECT max(txid) FROM {}").format(past.table))
    if last is not None:
        connection.execute(SQL["raise_floor"], {"position": last})


def _detach(connection: Connection, past: Past, parameters: Mapping[str, Any]) -> None:
    """Detach a marked day; remove the mark if detaching could not begin."""
    begun = past._replace(is_pending=True)
    try:
        connection.execute(_alter("DETACH PARTITION {} CONCURRENTLY", past))
    except ObjectNotInPrerequisiteState:
        # Another session detaches a day concurrently, perhaps this one: then it belongs to that
        # session.
        _unmark(connection, past)
        raise
    except Error:
        if not connection.closed and not _is_found(connection, begun, parameters):
            _unmark(connection, past)
        raise


def _unmark(connection: Connection, past: Past) -> None:
    """Remove the mark from a day, so that it is not dropped."""
    with connection.transaction():
        if not is_pooled(connection):
            # An operator may be detaching it now: with the mark, the operator's table would be
            # dropped.
            wait_at_most(connection, UNMARKING)
        connection.execute(_comment(past, None))


def _drop_at_once(
    connection: Connection, parameters: Mapping[str, Any], exported: Position
) -> list[date] | None:
    """Drop days behind a transaction pooler, where each statement may have another session.

    Each day is one transaction: settles wait until it ends or gives up.
    """
    with connection.transaction():
        if not _be_alone(connection):
            return None
        past = _past(connection, parameters)
    return [
        each.day for each in _in_time(past) if _drop_in_one(connection, each, parameters, exported)
    ]


def _drop_in_one(
    connection: Connection, past: Past, parameters: Mapping[str, Any], exported: Position
) -> bool:
    """Drop a day in one transaction; return False if it must not be dropped any more."""
    with connection.transaction():
        if not _be_alone(connection) or not _is_found(connection, past, parameters):
            return False
        if not _is_exported(connection, past, exported):
            return False
        if past.is_attached:
            _raise_floor(connection, past)
            end = " FINALIZE" if past.is_pending else ""
            connection.execute(_alter("DETACH PARTITION {}" + end, past))
        connection.execute(Text("DROP TABLE {}").format(past.table))
        return True


def _be_alone(connection: Connection) -> bool:
    """Lock the dropping of days until the transaction ends; return False if it is locked."""
    wait_at_most(connection, "100ms")
    return bool(_one(connection, SQL["try_for_transaction"]))


def _in_time(past: list[Past]) -> Iterator[Past]:
    """Yield days while there is time to begin another one."""
    until = monotonic() + LONGEST
    return takewhile(lambda _: monotonic() < until, past)


def _past(connection: Connection, parameters: Mapping[str, Any]) -> list[Past]:
    """Remove stale marks, then return the days that are to be dropped."""
    for each in _find(connection, parameters):
        if each.is_stale:
            _unmark(connection, each)
    return _find(connection, parameters)


def _find(connection: Connection, parameters: Mapping[str, Any]) -> list[Past]:
    return [Past(*row) for row in connection.execute(SQL["past"], parameters)]


def _is_found(connection: Connection, past: Past, parameters: Mapping[str, Any]) -> bool:
    """Return whether the day's state is unchanged. Other days are not read: they may be locked."""
    return _find(connection, {**parameters, "only": past.name}) == [past]


def _is_exported(connection: Connection, past: Past, exported: Position) -> bool:
    """Return whether a day has no rows after a position; one whose drop has begun has none."""
    if exported == EVERYTHING or past.is_pending or not past.is_attached:
        return True
    after = Text("SELECT EXISTS (SELECT FROM {} WHERE (txid, id) > ({}, {}))")
    return not _one(connection, after.format(past.table, *map(Literal, exported)))


def _one(connection: Connection, statement: str | Composed) -> Any:
    row = connection.execute(statement).fetchone()
    return row and row[0]


def _alter(change: str, past: Past) -> Composed:
    return Text("ALTER TABLE {} " + change).format(past.parent, past.table)


def _comment(past: Past, mark: str | None) -> Composed:
    return Text("COMMENT ON TABLE {} IS {}").format(past.table, Literal(mark))


def repeat_if_missing(
    connection: Connection, statement: str, parameters: Mapping[str, Any]
) -> list[Any]:
    """Run a statement that writes history; if today has no partition, make it and repeat.

    Inside a transaction of the caller it runs in a savepoint, so that the rest is not undone.
    """
    is_alone = connection.info.transaction_status == TransactionStatus.IDLE
    if is_alone and not connection.autocommit:
        # Without autocommit, a transaction begins with its first statement. If that were our
        # savepoint, psycopg would take it for the whole transaction and commit at its end.
        connection.execute("SELECT 1")
        is_alone = False
    try:
        with nullcontext() if is_alone else connection.transaction():
            return connection.execute(statement, parameters).fetchall()
    except CheckViolation:
        # No worker has made the partition ahead.
        ensure(connection)
        return connection.execute(statement, parameters).fetchall()
