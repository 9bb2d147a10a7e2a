"""Find the row that makes a whole batch fail: try the batch, then its halves, then theirs.

Without that, one row whose statement raises each time keeps all others waiting for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from time import monotonic
from typing import Any, Generic, NamedTuple, TypeVar

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.sql import SQL as Text
from psycopg.sql import Identifier

from pgqueue.database.transactions import in_short
from pgqueue.values.escaping import logger_of

logger = logger_of(__name__)

NOBODYS = frozenset({"08", "25", "40", "53", "57", "58"})
"""SQLSTATE classes that no row is to blame for: a lost connection, a read-only server, a conflict
with other transactions, a lack of resources, an operator, and the file system."""
LOCKED = frozenset({"55006", "55P03"})
"""SQLSTATEs that say that another session uses what a statement needs."""
NOTIFYING = "PreCommit_Notify"
"""Where the server says that its queue of notifications is full, with the code of a fault."""
AGAIN = 60.0
"""Seconds after which a culprit is tried again: an operator may have mended it."""
MOST = 10
"""Culprits that one search finds. The next search goes on without these."""

T = TypeVar("T")
R = TypeVar("R")


def may_be_own(error: BaseException) -> bool:
    """Return whether an error may be the fault of a row, and so come again however often."""
    cause = error if isinstance(error, psycopg.Error) else error.__cause__
    if not isinstance(cause, psycopg.Error):
        return isinstance(error, ValueError)
    if cause.sqlstate is None:
        # psycopg's own: it fails to send or to read a value.
        return isinstance(cause, psycopg.DataError)
    if cause.diag.source_function == NOTIFYING:
        return False
    return cause.sqlstate[:2] not in NOBODYS and cause.sqlstate not in LOCKED


def may_be_a_row(connection: psycopg.Connection[Any], error: BaseException) -> bool:
    """Return whether a row may be at fault for what a statement raised, and the session is left."""
    return not connection.closed and may_be_own(error)


def in_words(error: BaseException) -> str:
    """Return an error in one line, without the values of the row that it names."""
    cause = error.__cause__ if isinstance(error.__cause__, psycopg.Error) else error
    said = cause.diag.message_primary if isinstance(cause, psycopg.Error) else None
    return f"{type(cause).__name__}: {said or cause}".replace("\x00", "")[:1000]


def by_halves(
    do: Callable[[Sequence[T]], R],
    items: Sequence[T],
    set_aside: Callable[[T, Exception], R | None],
    *,
    error: Exception | None = None,
    is_own: Callable[[BaseException], bool] = may_be_own,
) -> Iterator[R]:
    """Do something with all items; if that fails, with each half of them, and so on.

    If no item can be at fault, the error is raised as it is. That is so for a lost connection, and
    for an error that comes without any item, too, such as a missing table.

    Args:
        do: takes some of the items, and also none. After an error nothing of it may be left.
        items: in their order; a `range` will do.
        set_aside: takes an item that fails by itself, and its error.
        error: what was raised for all items, if they were tried already.
        is_own: says of an error whether an item may be at fault.

    Yields:
        The results of `do`, one for each part, and those of `set_aside` that are not None.
    """
    if error is None:
        try:
            done = do(items)
        except Exception as raised:
            error = raised
        else:
            yield done
            return
    if not is_own(error):
        raise error
    try:
        do(items[:0])
    except Exception:
        raise error from None
    yield from _halved(do, items, set_aside, error, is_own)


def _halved(
    do: Callable[[Sequence[T]], R],
    items: Sequence[T],
    set_aside: Callable[[T, Exception], R | None],
    error: Exception,
    is_own: Callable[[BaseException], bool],
) -> Iterator[R]:
    if len(items) <= 1:
        for item in items:
            if (instead := set_aside(item, error)) is not None:
                yield instead
        return
    middle = len(items) // 2
    for half in (items[:middle], items[middle:]):
        try:
            done = do(half)
        except Exception as raised:
            if not is_own(raised):
                raise
            yield from _halved(do, half, set_aside, raised, is_own)
        else:
            yield done


class Part(NamedTuple):
    """The rows that a statement may take: ids from the first to the last, but for some.

    A statement has this as a condition: see `within` in `engine/shared.sql`.
    """

    first: int
    last: int
    aside: list[int]


WHOLE = Part(-(2**63) + 1, 2**63 - 1, [])

_left_out: dict[tuple[Hashable, ...], dict[Any, float]] = {}
"""Rows, and until when they are left out, by the database, the service and the table."""


def apart(
    connection: psycopg.Connection[Any], table: str, do: Callable[[Part], R], *, what: str
) -> list[R]:
    """Run a statement on the rows of a table; leave out the rows that make it raise.

    The row stays as it is. It is named in the log, and tried again after a minute.

    Args:
        connection: in a transaction, each try has a savepoint.
        table: which has the rows, by their ids.
        do: runs the statement on a part of the rows.
        what: the statement does, for the log: "promote".

    Returns:
        The result of `do`; several of them if the rows were taken apart.
    """

    def some(ids: Sequence[int]) -> R:
        first, last = (ids[0], ids[-1]) if ids else (1, 0)
        with _savepoint(connection):
            return do(Part(first, last, left_out(connection, what, table)))

    try:
        with _savepoint(connection):
            return [do(WHOLE._replace(aside=left_out(connection, what, table)))]
    except Exception as error:
        if not may_be_a_row(connection, error):
            raise
        own: _Search[int] = _Search(connection, what, table)
        return list(by_halves(some, _ids(connection, table), own.leave_out, error=error))


def choosing(
    connection: psycopg.Connection[Any],
    table: str,
    do: Callable[[list[int]], R],
    *,
    chosen: Callable[[list[int]], Sequence[int]],
    attempt: Callable[[Sequence[int]], object],
    what: str,
) -> R:
    """Run a statement that chooses rows in an order of its own; leave out those that make it raise.

    As `apart` does, but for statements that may not choose other rows only since one raises.

    Args:
        connection: in a transaction, each try has a savepoint.
        table: which has the rows, by their ids.
        do: runs the statement without the rows of these ids.
        chosen: locks the rows that `do` would choose without those, and returns their ids.
        attempt: does with rows of these ids what the statement does. That is rolled back.
        what: the statement does, for the log: "claim".
    """
    for _ in range(MOST):
        aside = left_out(connection, what, table)
        try:
            with _savepoint(connection):
                return do(aside)
        except Exception as error:
            if not may_be_a_row(connection, error):
                raise
            with in_short(connection):
                found = search(connection, table, chosen(aside), attempt, what=what, error=error)
            if not found:
                raise
    with _savepoint(connection):
        return do(left_out(connection, what, table))


def search(
    connection: psycopg.Connection[Any],
    table: str,
    items: Sequence[T],
    attempt: Callable[[Sequence[T]], object],
    *,
    what: str,
    error: Exception,
    row: Callable[[T], str] = str,
) -> list[T]:
    """Find the rows that make a statement raise, and leave them out; change nothing.

    Args:
        connection: in a transaction.
        items: what the statement failed with, and locked.
        attempt: does with some of them what the statement does. That is rolled back.
        error: what the statement raised.
        row: returns what the log calls an item, behind its table.

    Returns:
        The rows that were found.
    """

    def tried(some: Sequence[T]) -> None:
        with connection.transaction(force_rollback=True):
            attempt(some)

    own = _Search(connection, what, table, row)
    list(by_halves(tried, items, own.leave_out, error=error))
    return own.found


def delete(
    connection: psycopg.Connection[Any],
    table: str,
    statement: str,
    over: str,
    given: Mapping[str, Any],
    *,
    what: str,
) -> int:
    """Delete rows by a statement; where one of them makes it raise, delete all others.

    Args:
        connection: in a transaction, each try has a savepoint.
        statement: deletes the rows.
        over: locks the same rows, and returns the ctid of each, as a text, and what names it.
        given: the parameters of both.
        what: the statement does, for the log: "forget workers".

    Returns:
        How many rows were deleted.
    """
    try:
        with _savepoint(connection):
            return connection.execute(statement, given).rowcount
    except Exception as error:
        if not may_be_a_row(connection, error):
            raise
        known = left_out(connection, what, table)

        def keep(row: tuple[Any, ...], error: Exception) -> None:
            _, *name = row
            if (named := shown(*name)) not in known:
                leave_out(connection, what, table, named, error=error)

        some = partial(_delete_some, connection, table)
        with in_short(connection):
            rows = connection.execute(over, given).fetchall()
            return sum(by_halves(some, rows, keep, error=error))


def _delete_some(
    connection: psycopg.Connection[Any], table: str, rows: Sequence[tuple[Any, ...]]
) -> int:
    text = Text("DELETE FROM {} WHERE ctid = ANY (%s::tid[])").format(Identifier(table))
    with connection.transaction():
        return connection.execute(text, [[place for place, *_ in rows]]).rowcount


def one_by_one(
    do: Callable[[T], R],
    items: Iterable[T],
    *,
    what: str,
    row: Callable[[T], str],
    is_own: Callable[[BaseException], bool] = may_be_own,
) -> Iterator[R]:
    """Do something with each item; tell of one with which it fails, and go on.

    For what can be done with one item only, such as to drop a table.

    Args:
        what: is done, for the log: "drop partitions".
        row: returns what the log calls an item.
        is_own: says of an error whether the item may be at fault; if not, the error is raised.

    Yields:
        The results of `do`, but for items with which it fails.
    """
    for item in items:
        try:
            done = do(item)
        except Exception as error:
            if not is_own(error):
                raise
            tell(what, row=row(item), error=error)
        else:
            yield done


class _Search(Generic[T]):
    """Leaves out what is found, until it is too much."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        what: str,
        table: str,
        row: Callable[[T], str] = str,
    ) -> None:
        self._connection = connection
        self._what = what
        self._table = table
        self._row = row
        self.found: list[T] = []

    def leave_out(self, item: T, error: Exception) -> None:
        leave_out(self._connection, self._what, self._table, item, row=self._row(item), error=error)
        self.found.append(item)
        if len(self.found) >= MOST:
            raise error


def left_out(connection: psycopg.Connection[Any], what: str, table: str) -> list[Any]:
    """Return the rows of a table that a statement leaves out now: their ids, or what names them."""
    if not _left_out:  # as nearly always
        return []
    rows, now = _left_out.get(_key(connection, what, table), {}), monotonic()
    for item in [item for item, until in rows.copy().items() if until <= now]:
        rows.pop(item, None)
    return list(rows)


def leave_out(
    connection: psycopg.Connection[Any],
    what: str,
    table: str,
    item: Hashable,
    *,
    row: str | None = None,
    error: Exception,
) -> None:
    """Leave out a row for a minute, and tell of it.

    Args:
        item: the row's id, or what names it otherwise.
        row: the same for the log; None: as it is.
    """
    rows = _left_out.setdefault(_key(connection, what, table), {})
    rows[item] = monotonic() + AGAIN
    tell(what, row=f"{table} {item if row is None else row}", error=error)


def number_left_out(connection: psycopg.Connection[Any]) -> int:
    """Return how many rows of a database this process leaves out.

    A row counts for another minute after its time: it may not have been tried again yet.
    """
    if not _left_out:  # as nearly always
        return 0
    own, now = _key(connection)[:3], monotonic()
    return sum(
        until > now - AGAIN
        for key, rows in list(_left_out.items())
        if key[:3] == own
        for until in list(rows.values())
    )


def shown(*names: object) -> str:
    """Return what names a row, for the log: texts in quotes."""
    return ", ".join(repr(name) if isinstance(name, str) else str(name) for name in names)


def tell(service: str, *, row: str, error: Exception) -> None:
    """Tell that a service goes on without a row.

    Args:
        row: its table, and its id there.
        error: what the service's statement raises for it.
    """
    said = {"service": service, "row": row, "error": in_words(error)}
    try:
        from pgqueue import signals
    except ImportError:  # in a process of Spark, which needs no Django to read the log
        logger.error("%(service)s fails because of %(row)s: %(error)s", said)
    else:
        signals.send(signals.row_set_aside, apart, **said)


def forget_all() -> None:
    """Try again, from now on, all rows that were left out."""
    _left_out.clear()


def _key(
    connection: psycopg.Connection[Any], what: str = "", table: str = ""
) -> tuple[Hashable, ...]:
    info = connection.info
    return info.host, info.port, info.dbname, what, table


def _savepoint(connection: psycopg.Connection[Any]) -> AbstractContextManager[object]:
    is_alone = connection.info.transaction_status == TransactionStatus.IDLE
    return nullcontext() if is_alone else connection.transaction()


def _ids(connection: psycopg.Connection[Any], table: str) -> Sequence[int]:
    """Return a range that has the ids of all rows."""
    bounds = Text("SELECT min(id), max(id) FROM {}").format(Identifier(table))
    row = connection.execute(bounds).fetchone()
    return range(row[0], row[1] + 1) if row and row[0] is not None else range(0)
