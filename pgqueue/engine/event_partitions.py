"""The partitions of the log, a million positions each: made ahead, so that no sequencer waits."""

from __future__ import annotations

from psycopg.errors import DuplicateObject, DuplicateTable, UniqueViolation
from psycopg.sql import SQL as Text
from psycopg.sql import Identifier, Literal

from pgqueue.engine.values import Connection
from pgqueue.statements import load
from pgqueue.transactions import wait_at_most

SQL = load(__name__)

SIZE = 1_000_000
AHEAD = 1
"""Whole partitions beyond the one that is being filled."""
PATIENCE = "5s"
"""The lock_timeout: a lock that this code waits for blocks other sessions meanwhile."""


def ensure(connection: Connection) -> int:
    """Make the partitions that are missing; return how many."""
    rows = connection.execute(SQL["missing"], {"size": SIZE, "ahead": AHEAD}).fetchall()
    return sum(_make(connection, schema, number) for schema, number in rows)


def _make(connection: Connection, schema: str, number: int) -> bool:
    """Make a partition; return False if another session has just made it."""
    # LIKE and ATTACH: PARTITION OF would wait for every reader of the log.
    name = Identifier(schema, f"pgqueue_event_{number}")
    try:
        with connection.transaction():
            wait_at_most(connection, PATIENCE)
            connection.execute(
                Text(
                    "CREATE TABLE {} (LIKE pgqueue_event INCLUDING DEFAULTS INCLUDING CONSTRAINTS)"
                ).format(name)
            )
            connection.execute(
                Text(
                    "ALTER TABLE pgqueue_event ATTACH PARTITION {} FOR VALUES FROM ({}) TO ({})"
                ).format(name, Literal(number * SIZE), Literal((number + 1) * SIZE))
            )
    except (DuplicateTable, DuplicateObject, UniqueViolation):
        return False
    return True
