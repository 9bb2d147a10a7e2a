"""Follow history as messages end: the functions that streams and exports call.

The attempts and steps of the messages that ended are followed in the same way.

An offset names the last row that was read: the number of the transaction that wrote it, its id and
its marker (see `engine.identity`). It also has the identity of the database. `streaming.sql`
explains why the stream misses no row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from psycopg.sql import SQL, Composable, Literal

from pgqueue.arrow.errors import DataLoss, OtherCluster
from pgqueue.arrow.options import EARLIEST, StreamOptions
from pgqueue.arrow.outages import read_on
from pgqueue.arrow.reading import BY_MESSAGE, BY_TRANSACTION, prepare
from pgqueue.arrow.reading import read as rows_of
from pgqueue.arrow.tables import HISTORY
from pgqueue.arrow.urls import connect
from pgqueue.database.sql_files import load
from pgqueue.engine import identity
from pgqueue.engine.values import Position

if TYPE_CHECKING:
    import pyarrow as pa

SQL_TEXTS = load(__name__)
START = Position(0, 0)
_OTHER = (
    "The checkpoint follows the database {theirs}, and this is {ours}: another one, or one that "
    "was restored. Transaction numbers of one mean nothing in another. Begin with a new "
    "checkpoint, or export to another folder."
)
_EARLIER = (
    "the database was restored to an earlier time, or this is a standby that lags behind, or was "
    "promoted before it had everything. Wait for the standby; else begin with a new checkpoint, or "
    "export to another folder."
)


class Offset(NamedTuple):
    """The row up to which a stream has read.

    Attributes:
        database: the identity of the database (see `engine.identity`).
        last: the last row that was read.
        marker: the marker of this row; None: there was no row.
        floor: the last transaction of which retention had removed rows when the query began. It
            began without them.
        began: where the query began, in the offset where its first batch begins or ends; else None.
            Spark's checkpoint does not have the begin of the first batch.
        is_whole: whether the row is the last one of its transaction.
    """

    database: str
    last: Position
    marker: int | None = None
    floor: int = 0
    began: Position | None = None
    is_whole: bool = True

    def begin(self, start: Offset) -> Offset:
        """Return the begin of the batch that ends here.

        Args:
            start: where Spark begins the batch. If the first batch was interrupted, Spark begins it
                where a new query would.
        """
        if self.began is None:
            return start
        return start._replace(last=self.began, marker=None, floor=self.floor)

    def as_json(self) -> dict[str, Any]:
        """Return the offset as Spark stores it in a checkpoint."""
        return {
            "database": self.database,
            **self.last._asdict(),
            "marker": self.marker,
            "floor": self.floor,
            "is_whole": self.is_whole,
            **({} if self.began is None else {"began": self.began._asdict()}),
        }

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Offset:
        """Return the offset that a checkpoint contains."""
        last = Position(given["txid"], given["id"])
        began = Position(**given["began"]) if given.get("began") else None
        return cls(
            given.get("database", "?"),
            last,
            given.get("marker"),
            given.get("floor", 0),
            began,
            given.get("is_whole", True),
        )


class Range(NamedTuple):
    """The rows after one position, up to another; and the marker of the last one, if known."""

    after: Position
    last: Position
    marker: int | None = None


def first(options: StreamOptions) -> Offset:
    """Return the offset where a new query begins.

    Raises:
        OtherCluster: history was restored from another cluster.
    """
    with connect(options.url, name="stream") as connection:
        _, floor = _server(connection)
        database = identity.of(connection)
        last = _start(connection, options.start)
        if isinstance(options.start, Position):
            # The user names a row that was read: the rows after it must still exist.
            floor = 0
        marker, is_whole = identity.of_history(connection, last), _is_whole(connection, last)
        return Offset(database, last, marker, floor, began=last, is_whole=is_whole)


def _start(connection: psycopg.Connection[Any], start: object) -> Position:
    if isinstance(start, Position):
        return start
    if isinstance(start, datetime):
        row = connection.execute(SQL_TEXTS["before_time"], {"time": start}).fetchone()
        return Position(row[0], 2**63 - 1) if row and row[0] else START
    return START if start == EARLIEST else _last(connection)


def newest(options: StreamOptions) -> Position:
    """Return the last row that can be read now."""
    with connect(options.url, name="stream") as connection:
        return _last(connection)


def _last(connection: psycopg.Connection[Any]) -> Position:
    row = connection.execute(SQL_TEXTS["last"]).fetchone()
    return Position(*row) if row else START


def next_after(
    offset: Offset, options: StreamOptions, *, limit: int | None, until: Position | None = None
) -> Offset:
    """Return the offset where the next batch ends; the same one if no row is new.

    Args:
        limit: the rows of the batch, at most.
        until: the last row of the query; None: it goes on.

    Raises:
        DataLoss: retention has removed rows that the stream has not read.
        OtherCluster: the offset belongs to another database, or to a later state of this one.
    """
    with connect(options.url, name="stream") as connection:
        _checked(connection, offset, options)
        end = _last(connection)
        if until is not None:
            end = min(end, until)
        if end <= offset.last:
            return offset
        if limit is not None:
            given = {**_between(Range(offset.last, end)), "count": limit}
            row = connection.execute(SQL_TEXTS["nth"], given).fetchone()
            end = Position(*row) if row else end
        began = offset.last if offset.began == offset.last else None
        marker, is_whole = identity.of_history(connection, end), _is_whole(connection, end)
        return offset._replace(last=end, marker=marker, began=began, is_whole=is_whole)


def _is_whole(connection: psycopg.Connection[Any], last: Position) -> bool:
    row = connection.execute(SQL_TEXTS["is_whole"], last._asdict()).fetchone()
    return bool(row and row[0])


def divide(options: StreamOptions, start: Offset, end: Offset) -> list[Range]:
    """Divide a batch into ranges with equal numbers of rows.

    Raises:
        OtherCluster: the batch began in another database.
    """
    if end.database != start.database:
        raise OtherCluster(_OTHER.format(theirs=end.database, ours=start.database))
    if end.last <= start.last:
        return []
    whole = Range(start.last, end.last, end.marker)
    if options.partitions == 1:
        return [whole]
    # If retention removes rows of the batch, the last range detects it.
    with connect(options.url, name="stream") as connection:
        ends = [*_bounds(connection, whole, options.partitions), whole.last]
    ranges = [Range(*each) for each in zip([whole.after, *ends], ends, strict=False)]
    return [*ranges[:-1], ranges[-1]._replace(marker=whole.marker)]


def _bounds(connection: psycopg.Connection[Any], whole: Range, parts: int) -> Iterator[Position]:
    """Yield the last row of each part but the last one, for parts with equal numbers of rows."""
    [(size,)] = connection.execute(SQL_TEXTS["size"], _between(whole)).fetchall()
    step = ceil(size / parts)
    for _ in range(1, ceil(size / step) if step else 0):
        given = {**_between(whole), "count": step}
        row = connection.execute(SQL_TEXTS["nth"], given).fetchone()
        if row is None:
            return
        whole = whole._replace(after=Position(*row))
        yield whole.after


def read(options: StreamOptions, start: Offset, part: Range) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a range, on an executor; after an outage, go on after the last one.

    Raises:
        DataLoss: retention has removed rows of the range.
        OtherCluster: the cluster was restored to a time before this range was made.
    """
    return read_on(partial(_read, options, start, part))


def _read(
    options: StreamOptions, start: Offset, part: Range, place: str | None
) -> Iterator[tuple[str, pa.RecordBatch]]:
    order = BY_TRANSACTION if options.table.is_frozen else BY_MESSAGE
    with connect(options.url, name="stream read") as connection:
        # The last statement must see the removals of retention during the one before.
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        with connection.transaction():
            prepare(connection, options)
            rows_after = partial(_rows, part)
            yield from rows_of(connection, options, HISTORY, rows_after, order, after=place)
            # Retention records the end of a removal before it removes rows.
            _checked(connection, start, options, read_up_to=part)


def _rows(part: Range, place: str | None) -> Composable:
    """Return the rows of a range after a place, as a sub-select without a name; None: all."""
    after = Position(*map(int, place.strip("()").split(","))) if place else part.after
    return SQL(
        "(SELECT r.ctid, r.* FROM pgqueue_history r "
        "WHERE (r.txid, r.id) > ({}, {}) AND (r.txid, r.id) <= ({}, {}))"
    ).format(*map(Literal, (*after, *part.last)))


def _between(part: Range) -> dict[str, int]:
    return {
        "txid": part.after.txid,
        "id": part.after.id,
        "last_txid": part.last.txid,
        "last_id": part.last.id,
    }


def check(url: str, offset: Offset) -> None:
    """Check that the database is the one that an offset names.

    Raises:
        OtherCluster: the database is another one, or was restored to an earlier state.
    """
    options = StreamOptions(url=url, name="history", columns=(), fails_on_loss=False)
    with connect(url, name="stream") as connection:
        _checked(connection, offset, options)


def _server(connection: psycopg.Connection[Any]) -> tuple[int, int]:
    """Return the next transaction number, and the last one of which retention has removed rows.

    Raises:
        OtherCluster: history was restored from another cluster.
    """
    row = connection.execute(SQL_TEXTS["server"]).fetchone()
    following, floor, is_restored = row or (0, 0, False)
    if is_restored:
        renumber = SQL_TEXTS["renumber"] % {"following": following}
        raise OtherCluster(
            "History was restored from another cluster: its rows have transaction numbers that "
            f"this one has not reached. Give them one of this cluster's: {renumber}"
        )
    return following, floor


def _checked(
    connection: psycopg.Connection[Any],
    offset: Offset,
    options: StreamOptions,
    *,
    read_up_to: Range | None = None,
) -> None:
    """Check that the offset's database still has all rows after the offset.

    Args:
        read_up_to: a later range, whose last row must be unchanged, too.
    """
    following, floor = _server(connection)
    database = identity.of(connection)
    if offset.database != database:
        raise OtherCluster(_OTHER.format(theirs=offset.database, ours=database))
    if floor < offset.floor:  # it never falls, except by a restore
        raise OtherCluster(
            f"Retention had removed history up to transaction {offset.floor} when the query began, "
            f"and up to {floor} here: {_EARLIER}"
        )
    _check_reached(connection, offset.last, offset.marker, following, floor)
    if read_up_to:
        _check_reached(connection, read_up_to.last, read_up_to.marker, following, floor)
    # The rest of the transaction may be removed.
    read = max(offset.last.txid - (not offset.is_whole), offset.floor)
    if offset.last > START and read < floor and options.fails_on_loss:
        raise DataLoss(
            f"Retention has removed history up to transaction {floor}, and the stream has read "
            f"up to {offset.last.txid}. Rows between them may be missing: begin with a new "
            "checkpoint, or set failOnDataLoss to false to go on with the remaining rows."
        )


def _check_reached(
    connection: psycopg.Connection[Any],
    last: Position,
    marker: int | None,
    following: int,
    floor: int,
) -> None:
    """Check that a row exists unchanged, unless retention has removed it."""
    if last.txid >= following:
        raise OtherCluster(
            f"The checkpoint has read up to transaction {last.txid}, and the cluster is at "
            f"{following}: {_EARLIER}"
        )
    if marker is None:
        return
    found = identity.of_history(connection, last)
    if found != marker and (found is not None or floor < last.txid):
        raise OtherCluster(
            f"The checkpoint has read message {last.id} of transaction {last.txid}, which has not "
            f"ended here, or at another time: {_EARLIER}"
        )
