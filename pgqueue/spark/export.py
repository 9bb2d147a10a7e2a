"""Export history, events and dead letters to Parquet, by day, each row once.

    history/day=2026-11-24/batch_id=12/part-….parquet
    events/day=2026-11-24/batch_id=7/part-….parquet
    deadletters/day=2026-11-24/part-….parquet
    _checkpoint/
    _checkpoint_events/

One stream writes history in batches, another one events. An interrupted batch is written again with
the same rows into the same folders, and replaces its earlier files. Spark's own Parquet sink would
leave files of a broken batch that only Spark knows to ignore. Dead letters may still be replayed.
So each export writes all current dead letters, in place of the earlier ones. `compaction` merges
the files of past days.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from operator import or_
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from pyspark.sql import functions as F

from pgqueue.arrow import events, eventstream, streaming, targets
from pgqueue.arrow.errors import ExportConflict
from pgqueue.arrow.tables import FIRST_TIME, LAST_TIME, TABLES, Type
from pgqueue.arrow.targets import HELD, UNKNOWN, Progress, alone, held_back
from pgqueue.engine import log
from pgqueue.redaction import Redaction
from pgqueue.spark.compaction import EVENTS, HISTORY, Layout, compact, last_committed, recover
from pgqueue.spark.files import Files, are_within_reach
from pgqueue.spark.parquet import parquet_options
from pgqueue.values.escaping import logger_of
from pgqueue.values.names import as_folder

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, DataFrameWriter, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

logger = logger_of(__name__)

DAY = 86_400_000_000
"""Microseconds."""
BATCH = 500_000
"""The most rows in a batch."""
DEFAULT = Redaction()
LOOK = 1
"""Seconds between two reports of the progress."""


UNREADABLE = "%s rows have a time outside Spark's range, and were written with the nearest one"


class Exported(NamedTuple):
    """The numbers of rows that an export has written, and of rows that it has left.

    Attributes:
        held: The ended messages that are not exported yet. A transaction that began before they
            ended holds them back. It is still open in any database of the cluster.
        held_by: The oldest such transaction; "": it is unknown, or no message is held.
        unreadable: The written rows with a time outside Spark's range. They have the nearest time,
            or none.
    """

    history: int
    deadletters: int
    events: int = 0
    held: int = 0
    held_by: str = ""
    unreadable: int = 0


def export(
    spark: SparkSession,
    *,
    url: str,
    to: str,
    batch: int = BATCH,
    redact: Redaction | None = DEFAULT,
    progress: Callable[[Progress], None] = lambda progress: None,
    event_progress: Callable[[Progress], None] = lambda progress: None,
) -> Exported:
    """Export the messages and events that are new since the last export, and all dead letters.

    The export may be interrupted at any moment; the next one goes on from there. The files of past
    days are merged (see `compaction`), except over Spark Connect.

    Args:
        url: see `urls.resolve`.
        to: a folder: a path on this machine, or a URL that Spark can write to, such as
            `s3a://bucket/folder`.
        batch: The most rows of history, and the most events, that are written at a time.
        redact: The fields to redact in payloads, metadata, results, progress and events; by default
            `pgqueue.redaction.FIELDS`. The bodies of raw messages are then left out. None: no
            field. Then each reader of the folder sees all arguments of every task.
        progress: The function is called as the export of history goes on.
        event_progress: The function is called as the export of events goes on.

    Raises:
        CompactionFailed: all rows were exported, but the files of a day were not merged.
        ExportConflict: another export writes to this target, or its checkpoint is gone.
        InvalidOption: the folder has an export of another format.
        OtherCluster: the folder is of another database, or this database was restored.
        pyspark.errors.StreamingQueryException: the export failed.
    """
    to = as_folder(to)
    targets.check_format(to, "parquet")
    shows = {HISTORY: progress, EVENTS: event_progress}
    written = {}
    unreadable = 0
    with alone(url, to) as connection:
        target = targets.target_of(connection, to)
        files = _files(spark, to)
        if files:
            for each in shows:
                _check_database(files, url, each)
        targets.disown(connection, target)
        for each, show in shows.items():
            if files:
                recover(files, each)
            exporting = _LogExport(connection, target, each, redact)
            before = exporting.batch
            written[each] = _run(exporting, spark, url, batch, show)
            if written[each]:
                unreadable += _unreadable_since(spark, to, each, before)
            if files:
                exporting.note_earlier(files)
        targets.note_time(connection, target)
        letters, changed = _export_deadletters(spark, url, to, redact)
        unreadable += changed
        if files:
            for each in shows:
                compact(spark, files, each, confirm=lambda: targets.confirm(connection))
        held, by = held_back(connection)
        if held:
            logger.warning(HELD, held, by or UNKNOWN)
        if unreadable:
            logger.warning(UNREADABLE, unreadable)
        return Exported(written[HISTORY], letters, written[EVENTS], held, by, unreadable)


def _files(spark: SparkSession, to: str) -> Files | None:
    if are_within_reach(spark):
        return Files(spark, to)
    logger.warning(
        "%s is not compacted: Spark Connect does not move files. Export there from time to time "
        "with a session that is no client of Spark Connect.",
        to,
    )
    return None


def _check_database(files: Files, url: str, layout: Layout) -> None:
    """Check that the files of a folder are from this database.

    The check also runs if no row is new. Then no stream starts that would check it.

    Raises:
        OtherCluster: the files are from another database, or from a later state of this one.
    """
    last = last_committed(files, layout)
    if last >= 0:
        follow = eventstream if layout == EVENTS else streaming
        offset = follow.Offset.from_json(json.loads(_offset_of(files, layout, last)))
        follow.check(url, offset)


def _offset_of(files: Files, layout: Layout, batch: int) -> str:
    """Return the offset, as JSON, where a batch of an export ends."""
    return files.read(f"{layout.checkpoint}/offsets/{batch}").splitlines()[-1]


class _LogExport:
    """The stream that writes history or events, and its progress."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        target: Mapping[str, str],
        layout: Layout,
        redact: Redaction | None,
    ) -> None:
        self._redact = redact
        self._connection = connection
        self._target = target
        self._to = target["target"]
        self._layout = layout
        known = targets.record(connection, target)
        self.batch: int
        self.is_done = False  # before the stream starts, surely: most queues have no events
        if layout == EVENTS:
            self.batch, position = known.event_batch, known.event_position
            events.advance(connection)
            floor, head = log.bounds(connection)
            self.is_done = position == head
            waiting = max(0, head - max(position, floor))
        else:
            self.batch = known.batch
            waiting = targets.waiting(connection, known.history)
        self.progress = Progress(0, waiting)

    def start(self, spark: SparkSession, url: str, batch: int) -> StreamingQuery:
        """Start the stream; it ends with the last row that exists now."""
        # Over Spark Connect this function is pickled, so it holds no connection.
        write = partial(_write, self._to, self._layout, self.batch)
        return (
            spark.readStream.format("pgqueue")
            .option("url", url)
            .option("table", self._layout.name)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", batch)
            .option("minPartitions", 2)
            .option("redact", _as_option(self._redact))
            .load()
            .writeStream.foreachBatch(write)
            .option("checkpointLocation", f"{self._to}/{self._layout.checkpoint}")
            .trigger(availableNow=True)
            .start()
        )

    def note(self, query: StreamingQuery) -> Progress:
        """Note in the database the batches that Spark has committed; return the progress."""
        for each in query.recentProgress:
            if each.batchId > self.batch and each.numInputRows:
                self._note(each.batchId, each.sources[0].endOffset)
                done = self.progress.done + each.numInputRows
                self.progress = Progress(done, max(self.progress.waiting, done))
        return self.progress

    def note_earlier(self, files: Files) -> None:
        """Note the batches of an earlier export that ended before it noted them, or was forgotten.

        Retention may wait for this note, and this export may have no new row.
        """
        last = last_committed(files, self._layout)
        if last > self.batch:
            self._note(last, _offset_of(files, self._layout, last))

    def _note(self, batch: int, last: str) -> None:
        targets.note(self._connection, self._target, self._layout.name, batch, json.loads(last))
        self.batch = batch


def _write(to: str, layout: Layout, before: int, frame: DataFrame, number: int) -> None:
    """Write a batch in place of the files that an interrupted export has left of it.

    Args:
        before: the last batch that the database knows of.

    Raises:
        ExportConflict: the batch exists, but the checkpoint lacks it.
    """
    if number <= before:
        raise ExportConflict(
            f"{to} has the batches up to {before}, and its checkpoint begins at batch {number}: it "
            f"is gone, or older than the files. Restore {to}/{layout.checkpoint}, or export to "
            "another folder."
        )
    numbered = frame.withColumn("batch_id", F.lit(number))
    _by_day(numbered, layout.time, "batch_id").option("partitionOverwriteMode", "dynamic").parquet(
        f"{to}/{layout.name}"
    )


def _run(
    exporting: _LogExport,
    spark: SparkSession,
    url: str,
    batch: int,
    progress: Callable[[Progress], None],
) -> int:
    if exporting.is_done:
        return 0
    query = exporting.start(spark, url, batch)
    try:
        while not query.awaitTermination(LOOK):
            progress(exporting.note(query))
    finally:
        query.stop()
    done = exporting.note(query)
    progress(done)
    return done.done


def _as_option(redact: Redaction | None) -> str:
    return "false" if redact is None else redact.to_json()


def _unreadable_since(spark: SparkSession, to: str, layout: Layout, before: int) -> int:
    """Return the number of rows with a changed time in the batches after `before`."""
    columns = (*_times(layout.name), "day", "batch_id")
    types = {"day": "date", "batch_id": "int"}
    schema = ", ".join(f"`{name}` {types.get(name, 'timestamp_ltz')}" for name in columns)
    rows = spark.read.schema(schema).parquet(f"{to}/{layout.name}")
    return rows.where((F.col("batch_id") > before) & _is_unreadable(_times(layout.name))).count()


def _times(table: str) -> list[str]:
    return [each.name for each in TABLES[table].columns if each.type is Type.TIMESTAMP]


def _is_unreadable(times: Sequence[str]) -> Column:
    """Return whether a time of a row is the first or the last one of Spark's range."""
    limits = [F.lit(each.strip("'")).cast("timestamp_ltz") for each in (FIRST_TIME, LAST_TIME)]
    found = [F.coalesce(F.col(name).isin(*limits), F.lit(False)) for name in times]
    return reduce(or_, found)


def _export_deadletters(
    spark: SparkSession, url: str, to: str, redact: Redaction | None
) -> tuple[int, int]:
    """Write the dead letters; return their number, and how many have a changed time."""
    options = {"url": url, "table": "deadletters", "redact": _as_option(redact)}
    letters = spark.read.format("pgqueue").options(**options).load()
    folder = f"{to}/deadletters"
    _by_day(letters, "died_at").option("partitionOverwriteMode", "static").parquet(folder)
    # Count the written rows: the database may have other dead letters by now.
    schema = letters.withColumn("day", F.lit(None).cast("date")).schema
    is_unreadable = F.col("died_at").isNull() | _is_unreadable(_times("deadletters"))
    written = spark.read.schema(schema).parquet(folder)
    row = written.agg(F.count("*"), F.count_if(is_unreadable)).first()
    return (row[0], row[1]) if row else (0, 0)


def _by_day(frame: DataFrame, time: str, *beside: str) -> DataFrameWriter:
    """Return a writer into a folder for each UTC day, in any time zone of the session."""
    # `div` rounds towards 1970.
    micros = f"unix_micros({time})"
    day = f"date_from_unix_date(cast(({micros} - pmod({micros}, {DAY})) div {DAY} as int))"
    writer = frame.withColumn("day", F.expr(day)).write.options(**parquet_options(frame))
    return writer.mode("overwrite").partitionBy("day", *beside)
