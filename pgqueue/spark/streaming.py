"""Follow history as messages end: what Spark's stream asks of the database.

An offset is the last row that was read, by the number of the transaction that wrote it and by its
id, and the cluster that the numbers belong to. `streaming.sql` says why no row is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from psycopg.sql import SQL, Composable, Literal

from pgqueue.engine.values import Position
from pgqueue.spark.errors import DataLoss, OtherCluster
from pgqueue.spark.options import EARLIEST, StreamOptions
from pgqueue.spark.reading import prepare
from pgqueue.spark.reading import read as rows_of
from pgqueue.spark.tables import HISTORY
from pgqueue.spark.urls import connect
from pgqueue.statements import load

if TYPE_CHECKING:
    import pyarrow as pa

SQL_TEXTS = load(__name__)
START = Position(0, 0)
_OTHER = (
    "The checkpoint follows the cluster {theirs}, and this is {ours}: transaction numbers of one "
    "mean nothing in another. Begin with a new checkpoint, or export to another folder."
)


class Offset(NamedTuple):
    """How far a stream has read.

    Attributes:
        cluster: PostgreSQL's system_identifier.
        last: the last row that was read.
    """

    cluster: str
    last: Position

    def as_json(self) -> dict[str, Any]:
        """Return what Spark stores in a checkpoint."""
        return {"cluster": self.cluster, "txid": self.last.txid, "id": self.last.id}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Offset:
        """Return the offset that a checkpoint contains."""
        return cls(given["cluster"], Position(given["txid"], given["id"]))


class Range(NamedTuple):
    """The rows after one position, up to another."""

    after: Position
    last: Position


def first(options: StreamOptions) -> Offset:
    """Return the offset where a new query begins.

    Raises:
        OtherCluster: history was restored from another cluster.
    """
    with connect(options.url, name="stream") as connection:
        cluster = _checked(connection, None, options)
        return Offset(cluster, _start(connection, options.start))


def _start(connection: psycopg.Connection[Any], start: object) -> Position:
    if isinstance(start, Position):
        return start
    if isinstance(start, datetime):
        row = connection.execute(SQL_TEXTS["before_time"], {"time": start}).fetchone()
        if row and row[0] is not None:
            return Position(row[0], 2**63 - 1)
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
    """Return the offset where the next batch ends; the same one if there is nothing new.

    Args:
        limit: the rows of the batch, at most.
        until: where the query ends; None: it goes on.

    Raises:
        DataLoss: retention has removed rows that were not read.
        OtherCluster: the offset belongs to another cluster, or to a later state of this one.
    """
    with connect(options.url, name="stream") as connection:
        _checked(connection, offset, options)
        end = _last(connection)
        if until is not None:
            end = min(end, until)
        if end <= offset.last:
            return offset
        if limit is not None:
            parameters = {**_between(Range(offset.last, end)), "count": limit}
            row = connection.execute(SQL_TEXTS["nth"], parameters).fetchone()
            end = Position(*row) if row else end
        return offset._replace(last=end)


def divide(options: StreamOptions, start: Offset, end: Offset) -> list[Range]:
    """Divide a batch into ranges of as many rows each.

    Raises:
        OtherCluster: the batch was begun in another cluster. Of a first batch that was
            interrupted, the checkpoint has only the end: it begins where a new query would.
    """
    if end.cluster != start.cluster:
        raise OtherCluster(_OTHER.format(theirs=end.cluster, ours=start.cluster))
    if end.last <= start.last:
        return []
    whole = Range(start.last, end.last)
    if options.partitions == 1:
        return [whole]
    with connect(options.url, name="stream") as connection:
        parameters = {**_between(whole), "parts": options.partitions}
        rows = connection.execute(SQL_TEXTS["bounds"], parameters).fetchall()
    ends = [Position(*row) for row in rows]
    # Those of the batch that have been removed, or will be, are missed in the last range.
    ends = [*ends[:-1], whole.last]
    return [Range(*each) for each in zip([whole.after, *ends], ends, strict=False)]


def read(options: StreamOptions, start: Offset, part: Range) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a range, on an executor.

    Raises:
        DataLoss: retention has removed rows of it.
        OtherCluster: the cluster was restored to an earlier time than the range was made at.
    """
    with connect(options.url, name="stream read") as connection:
        # The last statement is to see what retention did during the one before.
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        with connection.transaction():
            prepare(connection, options)
            yield from rows_of(connection, options, HISTORY, _rows(part))
            # Retention says what it removes before it does.
            _checked(connection, start, options, read_up_to=part.last)


def _rows(part: Range) -> Composable:
    return SQL(
        "(SELECT r.* FROM pgqueue_history r "
        "WHERE (r.txid, r.id) > ({}, {}) AND (r.txid, r.id) <= ({}, {}))"
    ).format(*map(Literal, (*part.after, *part.last)))


def _between(part: Range) -> dict[str, int]:
    return {
        "txid": part.after.txid,
        "id": part.after.id,
        "last_txid": part.last.txid,
        "last_id": part.last.id,
    }


def _checked(
    connection: psycopg.Connection[Any],
    offset: Offset | None,
    options: StreamOptions,
    *,
    read_up_to: Position = START,
) -> str:
    """Check that all after an offset is still there, in the cluster that it tells of.

    Args:
        read_up_to: a later position that this cluster must have reached, too.

    Returns:
        The cluster.
    """
    row = connection.execute(SQL_TEXTS["server"]).fetchone()
    cluster, following, floor, is_restored = row or ("", 0, 0, False)
    if is_restored:
        renumber = SQL_TEXTS["renumber"] % {"following": following}
        raise OtherCluster(
            "History was restored from another cluster: its rows have transaction numbers that "
            f"this one has not reached. Give them one of this cluster's: {renumber}"
        )
    if offset is None:
        return str(cluster)
    if offset.cluster != cluster:
        raise OtherCluster(_OTHER.format(theirs=offset.cluster, ours=cluster))
    last = max(offset.last, read_up_to)
    if last.txid >= following:
        raise OtherCluster(
            f"The checkpoint has read up to transaction {last.txid}, and the cluster is at "
            f"{following}: it was restored to an earlier time. Begin with a new checkpoint, or "
            "export to another folder."
        )
    if offset.last > START and offset.last.txid < floor and options.fails_on_loss:
        raise DataLoss(
            f"Retention has removed history up to transaction {floor}, and the stream has read "
            f"up to {offset.last.txid}. Rows between them may be missing: begin with a new "
            "checkpoint, or set failOnDataLoss to false to go on with what is there."
        )
    return str(cluster)
