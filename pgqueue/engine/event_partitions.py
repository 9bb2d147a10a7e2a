"""Make the partitions of the log, a million positions each, ahead of time: no sequencer waits."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from math import ceil

from pgqueue.database.sql_files import load
from pgqueue.engine import partitioning
from pgqueue.engine.culprits import one_by_one
from pgqueue.engine.values import Connection

SQL = load(__name__)

TABLE = "pgqueue_event"
SIZE = 1_000_000
LASTING = timedelta(minutes=2)
"""How long the partitions made ahead must last, at the pace of the last million events."""
MOST_AHEAD = 10
"""Partitions beyond the current one, at most: each costs readers some microseconds."""
FOR_EVER = timedelta(days=365)


def ensure(connection: Connection) -> int:
    """Make the partitions that are missing; return their number.

    If the making of a partition fails, the log names it, and the others are made all the same.
    """
    given = {"size": SIZE, "ahead": _ahead(_pace(connection))}
    rows = connection.execute(SQL["missing"], given).fetchall()
    make = partial(_make_one, connection)
    made = one_by_one(
        make,
        rows,
        what=partitioning.MAKING,
        row=lambda missing: _name(missing[1]),
        is_own=partitioning.is_own,
    )
    return sum(made)


def _make_one(connection: Connection, missing: tuple[str, int]) -> bool:
    return _make(connection, *missing)


def _name(number: int) -> str:
    return f"{TABLE}_{number}"


def lasting(connection: Connection) -> timedelta:
    """Return how long the partitions of `ensure` last, at the present rate of events."""
    pace = _pace(connection)
    return min(FOR_EVER, _ahead(pace) * pace)


def _ahead(pace: timedelta) -> int:
    return min(MOST_AHEAD, max(1, ceil(LASTING / pace)))


def _pace(connection: Connection) -> timedelta:
    """Return the time in which events fill a partition."""
    row = connection.execute(SQL["pace"], {"size": SIZE}).fetchone()
    seconds = row and row[0]
    return (
        timedelta(seconds=max(1, min(seconds, FOR_EVER.total_seconds()))) if seconds else FOR_EVER
    )


def _make(connection: Connection, schema: str, number: int) -> bool:
    """Make a partition; return False if another session has made it meanwhile."""
    first, end = number * SIZE, (number + 1) * SIZE
    return partitioning.make_partition(
        connection, schema, TABLE, _name(number), first=first, end=end
    )
