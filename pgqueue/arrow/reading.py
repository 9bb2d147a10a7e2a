"""Read one part of a plan: on an executor, in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from psycopg.sql import SQL, Composable, Literal

from pgqueue.arrow import events
from pgqueue.arrow.errors import SnapshotGone, TableChanged
from pgqueue.arrow.events import Range
from pgqueue.arrow.holding import name_of_readers
from pgqueue.arrow.options import Filter, ReadOptions, Selection
from pgqueue.arrow.outages import read_on
from pgqueue.arrow.planning import Part, Stretch, rows_of
from pgqueue.arrow.tables import EVENT, HISTORY
from pgqueue.arrow.urls import connect
from pgqueue.database.sql_files import load
from pgqueue.engine import log
from pgqueue.redaction import Redaction
from pgqueue.values.escaping import logger_of

if TYPE_CHECKING:
    import pyarrow as pa

logger = logger_of(__name__)

SQL_TEXTS = load(__name__)
# The error for an unknown snapshot depends on the server's version.
_GONE = (
    psycopg.errors.InvalidParameterValue,
    psycopg.errors.UndefinedObject,
    psycopg.errors.ObjectNotInPrerequisiteState,
)


GIVEN = ("since", "until", "cutoff")
"""The settings that queries read, beside those of their filters."""


class Order(NamedTuple):
    """The place of a row `m`, from which a read goes on after an outage; and an ORDER BY."""

    place: str
    by: str


BY_BLOCKS = Order("m.ctid", "")
"""Blocks are read one after the other, by their numbers."""
BY_POSITION = Order("m.position", " ORDER BY m.position")
BY_TRANSACTION = Order("ROW(m.txid, m.id)", " ORDER BY m.txid, m.id")
BY_MESSAGE = Order("ROW(m.txid, m.message_id)", " ORDER BY m.txid, m.message_id")
"""The rows of one message, such as its attempts, have the message's place in history."""


class _Place(NamedTuple):
    """The progress in a part: the number of a stretch, and the place of its last row read."""

    stretch: int
    row: str


def batches(options: ReadOptions, part: Part) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a part; after an outage, go on after the last one.

    Raises:
        OtherCluster: the event log of this server is shorter than the planner's.
        SnapshotGone: the part imports a snapshot that has ended.
        TableChanged: a table was dropped or rewritten since the plan.
        SnapshotGone: the connection broke while reading a table that changes, without a snapshot.
        psycopg.Error: the database was unreachable for a minute.
    """
    return read_on(partial(_batches, options, part))


def _batches(
    options: ReadOptions, part: Part, place: _Place | None
) -> Iterator[tuple[_Place, pa.RecordBatch]]:
    if place and not (options.table.is_frozen or part.exported):
        raise SnapshotGone("The connection to a table that changes was lost: load it again.")
    with connect(options.url, name="read") as connection:
        connection.read_only = True
        if part.positions:
            after = int(place.row) if place else part.positions.after
            rest = part.positions._replace(after=after)
            for row, batch in _events(connection, options, rest):
                yield _Place(0, row), batch
            return
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        with connection.transaction():
            if part.exported:
                _import(connection, part.exported)
            prepare(connection, options)
            if part.cutoff:
                connection.execute(SQL_TEXTS["give"], {"name": "cutoff", "value": part.cutoff})
            begun, after_row = place or (0, None)
            for number, stretch in enumerate(part.stretches[begun:], begun):
                rows = partial(_rows, part, stretch)
                found = read(
                    connection, options, stretch.relation, rows, BY_BLOCKS, after=after_row
                )
                for row, batch in found:
                    yield _Place(number, row), batch
                _check_unchanged(connection, stretch)
                after_row = None


def _events(
    connection: psycopg.Connection[Any], options: ReadOptions, part: Range
) -> Iterator[tuple[str, pa.RecordBatch]]:
    # The last statement must see the removals of retention during the one before.
    connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    with connection.transaction():
        prepare(connection, options)
        events.check_reached(connection, part.upto)
        yield from read(connection, options, EVENT, partial(events.rows_after, part), BY_POSITION)
        floor = log.bounds(connection).floor
        if floor > part.after:
            raise TableChanged(
                f"Retention has removed events up to position {floor} after this read was "
                "planned: load it again."
            )


def _import(connection: psycopg.Connection[Any], snapshot: str) -> None:
    try:
        connection.execute(SQL("SET TRANSACTION SNAPSHOT {}").format(Literal(snapshot)))
    except _GONE as error:
        raise SnapshotGone from error
    connection.execute(SQL_TEXTS["name_reader"], {"name": name_of_readers(snapshot)})


def prepare(connection: psycopg.Connection[Any], options: Selection) -> None:
    """Set the options' values as settings of this transaction, so that no query contains them."""
    connection.execute(SQL_TEXTS["prepare"])
    if not options.table.is_log:
        connection.execute(SQL_TEXTS["by_index"])
    for name, value in (("since", options.since), ("until", options.until)):
        if value is not None:
            connection.execute(SQL_TEXTS["give"], {"name": name, "value": str(value)})
    for column, values, pattern in options.filters:
        connection.execute(SQL_TEXTS["give_all"], {"name": column, "values": values})
        if pattern:
            given = {"name": f"{column}_pattern", "value": pattern}
            connection.execute(SQL_TEXTS["give"], given)


def _check_unchanged(connection: psycopg.Connection[Any], stretch: Stretch) -> None:
    """Check that the table is the planned one; from then on the transaction holds its lock."""
    row = connection.execute(SQL_TEXTS["found"], {"oid": stretch.oid}).fetchone()
    filenode, is_partition = row or (None, False)
    if filenode is None or (stretch.day and not is_partition):
        raise TableChanged(
            f"{stretch.name} was dropped after this read was planned, "
            "since its retention was over: load it again."
        )
    if stretch.end is not None and filenode != stretch.filenode:
        raise TableChanged(
            f"{stretch.name} was rewritten after this read was planned: load it again."
        )


def read(
    connection: psycopg.Connection[Any],
    options: Selection,
    relation: str,
    rows_after: Callable[[str | None], Composable],
    order: Order,
    *,
    after: str | None = None,
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the selected rows of a relation, redacted if the options ask for it.

    Each batch comes with the place of its last row.

    Args:
        connection: It is in a transaction, for which `prepare` was called.
        rows_after: The function returns the rows after a place as a sub-select; None: all.
        after: The place of the last row that was read before; None: none was.
    """
    from pgqueue.arrow import redacting

    if not options.redact:
        yield from _read(connection, options, relation, rows_after, order, after)
        return
    redaction = Redaction.from_json(options.redact)
    reading = redacting.with_needed(options)
    for place, batch in _read(connection, reading, relation, rows_after, order, after):
        yield place, redacting.redacted(batch, redaction, options.columns)


def _read(
    connection: psycopg.Connection[Any],
    options: Selection,
    relation: str,
    rows_after: Callable[[str | None], Composable],
    order: Order,
    after: str | None,
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield rows: many by DuckDB, if it is installed; all others, and those it refuses, by COPY."""
    from pgqueue.arrow import copying, scanning

    found = query(options, relation, rows_after(after), order)
    if scanning.is_worthwhile(connection, found, options.columns):
        session = scanning.ReaderSession(options.url, connection, _names_of_settings(options))
        as_text = order._replace(place=f"({order.place})::text")
        scanned = query(options, relation, rows_after(after), as_text)
        try:
            for after, batch in scanning.read(session, scanned, options.columns):
                yield after, batch
        except scanning.NotScanned as error:
            logger.warning("DuckDB does not read %s, so COPY does: %s", options.name, error)
        else:
            return
        found = query(options, relation, rows_after(after), order)
    yield from copying.read(connection, found, options.columns)


def _names_of_settings(options: Selection) -> list[str]:
    """Return the names of the settings that a query may read."""
    columns = [each.column for each in options.filters]
    names = [*GIVEN, *columns, *(f"{each}_pattern" for each in columns)]
    return [f"pgqueue.{each}" for each in names]


def query(
    options: Selection, relation: str, rows: Composable, order: Order = BY_BLOCKS
) -> Composable:
    """Return a query without parameters of the selected rows of a relation.

    The first column is the place of a row in an order.
    """
    table = options.table
    columns = SQL(", ").join(SQL(column.sql) for column in options.columns)
    source = SQL(table.sources[relation]).format(rows=rows)
    time = table.column(table.time).sql
    # In a sub-select, PostgreSQL reads a setting once and not for each row.
    conditions = [
        f"{sql} (SELECT current_setting('pgqueue.{name}')::timestamptz)"
        for name, sql, value in (
            ("since", f"{time} >=", options.since),
            ("until", f"{time} <", options.until),
        )
        if value is not None
    ] + [_condition(each) for each in options.filters]
    selected = SQL("".join(f" AND {condition}" for condition in conditions))
    place, by = SQL(order.place), SQL(order.by)
    return SQL("SELECT {}, {} FROM {}{}{}").format(place, columns, source, selected, by)


def _condition(selecting: Filter) -> str:
    column, _, pattern = selecting
    is_one = f"m.{column} = ANY ((SELECT current_setting('pgqueue.{column}')::text[])::text[])"
    if not pattern:
        return is_one
    return f"({is_one} OR m.{column} ~ (SELECT current_setting('pgqueue.{column}_pattern')))"


def _rows(part: Part, stretch: Stretch, after: str | None) -> Composable:
    """Return the rows of a stretch in the order of their blocks, as a sub-select without a name.

    OFFSET keeps the options' conditions out of the sub-select. By an index of their columns, rows
    would come in another order, and a read that goes on after a place would miss some.

    Args:
        after: The place after which the rows begin; None: at the stretch's first block.
    """
    after = after or f"({stretch.first},0)"
    # Row numbers in a block begin at 1.
    conditions: list[Composable] = [SQL("r.ctid > {}::tid").format(Literal(after))]
    if stretch.end is not None:
        conditions.append(SQL("r.ctid < {}::tid").format(Literal(f"({stretch.end},0)")))
    if part.cutoff and stretch.relation == HISTORY:
        conditions.append(SQL(SQL_TEXTS["was_visible"]))
    return SQL("(SELECT * FROM {} AS blocks OFFSET 0)").format(rows_of(stretch, conditions))
