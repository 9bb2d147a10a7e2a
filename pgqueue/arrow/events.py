"""The event log, as Spark reads it: by ranges of positions.

Positions have no gaps, and no position appears before one that was readable. So a range of
positions has the same events at each read, and needs no snapshot. Ranges of equal length are even.
A range touches only the partitions of the log that it lies in. Only retention removes events. It
first raises the floor, which each read checks at its end.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple

import psycopg
from psycopg.sql import SQL, Composable, Literal

from pgqueue.arrow.errors import OtherCluster
from pgqueue.database.sql_files import load
from pgqueue.engine import log, sequence
from pgqueue.engine.log import Bounds

SQL_TEXTS = load(__name__)
PATIENCE = 10.0
"""Seconds to wait for another session that gives positions to earlier events."""
EARLIER = (
    "the database was restored to an earlier time, or this is a standby that lags behind, or was "
    "promoted before it had everything. Wait for the standby; after a restore, load again, with a "
    "new checkpoint."
)
# On a standby, or as a role that may only read, other sessions give the positions.
_NOT_HERE = (psycopg.errors.ReadOnlySqlTransaction, psycopg.errors.InsufficientPrivilege)


class Range(NamedTuple):
    """The positions after `after`, up to `upto`."""

    after: int
    upto: int


def advance(connection: psycopg.Connection[Any], *, patience: float | None = None) -> None:
    """Give positions to published events, if this session may write.

    Args:
        connection: in autocommit.
        patience: seconds to wait for another session that gives positions; None: `PATIENCE`.
    """
    with suppress(*_NOT_HERE):
        sequence.catch_up(connection, patience=PATIENCE if patience is None else patience)


def within_times(
    connection: psycopg.Connection[Any],
    whole: Range,
    since: datetime | None,
    until: datetime | None,
) -> Range:
    """Return the part of a range that has all events of a time, found by the BRIN index."""
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


def rows_after(part: Range, place: str | None) -> Composable:
    """Return the rows of a range after a position, as a sub-select without a name; None: all."""
    after = part.after if place is None else int(place)
    # With literals, PostgreSQL leaves out partitions when it plans the query. From `> 999999` it
    # does not conclude that partitions below a million have no rows.
    return SQL(
        "(SELECT r.* FROM pgqueue_event r WHERE r.position >= {} AND r.position <= {})"
    ).format(Literal(after + 1), Literal(part.upto))


def check_reached(connection: psycopg.Connection[Any], upto: int) -> Bounds:
    """Check that this server has the log up to a position; return the log's bounds.

    Raises:
        OtherCluster: the log is shorter.
    """
    bounds = log.bounds(connection)
    if upto > bounds.head:
        raise OtherCluster(f"The log ends at position {bounds.head} here, before {upto}: {EARLIER}")
    return bounds
