"""Find the row that makes a whole batch fail: try the batch, then its halves, then their halves.

Otherwise one row whose statement raises each time would keep all other rows waiting for ever.
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
"""SQLSTATE classes of errors that are never a row's fault: a lost connection, a read-only server, a
conflict with other transactions, a lack of resources, an operator, and the file system."""
LOCKED = frozenset({"55006", "55P03"})
"""SQLSTATEs of statements that need an object which another session uses."""
NOTIFYING = "PreCommit_Notify"
"""The server's function that raises an error where its queue of notifications is full. By its
SQLSTATE, this error could be a row's fault."""
AGAIN = 60.0
"""Seconds after which a culprit is tried again: an operator may have mended it."""
MOST = 10
"""Culprits that one search finds. The next search goes on without these."""

T = TypeVar("T")
R = TypeVar("R")


def may_be_own(error: BaseException) -> bool:
    """Return whether an error may be the fault of a row, so that each further try raises it."""
    cause = error if isinstance(error, psycopg.Error) else error.__cause__
    if not isinstance(cause, psycopg.Error):
        return isinstance(error, ValueError)
    if cause.sqlstate is None:
        # psycopg has raised it: it fails to send or to read a value.
        return isinstance(cause, psycopg.DataError)
    if cause.diag.source_function == NOTIFYING:
        return False
    return cause.sqlstate[:2] not in NOBODYS and cause.sqlstate not in LOCKED


def may_be_a_row(connection: psycopg.Connection[Any], error: BaseException) -> bool:
    """Return whether a row may be at fault for a statement's error, and the session is open."""
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
    """Call `do` with all items; if it raises, call it with each half of them, and so on.

    If no item is at fault, the error is raised unchanged. So it is for a lost connection, or for an
    error that `do` raises without any items, such as a missing table.

    Args:
        do: takes some of the items, also none. After an error it must leave no changes.
        items: the items in their order; a `range` will do.
        set_aside: takes an item that fails by itself, and its error.
        error: the error that `do` has raised for all items; None: it was not called with them yet.
        is_own: returns whether an item may be at fault for an error.

    Yields:
        The results of `do`, one for each part, and the results of `set_aside` but None.
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
    """The rows that a statement may take: ids from the first to the last, without some of them.

    The statement has this as a condition: see `within` in `engine/shared.sql`.
    """

    first: int
    last: int
    aside: list[int]


WHOLE = Part(-(2**63) + 1, 2**63 - 1, [])

_left_out: dict[tuple[Hashable, ...], dict[Any, float]] = {}
"""The rows that are left out, each with its end, by the database, the service and the table."""


def apart(
    connection: psycopg.Connection[Any], table: str, do: Callable[[Part], R], *, what: str
) -> list[R]:
    """Run a statement on the rows of a table; leave out the rows that make it raise.

    A row that is left out stays unchanged. The log names it, and it is tried again after a minute.

    Args:
        connection: in a transaction, each try has a savepoint.
        table: the table of the rows, which have ids.
        do: runs the statement on a part of the rows.
        what: the name of the statement's work in the log: "promote".

    Returns:
        The result of `do`, or several results if the rows were divided.
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
    """Run a statement that chooses rows in an order of its own; leave out rows that make it raise.

    It is like `apart`, for statements that must not choose from a part of the rows only.

    Args:
        connection: in a transaction, each try has a savepoint.
        table: the table of the rows, which have ids.
        do: runs the statement without the rows of the given ids.
        chosen: locks the rows that `do` would choose without the given ids, and returns their ids.
        attempt: makes the statement's change to the rows of the given ids. It is rolled back.
        what: the name of the statement's work in the log: "claim".
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
    """Find the rows that make a statement raise, and leave them out; change no row.

    Args:
        connection: in a transaction.
        items: the rows that the statement failed with. They are locked.
        attempt: makes the statement's change to some of the rows. It is rolled back.
        error: the error of the statement.
        row: returns the name of an item in the log, which follows the name of its table.

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
        over: locks the same rows, and returns the ctid of each, as a text, and its name for the
            log.
        given: the parameters of both statements.
        what: the name of the statement's work in the log: "forget workers".

    Returns:
        The number of deleted rows.
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
    """Call `do` with each item; log the items for which it raises, and go on.

    It is for work that takes one item at a time, such as the drop of a table.

    Args:
        what: the name of the work in the log: "drop partitions".
        row: returns the name of an item in the log.
        is_own: returns whether an item may be at fault for an error. If not, the error is raised.

    Yields:
        The results of `do`, without the items for which it raises.
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
    """Leaves out the rows that a search finds, up to `MOST` of them."""

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
    """Return the rows of a table that a statement leaves out now, by their ids or their names."""
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
    """Leave out a row for a minute, and log it.

    Args:
        item: the row's id, or another name of it.
        row: the row's name in the log; None: `item`.
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
    [own, *_], now = _key(connection), monotonic()
    return sum(
        until > now - AGAIN
        for key, rows in list(_left_out.items())
        if key[0] == own
        for until in list(rows.values())
    )


def shown(*names: object) -> str:
    """Return the names of a row as one text for the log; texts are in quotes."""
    return ", ".join(repr(name) if isinstance(name, str) else str(name) for name in names)


def tell(service: str, *, row: str, error: Exception) -> None:
    """Log that a service goes on without a row.

    Args:
        row: the row's table, and its id there.
        error: the error that the service's statement raises for it.
    """
    said = {"service": service, "row": row, "error": in_words(error)}
    try:
        from pgqueue import signals
    except ImportError:  # in a process of Spark, which needs no Django to read the log
        logger.error("%(service)s fails because of %(row)s: %(error)s", said)
    else:
        signals.send(signals.row_set_aside, apart, **said)


def forget_all() -> None:
    """Forget which rows were left out, so that the next statements try them again."""
    _left_out.clear()


def _key(
    connection: psycopg.Connection[Any], what: str = "", table: str = ""
) -> tuple[Hashable, ...]:
    info = connection.info
    # Another alias may name another schema of the same database, by its options or by its role.
    return (info.host, info.port, info.dbname, info.user, info.options), what, table


def _savepoint(connection: psycopg.Connection[Any]) -> AbstractContextManager[object]:
    is_alone = connection.info.transaction_status == TransactionStatus.IDLE
    return nullcontext() if is_alone else connection.transaction()


def _ids(connection: psycopg.Connection[Any], table: str) -> Sequence[int]:
    """Return a range that contains the ids of all rows."""
    bounds = Text("SELECT min(id), max(id) FROM {}").format(Identifier(table))
    row = connection.execute(bounds).fetchone()
    return range(row[0], row[1] + 1) if row and row[0] is not None else range(0)
