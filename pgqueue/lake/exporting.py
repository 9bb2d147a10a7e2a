"""Export history, events and the other tables into a lake: one loop for all formats.

1. Read the position from the table itself.
2. Read the next range of rows into Arrow.
3. Append the rows and the new position in one commit.
4. Note in PostgreSQL how far the tables are, so that retention goes on.

History is followed by the order of transactions, below the horizon of open ones, and events by
their positions: see `arrow.streaming` and `arrow.eventstream`. A killed export leaves at most files
that no table names. Dead letters and flows change in place. Each export replaces them.

Several databases may export to one lake, each under the name of its source. Each source has a
position of its own in a table, and only an export of this source moves it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

import psycopg
import pyarrow as pa

from pgqueue.arrow import eventstream, streaming, targets
from pgqueue.arrow.copying import arrow_schema
from pgqueue.arrow.errors import DataLoss, InvalidOption, OtherCluster
from pgqueue.arrow.options import EARLIEST, ReadOptions, StreamOptions
from pgqueue.arrow.planning import plan
from pgqueue.arrow.reading import batches
from pgqueue.arrow.tables import TABLES
from pgqueue.arrow.targets import HELD, UNKNOWN, Progress
from pgqueue.lake.errors import OtherSource
from pgqueue.lake.event_tables import EventTable, check_names, columns_of, rows_of, schema_of
from pgqueue.lake.formats import (
    ANOTHER_LAKE,
    DAY,
    SOURCE,
    Lake,
    LakePlace,
    Position,
    check_source,
    opened,
    retried,
)
from pgqueue.redaction import Redaction
from pgqueue.values.error_words import checked_option
from pgqueue.values.escaping import logger_of
from pgqueue.values.names import as_folder, as_slot

T = TypeVar("T")

logger = logger_of(__name__)

BATCH = 200_000
"""The most messages, or events, in a commit."""
DEFAULT = Redaction()
OF_HISTORY = ("history", "attempts", "steps")
EVENTS = "events"
REPLACED = ("deadletters", "flows")
LEAST_AGE = timedelta(days=1)
"""The least age of expired snapshots in a lake of several sources.

An export of another source may be writing a file that no snapshot names yet, and `expire` removes
older files of this kind.
"""


class LakeExport(NamedTuple):
    """The numbers of rows that an export has written, and of rows that it has left.

    Attributes:
        rows: The new rows of each table, also of each table of typed events; for dead letters and
            flows, all rows.
        held: The ended messages that are not exported yet. A transaction that began before they
            ended holds them back. It is still open in any database of the cluster.
        held_by: The oldest such transaction; "": it is unknown, or no message is held.
    """

    rows: Mapping[str, int]
    held: int = 0
    held_by: str = ""


def export(
    *,
    url: str,
    to: str,
    tables_format: str,
    catalog: str | None = None,
    source: str = "",
    events: Sequence[EventTable] = (),
    batch: int = BATCH,
    redact: Redaction | None = DEFAULT,
    by_channel: bool = False,
    storage: Mapping[str, str] | None = None,
    compact: bool = False,
    expire: timedelta | None = None,
    progress: Callable[[Progress], None] = lambda progress: None,
    event_progress: Callable[[Progress], None] = lambda progress: None,
) -> LakeExport:
    """Add to a lake the rows that are new since the last export, each once.

    The export may be interrupted at any moment; the next one goes on from there.

    Args:
        url: see `arrow.urls.resolve`.
        to: The folder of the data. It is a path on this machine, or a URL that the writer of the
            format can write to.
        tables_format: "ducklake", "delta" or "iceberg".
        catalog: The connection URL of the catalog of a DuckLake (by default the database of the
            queue) or of Iceberg (by default a SQLite file in the folder). Delta has none.
        source: The name of this database in a lake of several databases: small letters, digits and
            underscores. The column `source` of each row has it. "": the lake is of this database
            alone. A lake is begun with sources or without, and stays so.
        events: The tables of typed events that this export adds to, too (see `event_table`).
        batch: The most messages, and the most events, in a commit.
        redact: The fields to redact in payloads, metadata, results, progress and events; by default
            `pgqueue.redaction.FIELDS`. The bodies of raw messages are then left out. None: no
            field.
        by_channel: New tables are partitioned by channel, too, and events by topic.
        storage: options of the object store, by the names that the writer of the format knows.
        compact: Merge small files.
        expire: Remove snapshots that are older, and their files; None: keep them. With a source it
            must be a day or more.
        progress: The function is called as the export of history goes on.
        event_progress: The function is called as the export of events goes on.

    Raises:
        CatalogUnreachable: the catalog of the lake does not open, or is of another lake.
        DataLoss: retention has removed rows that a table lacks.
        ExportConflict: another export writes to this target.
        InvalidOption: the source is invalid, or an option does not fit a lake of several sources;
            two topics have one table; or the folder has an export of another format. The writer of
            the format may refuse the folder or the catalog, too.
        LakeFailed: the writer of the format, or the place of the lake, has failed. The next export
            goes on after the last commit.
        MissingPackage: the extra of the format is not installed.
        OtherCluster: a table is of another database, or this database was restored.
        OtherSource: the lake was begun without a source, or with sources; or it has this database
            under another name.
        UnknownFormat: there is no format of this name.
    """
    to = as_folder(to)
    check_names(events)
    targets.check_format(to, tables_format)
    if source:
        _check_sources(source, tables_format, catalog, expire)
    place = LakePlace(
        to, catalog or (url if tables_format == "ducklake" else None), by_channel, storage, source
    )
    with (
        targets.alone(url, to) as connection,
        closing(opened(tables_format, place)) as lake,
    ):
        exporting = _Exporting(connection, lake, url, place, batch, redact)
        rows = exporting.follow({"history": progress, EVENTS: event_progress}, events)
        rows |= exporting.replace()
        if compact:
            retried(lake.compact)
        if expire is not None:
            retried(partial(lake.expire, expire))
        held, by = targets.held_back(connection)
        if held:
            logger.warning(HELD, held, by or UNKNOWN)
        return LakeExport(rows, held, by)


def _check_sources(
    source: str, tables_format: str, catalog: str | None, expire: timedelta | None
) -> None:
    """Check the options of an export to a lake of several sources."""
    checked_option(as_slot, "source", source, InvalidOption)
    if tables_format == "ducklake" and not catalog:
        raise InvalidOption(
            f"source={source!r}: give the URL of the catalog, too, the same for all sources. Each "
            "queue would have a DuckLake of its own otherwise."
        )
    if expire is not None and expire < LEAST_AGE:
        raise InvalidOption(
            f"expire={expire.total_seconds():g}: with a source, it must be a day (86400 seconds) "
            "or more. An export of another source may be writing files now."
        )


@dataclass
class _Followed:
    """A table that gets new rows, the offset of its last row, and the position that it has.

    `shape` makes its rows of the rows that are read.
    """

    name: str
    follow: ModuleType
    options: StreamOptions
    until: Any
    offset: Any
    position: Position | None
    shape: Callable[[pa.Table], pa.Table]
    done: int = field(default=0)

    def next(self, after: Any, batch: int) -> Any | None:
        """Return the offset where the next batch ends; None: no row is new."""
        end = self.follow.next_after(after, self.options, limit=batch, until=self.until)
        return None if end == after else end

    def read(self, after: Any, end: Any) -> pa.Table:
        """Return the rows between two offsets."""
        [part] = self.follow.divide(self.options, after, end)
        found = self.follow.read(self.options, after, part)
        return pa.Table.from_batches(found, arrow_schema(self.options.columns))


class _Exporting:
    """An export that has the lock of its target."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        lake: Lake,
        url: str,
        place: LakePlace,
        batch: int,
        redact: Redaction | None,
    ) -> None:
        self._connection = connection
        self._lake = lake
        self._url = url
        self._to = place.to
        self._source = place.source
        self._batch = batch
        self._redact = "" if redact is None else redact.to_json()
        self._target = targets.target_of(connection, place.to)
        self._read: tuple[Any, pa.Table] | None = None

    def follow(
        self, shows: Mapping[str, Callable[[Progress], None]], events: Sequence[EventTable]
    ) -> dict[str, int]:
        """Append all rows that are new now; return their number by table."""
        followed = [*self._of_history(), *self._of_events(events)]
        # All tables are of this database.
        targets.disown(self._connection, self._target)
        # The record may be ahead of a table that is new, or that comes from a backup.
        self._note(followed)
        waiting = self._waiting(followed)
        for each, end, rows in _one_ahead(self._batches_of(followed)):
            targets.confirm(self._connection)
            position = end.as_json()
            retried(partial(self._lake.append, each.name, rows, position, after=each.position))
            each.offset, each.position = end, position
            each.done += rows.num_rows
            self._note(followed)
            if show := shows.get(each.name):
                show(Progress(each.done, max(waiting[each.name], each.done)))
        self._note(followed)
        return {each.name: each.done for each in followed}

    def _batches_of(self, followed: list[_Followed]) -> Iterator[tuple[_Followed, Any, pa.Table]]:
        """Yield the batches of tables in turn: the table, the offset of the end, and the rows."""
        places = {each.name: each.offset for each in followed}
        going_on = followed
        while going_on:
            tables, going_on = going_on, []
            for each in tables:
                with self._naming(each.name):
                    end = each.next(places[each.name], self._batch)
                    if end is None:
                        continue
                    found = self._rows(each, places[each.name], end)
                    rows = self._stamped(each.options.name, each.shape(found))
                yield each, end, rows
                places[each.name] = end
                going_on.append(each)

    def _rows(self, each: _Followed, after: Any, end: Any) -> pa.Table:
        """Read the rows between two offsets; tables of typed events share the last read."""
        wanted = (each.options.name, after, end)
        if self._read is None or self._read[0] != wanted:
            self._read = wanted, each.read(after, end)
        return self._read[1]

    def replace(self) -> dict[str, int]:
        """Replace the rows that change in place; return their number by table."""
        done = {}
        for name in REPLACED:
            self._create(name, _read_schema(name))
            options = ReadOptions(
                url=self._url, name=name, columns=TABLES[name].columns, redact=self._redact
            )
            found = (rows for part in plan(options) for rows in batches(options, part))
            rows = self._stamped(name, pa.Table.from_batches(found, _read_schema(name)))
            targets.confirm(self._connection)
            retried(partial(self._lake.replace, name, rows))
            done[name] = rows.num_rows
        targets.note_time(self._connection, self._target)
        return done

    def _of_history(self) -> Iterator[_Followed]:
        until = streaming.newest(self._options("history"))
        for name in OF_HISTORY:
            yield self._followed(name, streaming, until)

    def _of_events(self, typed: Sequence[EventTable]) -> Iterator[_Followed]:
        until = eventstream.newest(self._options(EVENTS))
        yield self._followed(EVENTS, eventstream, until)
        for table in typed:
            columns = columns_of(table, self._lake.columns(table.name))
            yield self._followed(
                table.name,
                eventstream,
                until,
                of=EVENTS,
                schema=schema_of(columns),
                shape=partial(rows_of, table.topic, columns),
            )

    def _followed(
        self,
        name: str,
        follow: ModuleType,
        until: Any,
        *,
        of: str | None = None,
        schema: pa.Schema | None = None,
        shape: Callable[[pa.Table], pa.Table] = lambda rows: rows,
    ) -> _Followed:
        self._create(name, schema or _read_schema(name))
        position = self._lake.position(name)
        if position is None:
            self._check_is_new(name)
        options = self._options(of or name)
        with self._naming(name):
            if position:
                offset = follow.Offset.from_json(position)
            else:
                # A table has the rows and the position of a batch, so no batch is begun again.
                offset = follow.first(options)._replace(began=None)
            follow.check(self._url, offset)
        return _Followed(name, follow, options, until, offset, position, shape)

    def _create(self, name: str, schema: pa.Schema) -> None:
        """Create a table, or add the columns that it lacks; each table has the day, too."""
        schema = schema.append(pa.field(DAY, pa.date32()))
        if self._source:
            schema = schema.append(pa.field(SOURCE, pa.string()))

        def create() -> None:
            if (known := self._lake.columns(name)) is not None:
                check_source(name, known, self._source)
            self._lake.create(name, schema)

        retried(create)

    def _check_is_new(self, name: str) -> None:
        """Check that a table has no rows of this database under the name of another source."""
        for source, database in self._lake.databases(name).items():
            if database == self._target["database"] and source != self._source:
                raise OtherSource(
                    f"The table {name} of {self._to} has this database already, as the source "
                    f"{source!r}: give this source, or each row would be there twice. If this "
                    "database is a copy, run pgqueue_restored first."
                )

    def _stamped(self, table: str, rows: pa.Table) -> pa.Table:
        """Add the UTC day of each row, and the source."""
        rows = rows.append_column(DAY, rows[TABLES[table].time].cast(pa.date32()))
        if not self._source:
            return rows
        return rows.append_column(SOURCE, pa.array([self._source] * len(rows), pa.string()))

    def _options(self, name: str) -> StreamOptions:
        return StreamOptions(
            url=self._url,
            name=name,
            columns=TABLES[name].columns,
            redact=self._redact,
            start=EARLIEST,
        )

    def _note(self, followed: list[_Followed]) -> None:
        """Note how far all tables are, so that retention removes no row that one of them lacks."""
        last, events = (
            min((each.offset for each in followed if each.follow is log), key=_place_of)
            for log in (streaming, eventstream)
        )
        known = targets.record(self._connection, self._target)
        if last.last != known.history or known.batch < 0:
            self._note_of("history", known.batch, last)
        if events.last != known.event_position:
            self._note_of(EVENTS, known.event_batch, events)

    def _note_of(self, log: str, batch: int, last: Any) -> None:
        targets.note(self._connection, self._target, log, batch + 1, last.as_json())

    def _waiting(self, followed: list[_Followed]) -> Mapping[str, int]:
        offsets = {each.name: each.offset for each in followed}
        head = next(each.until for each in followed if each.name == EVENTS)
        return {
            "history": targets.waiting(self._connection, offsets["history"].last),
            EVENTS: max(0, head - offsets[EVENTS].last),
        }

    @contextmanager
    def _naming(self, table: str) -> Iterator[None]:
        """Add the name of the table to an error, and the remedy."""
        try:
            yield
        except (DataLoss, OtherCluster) as error:
            of = f", source {self._source!r}," if self._source else ""
            other = ", or as another source" if self._source else ""
            raise type(error)(
                f"The table {table} of {self._to}{of} does not follow this database: {error} "
                f"An export has no checkpoint beside its tables: {ANOTHER_LAKE}{other}."
            ) from error


def _one_ahead(items: Iterator[T]) -> Iterator[T]:
    """Yield items; a thread reads the next item while the caller writes the last one."""
    with ThreadPoolExecutor(1, thread_name_prefix="pgqueue-lake") as reader:
        coming = reader.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = reader.submit(next, items, None)
            yield item


def _place_of(offset: Any) -> Any:
    return offset.last


def _read_schema(table: str) -> pa.Schema:
    return arrow_schema(TABLES[table].columns)
