"""Divide a read into partitions of about the same size.

A partition reads whole blocks, by their numbers (ctid), of the tables that hold the rows, and of
history only the selected days. So partitions are even for any ids and times, no row is read twice,
and no index is needed.

All partitions see the same rows. History is append-only, and each of its rows names the
transaction that wrote it. So partitions select the rows that the planner's snapshot saw, however
late they run. Other tables change in place. There several partitions import one snapshot that a
process holds for them (see `holding`). A single partition needs no snapshot. Partitions of the
event log are ranges of positions up to the end of the log (see `events`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import psycopg
from psycopg.sql import SQL, Composable, Identifier, Literal

from pgqueue.arrow import events, holding
from pgqueue.arrow.errors import DataLoss
from pgqueue.arrow.events import Range
from pgqueue.arrow.options import ReadOptions
from pgqueue.arrow.tables import HISTORY
from pgqueue.arrow.urls import connect
from pgqueue.database.sql_files import load

SQL_TEXTS = load(__name__)
DAY = timedelta(days=1)
BLOCKS = 4096
"""Blocks in a partition by default: 32 MiB."""
POSITIONS = 100_000
"""Positions of the event log in a partition by default."""
MOST_BY_SIZE = 8
"""The most partitions without the option numPartitions."""
HELD_FOR = 60.0
"""Seconds without a reader after which a snapshot ends."""


class Stretch(NamedTuple):
    """Some blocks of a table.

    Attributes:
        relation: The table that the user reads. This table is the same or one of its partitions.
        oid: The OID of this table.
        filenode: Its filenode, which changes when PostgreSQL rewrites the table and moves its rows.
        day: The beginning of the partition's day, for history.
        first: The first block.
        end: The block after the last one; None: the stretch has no end.
    """

    relation: str
    schema: str
    name: str
    oid: int
    filenode: int
    day: datetime | None
    first: int
    end: int | None


class Part(NamedTuple):
    """The rows that one task of Spark reads.

    Attributes:
        cutoff: the snapshot (as text) that must see a row of history; None: any.
        exported: the identifier of a snapshot to import; None: none.
        positions: the range of positions of the event log, instead of stretches.
    """

    stretches: list[Stretch]
    cutoff: str | None = None
    exported: str | None = None
    positions: Range | None = None


def plan(options: ReadOptions) -> list[Part]:
    """Find the tables' blocks or positions, and divide them; return at least one part.

    Raises:
        DataLoss: retention has removed selected events.
        OtherCluster: the event log ends before a selected position.
        psycopg.Error: the database is unreachable, or lacks the tables of the queue.
    """
    if options.table.is_log:
        return _plan_of_log(options)
    if options.table.is_frozen:
        return _plan_of_frozen(options)
    if (options.partitions or 1) == 1:
        with connect(options.url, name="plan") as connection:
            whole = [
                stretch._replace(end=None) for stretch in _tables(connection, options, cut=False)
            ]
        return [Part(whole)]
    exported = holding.hold(options.url, idle=HELD_FOR)
    # Measured after the snapshot, so that the blocks contain every row that the snapshot sees.
    with connect(options.url, name="plan") as connection:
        stretches = list(_tables(connection, options))
    return [Part(each, exported=exported) for each in divided(stretches, options.partitions or 1)]


def _plan_of_frozen(options: ReadOptions) -> list[Part]:
    with connect(options.url, name="plan") as connection, connection.transaction():
        connection.execute(SQL_TEXTS["prepare"])
        snapshot, is_restored = connection.execute(SQL_TEXTS["snapshot"]).fetchone() or ("", True)
        stretches = list(_tables(connection, options))
    blocks = sum((stretch.end or 0) - stretch.first for stretch in stretches)
    by_size = min(max(-(-blocks // BLOCKS), 1), MOST_BY_SIZE)
    cutoff = None if is_restored else snapshot
    return [Part(each, cutoff) for each in divided(stretches, options.partitions or by_size)]


def _plan_of_log(options: ReadOptions) -> list[Part]:
    with connect(options.url, name="plan") as connection:
        events.advance(connection)
        floor, head = events.check_reached(connection, options.after or 0)
        after = floor if options.after is None else options.after
        if after < floor:
            raise DataLoss(
                f"Retention has removed events up to position {floor}, so reading after {after} "
                f"misses some. Leave out the option after, or set it to {floor}."
            )
        upto = head if options.before is None else min(head, options.before - 1)
        whole = Range(after, max(after, upto))
        whole = events.within_times(connection, whole, options.since, options.until)
    by_size = min(max(-(-(whole.upto - whole.after) // POSITIONS), 1), MOST_BY_SIZE)
    ranges = events.divided(whole, options.partitions or by_size)
    return [Part([], positions=each) for each in ranges] or [Part([])]


def divided(stretches: list[Stretch], count: int) -> list[list[Stretch]]:
    """Divide stretches into `count` lists of about as many blocks each, or fewer lists."""
    total = sum((stretch.end or 0) - stretch.first for stretch in stretches)
    if not total:
        return [[]]
    parts: list[list[Stretch]] = []
    done = 0
    for stretch in stretches:
        first = stretch.first
        while first < (stretch.end or 0):
            # The part that this block is in, and the block at which the next part begins.
            index = done * count // total
            room = -(-(index + 1) * total // count) - done
            end = min(first + room, stretch.end or 0)
            while len(parts) <= index:
                parts.append([])
            parts[index].append(stretch._replace(first=first, end=end))
            done += end - first
            first = end
    return [part for part in parts if part]


def _tables(
    connection: psycopg.Connection[Any], options: ReadOptions, *, cut: bool = True
) -> Iterator[Stretch]:
    """Yield the tables that hold the rows; for a day that is `cut` by a time, the needed part."""
    for relation in options.table.sources:
        is_history = relation == HISTORY
        # An attempt ends before its message, or with it.
        since = options.since if is_history else None
        until = options.until if is_history and options.table.time == "finished_at" else None
        rows = connection.execute(
            SQL_TEXTS["relations"], {"relation": relation, "since": since, "until": until}
        ).fetchall()
        for schema, name, oid, filenode, day, blocks, is_cut in rows:
            stretch = Stretch(relation, schema, name, oid, filenode, day, 0, blocks)
            yield _within(connection, stretch, since, until) if is_cut and cut else stretch


def _within(
    connection: psycopg.Connection[Any],
    stretch: Stretch,
    since: datetime | None,
    until: datetime | None,
) -> Stretch:
    """Return the blocks of a day of history that have the rows of a time, by the BRIN index."""
    query = SQL(
        "SELECT min(ctid)::text, max(ctid)::text FROM {} AS r "
        "WHERE finished_at >= coalesce(%(since)s, '-infinity'::timestamptz) "
        "AND finished_at < coalesce(%(until)s, 'infinity'::timestamptz)"
    ).format(rows_of(stretch))
    row = connection.execute(query, {"since": since, "until": until}).fetchone()
    low, high = row or (None, None)
    if low is None or high is None:
        return stretch._replace(end=0)
    return stretch._replace(first=_block(low), end=_block(high) + 1)


def rows_of(stretch: Stretch, conditions: Sequence[Composable] = ()) -> Composable:
    """Return a query of the rows of a stretch's table that fulfil conditions on `r`, with ctids.

    A day of history is read through its parent, since rights are granted on the parent.
    """
    day = stretch.day
    if day is None:
        table: Composable = SQL("ONLY {}").format(Identifier(stretch.schema, stretch.name))
    else:
        table = SQL(stretch.relation)
        conditions = [
            SQL("r.finished_at >= {}::timestamptz AND r.finished_at < {}::timestamptz").format(
                Literal(day.isoformat()), Literal((day + DAY).isoformat())
            ),
            *conditions,
        ]
    where = SQL(" AND ").join([SQL("true"), *conditions])
    return SQL("(SELECT r.ctid, r.* FROM {} r WHERE {})").format(table, where)


def _block(ctid: str) -> int:
    return int(ctid[1:].partition(",")[0])
