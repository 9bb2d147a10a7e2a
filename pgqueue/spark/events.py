"""The event log, as Spark reads it: by ranges of positions.

Positions have no gaps, and none appears behind one that could be read. So a range of them has the
same events whenever it is read, and needs no snapshot; ranges of equal length are even; and a range
touches only the partitions of the log that it lies in. Retention alone takes events away: it first
raises the floor, which is looked at after each read.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple

import psycopg
from psycopg.sql import SQL, Composable, Literal

from pgqueue.database.sql_files import load
from pgqueue.engine import log, sequence
from pgqueue.engine.log import Bounds
from pgqueue.spark.errors import OtherCluster

SQL_TEXTS = load(__name__)
PATIENCE = 10.0
"""Seconds to wait for another session that gives positions to what was published before."""
EARLIER = (
    "the database was restored to an earlier time, or this is a standby that lags behind, or was "
    "promoted before it had everything. Wait for the standby; after a restore, load again, with a "
    "new checkpoint."
)
# A standby, and a role that may only read: others give positions there.
_NOT_HERE = (psycopg.errors.ReadOnlySqlTransaction, psycopg.errors.InsufficientPrivilege)


class Range(NamedTuple):
    """The positions after one, up to another."""

    after: int
    upto: int


def advance(connection: psycopg.Connection[Any], *, patience: float | None = None) -> None:
    """Give positions to what was published, where this session may write.

    Args:
        connection: in autocommit.
        patience: seconds to wait for another session that is at it; None: `PATIENCE`.
    """
    with suppress(*_NOT_HERE):
        sequence.catch_up(connection, patience=PATIENCE if patience is None else patience)


def within_times(
    connection: psycopg.Connection[Any],
    whole: Range,
    since: datetime | None,
    until: datetime | None,
) -> Range:
    """Return the part of a range that has all its events of a time: BRIN knows nearly these."""
    if since is None and until is None:
        return whole
    given = {**whole._asdict(), "since": since, "until": until}
    row = connection.execute(SQL_TEXTS["within_times"], given).fetchone()
    if row is None or row[0] is None:
        return whole._replace(upto=whole.after)
    return Range(row[0] - 1, row[1])


def divided(whole: Range, count: int) -> list[Range]:
    """Divide a range into `count` ranges of about the same length, or fewer: none is empty."""
    size = whole.upto - whole.after
    ends = [whole.after + size * number // count for number in range(count + 1)]
    return [Range(*each) for each in pairwise(ends) if each[0] < each[1]]


def rows_of(part: Range) -> Composable:
    """Return the rows of a range, as a sub-select without a name."""
    # As literals, they leave out partitions when the query is planned. Of `> 999999` PostgreSQL
    # doesn't know that it leaves out those below a million.
    return SQL(
        "(SELECT r.* FROM pgqueue_event r WHERE r.position >= {} AND r.position <= {})"
    ).format(Literal(part.after + 1), Literal(part.upto))


def check_reached(connection: psycopg.Connection[Any], upto: int) -> Bounds:
    """Check that this server has the log up to a position, before it is read; return its bounds.

    Raises:
        OtherCluster: it has not.
    """
    bounds = log.bounds(connection)
    if upto > bounds.head:
        raise OtherCluster(f"The log ends at position {bounds.head} here, before {upto}: {EARLIER}")
    return bounds
