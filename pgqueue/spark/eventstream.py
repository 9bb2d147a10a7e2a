"""Follow the event log: what Spark's stream asks of the database.

An offset is the last position that was read, and the cluster that it belongs to. `streaming` does
the same for history, by functions of the same names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg

from pgqueue.engine import log
from pgqueue.engine.log import Bounds
from pgqueue.spark import events
from pgqueue.spark.errors import DataLoss, InvalidOption, OtherCluster
from pgqueue.spark.events import Range
from pgqueue.spark.options import EARLIEST, LATEST, StreamOptions
from pgqueue.spark.reading import prepare
from pgqueue.spark.reading import read as rows_of
from pgqueue.spark.tables import EVENT
from pgqueue.spark.urls import connect

if TYPE_CHECKING:
    import pyarrow as pa


class Offset(NamedTuple):
    """How far a stream has read.

    Attributes:
        cluster: PostgreSQL's system_identifier.
        last: the last position that was read.
    """

    cluster: str
    last: int

    def as_json(self) -> dict[str, Any]:
        """Return what Spark stores in a checkpoint."""
        return {"cluster": self.cluster, "position": self.last}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Offset:
        """Return the offset that a checkpoint contains.

        Raises:
            InvalidOption: it is one of another table.
        """
        if "position" not in given:
            raise InvalidOption("The checkpoint is of another table. Begin with a new one.")
        return cls(given["cluster"], given["position"])


def first(options: StreamOptions) -> Offset:
    """Return the offset where a new query begins.

    Raises:
        OtherCluster: the log is not as long.
    """
    with connect(options.url, name="stream") as connection:
        events.advance(connection)
        return Offset(events.cluster(connection), _start(connection, options.start))


def _start(connection: psycopg.Connection[Any], start: object) -> int:
    if isinstance(start, datetime):
        return log.position_at(connection, start)
    if isinstance(start, int):
        events.check_reached(connection, start)
        return start
    bounds = log.bounds(connection)
    return {EARLIEST: bounds.floor, LATEST: bounds.head}[str(start)]


def newest(options: StreamOptions) -> int:
    """Return the last position that can be read now."""
    with connect(options.url, name="stream") as connection:
        events.advance(connection)
        return log.bounds(connection).head


def next_after(
    offset: Offset, options: StreamOptions, *, limit: int | None, until: int | None = None
) -> Offset:
    """Return the offset where the next batch ends; the same one if there is nothing new.

    Args:
        limit: the positions of the batch, at most.
        until: where the query ends; None: it goes on.

    Raises:
        DataLoss: retention has removed events that were not read.
        OtherCluster: the offset belongs to another cluster, or to a later state of this one.
    """
    with connect(options.url, name="stream") as connection:
        events.advance(connection, patience=0)
        _check_cluster(connection, offset)
        bounds = events.check_reached(connection, offset.last)
    _check_floor(offset.last, bounds, options)
    end = bounds.head if until is None else min(bounds.head, until)
    if limit is not None:
        # What retention has removed counts for nothing.
        end = min(end, max(offset.last, bounds.floor) + limit)
    return offset._replace(last=max(offset.last, end))


def divide(options: StreamOptions, start: Offset, end: Offset) -> list[Range]:
    """Divide a batch into ranges of as many positions each.

    Raises:
        OtherCluster: the batch was begun in another cluster. Of a first batch that was
            interrupted, the checkpoint has only the end: it begins where a new query would.
    """
    if end.cluster != start.cluster:
        raise _of_another(end.cluster, start.cluster)
    return events.divided(Range(start.last, max(start.last, end.last)), options.partitions)


def read(options: StreamOptions, start: Offset, part: Range) -> Iterator[pa.RecordBatch]:
    """Yield the events of a range, on an executor.

    Raises:
        DataLoss: retention has removed some of them.
        OtherCluster: the cluster is another one, or was restored to an earlier time than the range
            was made at.
    """
    with connect(options.url, name="stream read") as connection:
        # The last statement is to see what retention did during the one before.
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        connection.read_only = True
        with connection.transaction():
            _check_cluster(connection, start)
            events.check_reached(connection, part.upto)
            prepare(connection, options)
            yield from rows_of(connection, options, EVENT, events.rows_of(part))
            _check_floor(part.after, log.bounds(connection), options)


def _check_cluster(connection: psycopg.Connection[Any], offset: Offset) -> None:
    ours = events.cluster(connection)
    if offset.cluster != ours:
        raise _of_another(offset.cluster, ours)


def _of_another(theirs: str, ours: str) -> OtherCluster:
    return OtherCluster(
        f"The checkpoint follows the cluster {theirs}, and this is {ours}. If its log is a "
        'restored copy, begin with a new checkpoint and startingOffsets {"position": …}, the last '
        "position that was read; to export, choose another folder."
    )


def _check_floor(after: int, bounds: Bounds, options: StreamOptions) -> None:
    if bounds.floor > after and options.fails_on_loss:
        raise DataLoss(
            f"Retention has removed events up to position {bounds.floor}, and the stream has read "
            f"up to {after}: begin with a new checkpoint, or set failOnDataLoss to false to go on "
            "with what is there."
        )
