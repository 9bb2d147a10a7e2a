"""The days of history: made ahead, so that no settle has to wait for one."""

from collections.abc import Mapping
from contextlib import nullcontext
from datetime import date, timedelta
from typing import Any

from psycopg.errors import CheckViolation, DuplicateTable, UniqueViolation
from psycopg.pq import TransactionStatus
from psycopg.sql import SQL as Text
from psycopg.sql import Identifier, Literal

from pgqueue.engine.values import Connection
from pgqueue.statements import load

SQL = load(__name__)

AHEAD = timedelta(days=14)


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
            connection.execute("SET LOCAL lock_timeout = '5s'")
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
