"""A connection for what goes on around a measurement: filling, looking, emptying."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Any

from psycopg.errors import InsufficientPrivilege

from pgqueue.database.connections import connect
from pgqueue.engine.values import Connection


@cache
def session() -> Connection:
    """Return the one connection, in autocommit."""
    return connect("default", name="benchmark")


def ask(statement: bytes, parameters: Mapping[str, Any] | None = None) -> tuple[Any, ...]:
    """Return the one row that a statement returns."""
    [row] = session().execute(statement, parameters).fetchall()
    return tuple(row)


def settle_down(connection: Connection | None = None) -> None:
    """Have the server do now what it would otherwise do while a queue is measured.

    Args:
        connection: a connection to the queue, in autocommit; None: `session()`.
    """
    connection = connection or session()
    connection.execute(
        "VACUUM (ANALYZE) pgqueue_message, pgqueue_staged, pgqueue_worker, pgqueue_duty, "
        "pgqueue_lane, pgqueue_bell"
    )
    with suppress(InsufficientPrivilege):
        connection.execute("CHECKPOINT")
