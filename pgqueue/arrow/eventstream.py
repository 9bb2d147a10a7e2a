"""Follow the event log: the functions that streams and exports call.

An offset is the last position that the stream has read, the identity of the database, and the
marker of the event there (see `engine.identity`). `streaming` has functions of the same names for
history.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg

from pgqueue.arrow import events
from pgqueue.arrow.errors import DataLoss, InvalidOption, OtherCluster
from pgqueue.arrow.events import Range
from pgqueue.arrow.options import EARLIEST, LATEST, StreamOptions
from pgqueue.arrow.outages import read_on
from pgqueue.arrow.reading import BY_POSITION, prepare
from pgqueue.arrow.reading import read as rows_of
from pgqueue.arrow.tables import EVENT
from pgqueue.arrow.urls import connect
from pgqueue.engine import identity, log
from pgqueue.engine.log import Bounds

if TYPE_CHECKING:
    import pyarrow as pa


class Offset(NamedTuple):
    """The position up to which a stream has read.

    Attributes:
        database: the identity of the database (see `engine.identity`).
        last: the last position that was read.
        marker: the marker of the event there; None: there was no event.
        began: where the query began, in the offset where its first batch begins or ends; else None
            (see `streaming`).
    """

    database: str
    last: int
    marker: int | None = None
    began: int | None = None

    def begin(self, start: Offset) -> Offset:
        """Return the begin of the batch that ends here; `start` is where Spark begins it."""
        return start if self.began is None else start._replace(last=self.began, marker=None)

    def as_json(self) -> dict[str, Any]:
        """Return the offset as Spark stores it in a checkpoint."""
        return {
            "database": self.database,
            "position": self.last,
            "marker": self.marker,
            **({} if self.began is None else {"began": self.began}),
        }

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Offset:
        """Return the offset that a checkpoint contains.

        Raises:
            InvalidOption: the checkpoint is of another table.
        """
        if "position" not in given:
            raise InvalidOption("The checkpoint is of another table. Begin with a new one.")
        marker, began = given.get("marker"), given.get("began")
        return cls(given.get("database", "?"), given["position"], marker, began)


class Part(NamedTuple):
    """A range of positions, and the marker of its last event, if known."""

    after: int
    upto: int
    marker: int | None = None


def first(options: StreamOptions) -> Offset:
    """Return the offset where a new query begins.

    Raises:
        OtherCluster: the log ends before the position to begin at.
    """
    with connect(options.url, name="stream") as connection:
        events.advance(connection)
        last = _start(connection, options.start)
        return Offset(identity.of(connection), last, identity.of_event(connection, last), last)


def _start(connection: psycopg.Connection[Any], start: object) -> int:
    if isinstance(start, int):
        events.check_reached(connection, start)
        return start
    if isinstance(start, datetime):
        # Retention raises the floor before it removes events.
        return max(log.position_at(connection, start), log.bounds(connection).floor)
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
    """Return the offset where the next batch ends; the same one if no event is new.

    Args:
        limit: the positions of the batch, at most.
        until: the position where the query ends; None: it goes on.

    Raises:
        DataLoss: retention has removed events that the stream has not read.
        OtherCluster: the offset belongs to another database, or to a later state of this one.
    """
    with connect(options.url, name="stream") as connection:
        events.advance(connection, patience=0)
        bounds = _checked(connection, offset)
        _check_floor(offset.last, bounds, options)
        end = bounds.head if until is None else min(bounds.head, until)
        if limit is not None:
            # Removed events do not count towards the limit.
            end = min(end, max(offset.last, bounds.floor) + limit)
        if end <= offset.last:
            return offset
        began = offset.last if offset.began == offset.last else None
        return offset._replace(last=end, marker=identity.of_event(connection, end), began=began)


def divide(options: StreamOptions, start: Offset, end: Offset) -> list[Part]:
    """Divide a batch into ranges of equal length.

    Raises:
        OtherCluster: the batch began in another database.
    """
    if end.database != start.database:
        raise _of_another(end.database, start.database)
    whole = Range(start.last, max(start.last, end.last))
    parts = [Part(*each) for each in events.divided(whole, options.partitions)]
    return [*parts[:-1], *(each._replace(marker=end.marker) for each in parts[-1:])]


def read(options: StreamOptions, start: Offset, part: Part) -> Iterator[pa.RecordBatch]:
    """Yield the events of a range, on an executor; after an outage, go on after the last one.

    Raises:
        DataLoss: retention has removed some of them.
        OtherCluster: the database is another one, or was restored to a time before this range was
            made.
    """
    return read_on(partial(_read, options, start, part))


def _read(
    options: StreamOptions, start: Offset, part: Part, place: str | None
) -> Iterator[tuple[str, pa.RecordBatch]]:
    rest = Range(int(place) if place else part.after, part.upto)
    with connect(options.url, name="stream read") as connection:
        # The last statement must see the removals of retention during the one before.
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        connection.read_only = True
        with connection.transaction():
            _checked(connection, start)
            _checked(connection, Offset(start.database, part.upto, part.marker))
            prepare(connection, options)
            rows_after = partial(events.rows_after, rest)
            yield from rows_of(connection, options, EVENT, rows_after, BY_POSITION)
            _check_floor(rest.after, log.bounds(connection), options)


def check(url: str, offset: Offset) -> None:
    """Check that the database is the one that an offset names.

    Raises:
        OtherCluster: the database is another one, or was restored to an earlier state.
    """
    with connect(url, name="stream") as connection:
        _checked(connection, offset)


def _checked(connection: psycopg.Connection[Any], offset: Offset) -> Bounds:
    """Check that an offset belongs to this database; return the bounds of the log."""
    ours = identity.of(connection)
    if offset.database != ours:
        raise _of_another(offset.database, ours)
    bounds = events.check_reached(connection, offset.last)
    if offset.marker is not None:
        found = identity.of_event(connection, offset.last)
        if found != offset.marker and (found is not None or bounds.floor < offset.last):
            raise OtherCluster(
                f"The event at position {offset.last} is not the one that was read: "
                f"{events.EARLIER}"
            )
    return bounds


def _of_another(theirs: str, ours: str) -> OtherCluster:
    return OtherCluster(
        f"The checkpoint follows the database {theirs}, and this is {ours}: another one, or one "
        "that was restored. If its log is a "
        'restored copy, begin with a new checkpoint and startingOffsets {"position": …}, the last '
        "position that was read; to export, choose another folder."
    )


def _check_floor(after: int, bounds: Bounds, options: StreamOptions) -> None:
    if bounds.floor > after and options.fails_on_loss:
        raise DataLoss(
            f"Retention has removed events up to position {bounds.floor}, and the stream has read "
            f"up to {after}: begin with a new checkpoint, or set failOnDataLoss to false to go on "
            "with the remaining events."
        )
