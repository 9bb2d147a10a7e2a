"""The days of history: made ahead, so that no settle waits for one, and dropped in the end."""

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from datetime import date, datetime, timedelta
from itertools import takewhile
from time import monotonic
from typing import Any, NamedTuple

from psycopg import Error
from psycopg.errors import (
    CheckViolation,
    DuplicateTable,
    ObjectNotInPrerequisiteState,
    UniqueViolation,
)
from psycopg.pq import TransactionStatus
from psycopg.sql import SQL as Text
from psycopg.sql import Composed, Identifier, Literal

from pgqueue.connections import is_pooled, wait_at_most
from pgqueue.engine import retention as retaining
from pgqueue.engine.values import Connection
from pgqueue.retention import Retention
from pgqueue.statements import load

SQL = load(__name__)

AHEAD = timedelta(days=14)
PATIENCE = "5s"
"""For each lock: what waits keeps nobody else waiting, but a duty should come to an end."""
LONGEST = 60.0
"""Seconds after which no other day is begun: whoever does it should be seen to go on."""
UNMARKING = "1min"
"""For the lock of a day that is not to go after all: it matters more, and who has it is at it."""
MARK = "pgqueue: nothing in here is kept any more"
"""On a table that is to be dropped, so that nobody's archive is taken for one."""


class Past(NamedTuple):
    """A day that is to go, and how far that has come.

    Stale: marked, though nobody has begun to detach it.
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
        """Its table."""
        return Identifier(self.schema, self.name)

    @property
    def parent(self) -> Identifier:
        """What it is, or was, a part of."""
        return Identifier(self.schema, "pgqueue_history")


def ensure(connection: Connection, *, ahead: timedelta = AHEAD) -> list[date]:
    """Make the partitions that are missing from today on; return their days."""
    rows = connection.execute(SQL["missing"], {"days": ahead.days}).fetchall()
    return [day for day, schema in rows if _make(connection, schema, day)]


def _make(connection: Connection, schema: str, day: date) -> bool:
    """Make one day's partition; say no where somebody else just did."""
    # LIKE and ATTACH: PARTITION OF would wait for every reader of history, and every
    # settle behind it. ATTACH makes the indexes, too.
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
    except (DuplicateTable, UniqueViolation):
        # The second is what the loser of two at the same moment gets, from the catalog.
        return False
    return True


def drop(connection: Connection, retention: Retention) -> list[date] | None:
    """Drop the days that nothing is kept of any more; return them. None: somebody else is at it.

    Those that it comes to in a minute: where it has dropped some, there may be more.

    Settles and reports go on meanwhile, and none of them waits. It gives up where it has to wait
    for somebody, such as who has been reading history for long; who tries again goes on from there.

    Args:
        connection: in autocommit, and used for nothing else: its time-outs are changed.
        retention: how long messages are kept of which their channel says nothing else.

    Raises:
        psycopg.errors.LockNotAvailable: somebody else reads history for too long.
    """
    parameters = {**retaining.given(retention), "mark": MARK, "only": None}
    drop_them = _drop_at_once if is_pooled(connection) else _drop_concurrently
    return drop_them(connection, parameters)


def _drop_concurrently(connection: Connection, parameters: Mapping[str, Any]) -> list[date] | None:
    """Detach days while they are read and written; drop what then is nobody's."""
    connection.execute(f"SET lock_timeout = '{PATIENCE}'; SET statement_timeout = '10min'")
    if not _one(connection, SQL["try_for_session"]):
        return None
    try:
        past = _past(connection, parameters)
        return [each.day for each in _in_time(past) if _drop(connection, each, parameters)]
    finally:
        if not connection.closed:
            connection.execute(SQL["leave"])


def _drop(connection: Connection, past: Past, parameters: Mapping[str, Any]) -> bool:
    """Drop a day; say no where it is not ours to drop any more."""
    if past.is_pending:
        connection.execute(_alter("DETACH PARTITION {} FINALIZE", past))
    elif past.is_attached:
        if not _mark(connection, past, parameters):
            return False
        _detach(connection, past, parameters)
    connection.execute(Text("DROP TABLE {}").format(past.table))
    return True


def _mark(connection: Connection, past: Past, parameters: Mapping[str, Any]) -> bool:
    """Have a day dropped by whoever goes on from here; say no where it isn't to go any more."""
    with connection.transaction():
        # Whoever detaches a day takes these locks, too; who reads or writes it doesn't. That of
        # history is waited for here, not with the mark on, which he would take along.
        connection.execute(
            Text("LOCK TABLE ONLY {}, {} IN SHARE UPDATE EXCLUSIVE MODE").format(
                past.parent, past.table
            )
        )
        if not _is_found(connection, past, parameters):
            return False
        connection.execute(_comment(past, MARK))
        return True


def _detach(connection: Connection, past: Past, parameters: Mapping[str, Any]) -> None:
    """Detach a day that is marked; where that could not even begin, it is marked no more."""
    begun = past._replace(is_pending=True)
    try:
        connection.execute(_alter("DETACH PARTITION {} CONCURRENTLY", past))
    except ObjectNotInPrerequisiteState:
        # Somebody detaches one concurrently, maybe this: pending it is then, but it is his.
        _unmark(connection, past)
        raise
    except Error:
        if not connection.closed and not _is_found(connection, begun, parameters):
            _unmark(connection, past)
        raise


def _unmark(connection: Connection, past: Past) -> None:
    """Leave a day to whoever detaches it."""
    with connection.transaction():
        if not is_pooled(connection):
            # He may just be at it: what he then has would be dropped.
            wait_at_most(connection, UNMARKING)
        connection.execute(_comment(past, None))


def _drop_at_once(connection: Connection, parameters: Mapping[str, Any]) -> list[date] | None:
    """Drop days behind a transaction pooler, where statements may each have another session.

    Each in a transaction of its own: settles wait until that is done, or gives up.
    """
    with connection.transaction():
        if not _be_alone(connection):
            return None
        past = _past(connection, parameters)
    return [each.day for each in _in_time(past) if _drop_in_one(connection, each, parameters)]


def _drop_in_one(connection: Connection, past: Past, parameters: Mapping[str, Any]) -> bool:
    """Drop a day in one transaction; say no where it is not ours to drop any more."""
    with connection.transaction():
        if not _be_alone(connection) or not _is_found(connection, past, parameters):
            return False
        if past.is_attached:
            end = " FINALIZE" if past.is_pending else ""
            connection.execute(_alter("DETACH PARTITION {}" + end, past))
        connection.execute(Text("DROP TABLE {}").format(past.table))
        return True


def _be_alone(connection: Connection) -> bool:
    """Let nobody else drop days until the transaction ends; say no where somebody is at it."""
    wait_at_most(connection, "100ms")
    return bool(_one(connection, SQL["try_for_transaction"]))


def _in_time(past: list[Past]) -> Iterator[Past]:
    """Yield one after the other, as long as there is time to begin with it."""
    until = monotonic() + LONGEST
    return takewhile(lambda _: monotonic() < until, past)


def _past(connection: Connection, parameters: Mapping[str, Any]) -> list[Past]:
    """Return the days that are to go; first take back what is left of those that were once."""
    for each in _find(connection, parameters):
        if each.is_stale:
            _unmark(connection, each)
    return _find(connection, parameters)


def _find(connection: Connection, parameters: Mapping[str, Any]) -> list[Past]:
    return [Past(*row) for row in connection.execute(SQL["past"], parameters)]


def _is_found(connection: Connection, past: Past, parameters: Mapping[str, Any]) -> bool:
    """Say whether a day is just so now. No other is looked at: somebody may have that locked."""
    return _find(connection, {**parameters, "only": past.name}) == [past]


def _one(connection: Connection, statement: str) -> Any:
    row = connection.execute(statement).fetchone()
    return row and row[0]


def _alter(change: str, past: Past) -> Composed:
    return Text("ALTER TABLE {} " + change).format(past.parent, past.table)


def _comment(past: Past, mark: str | None) -> Composed:
    return Text("COMMENT ON TABLE {} IS {}").format(past.table, Literal(mark))


def repeat_if_missing(
    connection: Connection, statement: str, parameters: Mapping[str, Any]
) -> list[Any]:
    """Run a statement that writes history; where today has no partition yet, make it and repeat.

    In a savepoint, if the caller has a transaction: nothing else in it is undone.
    """
    is_alone = connection.info.transaction_status == TransactionStatus.IDLE
    if is_alone and not connection.autocommit:
        # A transaction of Django's begins with its first statement. Were that our savepoint,
        # psycopg would take it for the whole transaction, and commit at its end.
        connection.execute("SELECT 1")
        is_alone = False
    try:
        with nullcontext() if is_alone else connection.transaction():
            return connection.execute(statement, parameters).fetchall()
    except CheckViolation:
        # No worker was there to make it ahead.
        ensure(connection)
        return connection.execute(statement, parameters).fetchall()
