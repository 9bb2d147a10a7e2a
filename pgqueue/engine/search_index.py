"""The optional index by which searches find arguments, metadata and tags, whatever the tables hold.

`pgqueue.operations.IndexSearch` makes it. Without it, a search compares a stretch of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from psycopg.sql import SQL as Text
from psycopg.sql import Composed, Identifier

from pgqueue.database.sql_files import load
from pgqueue.engine.values import Cursors

SQL = load(__name__)

LIVE = "pgqueue_message"
SUFFIX = "_search"
COLUMNS = Text(SQL["columns"])

Execute = Callable[[str], object]


def is_valid(connection: Cursors, table: str) -> bool:
    """Return whether a table has the index, for all its rows."""
    [[found]] = _rows(connection, "is_valid", {"name": table + SUFFIX})
    return bool(found)


def invalid(connection: Cursors) -> list[str]:
    """Return the names of search indexes that exist, and that PostgreSQL does not use."""
    return [name for name, is_valid in _rows(connection, "states") if not is_valid]


def make_index(connection: Cursors, execute: Execute, *, concurrently: bool) -> None:
    """Index live messages and each partition of the history.

    A partition that is made later gets the index, too. After an interruption, a repeated call
    makes the missing indexes.

    Args:
        execute: executes one statement on this connection.
        concurrently: whether messages are stored and run meanwhile. The connection must be in
            autocommit then.
    """
    at_once = Text("CONCURRENTLY" if concurrently else "")
    if not is_valid(connection, LIVE):
        _make_on(connection, execute, LIVE, at_once)
    execute(SQL["on_history"])
    for (table,) in _rows(connection, "partitions"):
        _make_on(connection, execute, table, at_once)
        attach = Text("ALTER INDEX pgqueue_history_search ATTACH PARTITION {}")
        execute(_text(attach.format(Identifier(table + SUFFIX))))


def drop_index(connection: Cursors, execute: Execute, *, concurrently: bool) -> None:
    """Drop the index, also one that an interrupted `make_index` has left.

    Args:
        execute: see `make_index`.
        concurrently: see `make_index`. The history's index is dropped with a lock all the same.
    """
    at_once = Text("CONCURRENTLY" if concurrently else "")
    execute(SQL["drop_on_history"])
    for (name,) in _rows(connection, "unattached"):
        execute(f"DROP INDEX IF EXISTS {name}")
    execute(_text(Text("DROP INDEX {} IF EXISTS {}").format(at_once, Identifier(LIVE + SUFFIX))))


def _make_on(connection: Cursors, execute: Execute, table: str, at_once: Text) -> None:
    # CREATE INDEX CONCURRENTLY leaves an invalid index if it is interrupted.
    name = Identifier(table + SUFFIX)
    execute(_text(Text("DROP INDEX {} IF EXISTS {}").format(at_once, name)))
    made = Text("CREATE INDEX {} {} ON {} {}").format(at_once, name, Identifier(table), COLUMNS)
    execute(_text(made))


def _text(statement: Composed) -> str:
    return statement.as_string(None)


def _rows(connection: Cursors, name: str, given: dict[str, Any] | None = None) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(SQL[name], given)
        rows: list[Any] = cursor.fetchall()
    return rows
