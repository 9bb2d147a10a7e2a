"""Export history, events and dead letters to Parquet, by day: each event and message end, once.

    history/day=2026-11-24/batch_id=12/part-….parquet
    events/day=2026-11-24/batch_id=7/part-….parquet
    deadletters/day=2026-11-24/part-….parquet
    _checkpoint/
    _checkpoint_events/

A stream writes history in batches, another one events. A batch that was interrupted is written
again with the same rows, into the same folders, and replaces what it has left there. Spark's own
Parquet sink would leave files of a broken batch that only Spark knows to ignore. Dead letters may
still be replayed: they are written as they are now, in place of those of the export before.
`compaction` makes few files of days that are over.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from operator import or_
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from pyspark.sql import functions as F

from pgqueue.database.sql_files import load
from pgqueue.engine import identity, log
from pgqueue.redaction import Redaction
from pgqueue.spark import events, eventstream, streaming
from pgqueue.spark.compaction import EVENTS, HISTORY, Layout, compact, last_committed, recover
from pgqueue.spark.errors import ExportConflict, UnknownTarget
from pgqueue.spark.files import Files, are_within_reach
from pgqueue.spark.tables import FIRST_TIME, LAST_TIME, TABLES, Type
from pgqueue.spark.urls import connect
from pgqueue.values.error_words import hint
from pgqueue.values.escaping import logger_of
from pgqueue.values.names import as_folder

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, DataFrameWriter, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

logger = logger_of(__name__)

SQL = load(__name__)
DAY = 86_400_000_000
"""Microseconds."""
BATCH = 500_000
"""Rows in a batch, at most."""
DEFAULT = Redaction()
LOOK = 1
"""Seconds between two looks at how far it is."""


HELD = "%s messages that ended are held back, and left for the next export, by %s"
UNREADABLE = "%s rows have a time that Spark can't show, and were written with the nearest one"
UNKNOWN = "an open transaction that this role may not see: GRANT pg_read_all_stats"


class Progress(NamedTuple):
    """How many rows of history, or events, are exported, of how many that were waiting."""

    done: int
    waiting: int


class Exported(NamedTuple):
    """The numbers of rows that an export has written, and of those that it has left.

    Attributes:
        held: messages that had ended and are not exported yet. A transaction holds them back that
            began before they ended, and is still open in any database of the cluster.
        held_by: the oldest such transaction; "": it is not known, or nothing is held.
        unreadable: rows, of all that were written, that have another time than PostgreSQL: one that
            Spark can show, or none.
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
    """Export what has ended or was published since the last export to this target; dead letters.

    It may be interrupted at any moment, and goes on where it was. Days that are over become few
    files (see `compaction`), except over Spark Connect.

    Args:
        url: see `urls.resolve`.
        to: a folder: a path on this machine, or a URL that Spark can write to, such as
            `s3a://bucket/folder`.
        batch: rows of history, and events, that are written at a time, at most.
        redact: what is redacted of payloads, metadata, results, progress and events, and then
            bodies of raw messages are left out; by default `pgqueue.redaction.FIELDS`. None:
            nothing. Then whoever may read the folder reads all that was ever passed to a task.
        progress: is called as the export of history goes on.
        event_progress: the same of events.

    Raises:
        CompactionFailed: all was exported, and a day could not be compacted.
        ExportConflict: another export writes to this target, or its checkpoint is gone.
        OtherCluster: the folder is of another database, or this one was restored.
        pyspark.errors.StreamingQueryException: the export failed.
    """
    to = as_folder(to)
    shows = {HISTORY: progress, EVENTS: event_progress}
    written = {}
    unreadable = 0
    with _alone(url, to) as connection:
        target = {"target": to, "database": identity.of(connection)}
        files = _files(spark, to)
        if files:
            for each in shows:
                _check_database(files, url, each)
        connection.execute(SQL["disown"], target)
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
        connection.execute(SQL["note_time"], target)
        letters, changed = _export_deadletters(spark, url, to, redact)
        unreadable += changed
        if files:
            for each in shows:
                compact(spark, files, each, confirm=lambda: connection.execute(SQL["still"]))
        held, by = held_back(connection)
        if held:
            logger.warning(HELD, held, by or UNKNOWN)
        if unreadable:
            logger.warning(UNREADABLE, unreadable)
        return Exported(written[HISTORY], letters, written[EVENTS], held, by, unreadable)


def held_back(connection: psycopg.Connection[Any]) -> tuple[int, str]:
    """Return how many rows of history no export may read yet, and the transaction that holds them.

    "": it is not known, or nothing is held.
    """
    # With parameters, "%%" is a "%".
    return connection.execute(SQL["held"], {}).fetchone() or (0, "")


def _files(spark: SparkSession, to: str) -> Files | None:
    if are_within_reach(spark):
        return Files(spark, to)
    logger.warning(
        "%s is not compacted: over Spark Connect its files can't be moved. Export there once in a "
        "while with a session that is no client of Spark Connect.",
        to,
    )
    return None


def forget(*, url: str, to: str) -> None:
    """Forget how far a target is, so that retention no longer waits for it; leave its files.

    Raises:
        ExportConflict: an export writes to this target now.
        UnknownTarget: none was ever made to it, or it is forgotten.
    """
    to = as_folder(to)
    with _alone(url, to) as connection:
        if connection.execute(SQL["forget"], {"target": to}).rowcount:
            return
        known = [name for (name,) in connection.execute(SQL["targets"])]
        others = hint(to, known) if known else "There are no others."
        raise UnknownTarget(f"No export was made to {to}. {others}")


@contextmanager
def _alone(url: str, to: str) -> Iterator[psycopg.Connection[Any]]:
    with connect(url, name="export") as connection:
        if connection.execute(SQL["lock"], {"target": to}).fetchone() != (True,):
            raise ExportConflict(f"Another export writes to {to} now.")
        yield connection


def _check_database(files: Files, url: str, layout: Layout) -> None:
    """Check that what is in a folder is from this database, and is in it.

    Also where nothing is new, so that no stream begins and looks.

    Raises:
        OtherCluster: it is not.
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
    """The stream that writes history or events, and how far it is."""

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
        row = connection.execute(SQL["record"], target).fetchone() or (-1, 0, 0, -1, 0)
        self.batch: int
        self.is_done = False  # surely, before it starts: most queues have no events
        if layout == EVENTS:
            self.batch, position = row[3:]
            events.advance(connection)
            floor, head = log.bounds(connection)
            self.is_done = position == head
            waiting = max(0, head - max(position, floor))
        else:
            self.batch = row[0]
            [waiting] = connection.execute(SQL["waiting"], row[1:3]).fetchone() or (0,)
        self.progress = Progress(0, waiting)

    def start(self, spark: SparkSession, url: str, batch: int) -> StreamingQuery:
        """Start the stream; it ends with what is there now."""
        # Over Spark Connect it is pickled, so it holds no connection.
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
        """Note in the database which batches Spark has committed; return how far it is."""
        for each in query.recentProgress:
            if each.batchId > self.batch and each.numInputRows:
                self._note(each.batchId, each.sources[0].endOffset)
                done = self.progress.done + each.numInputRows
                self.progress = Progress(done, max(self.progress.waiting, done))
        return self.progress

    def note_earlier(self, files: Files) -> None:
        """Note what Spark has committed in an export that ended before it could, or is forgotten.

        Retention may wait for it, and there may be nothing new.
        """
        last = last_committed(files, self._layout)
        if last > self.batch:
            self._note(last, _offset_of(files, self._layout, last))

    def _note(self, batch: int, last: str) -> None:
        given = {**json.loads(last), **self._target, "batch": batch}
        self._connection.execute(SQL[f"note_{self._layout.name}"], given)
        self.batch = batch


def _write(to: str, layout: Layout, before: int, frame: DataFrame, number: int) -> None:
    """Write a batch, in the place of what an interrupted export has left of it.

    Args:
        before: the last batch that the database knows of.

    Raises:
        ExportConflict: the batch is there, and the checkpoint doesn't know.
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
    """Return how many rows of the batches after one have a time that had to be changed."""
    columns = (*_times(layout.name), "day", "batch_id")
    types = {"day": "date", "batch_id": "int"}
    schema = ", ".join(f"`{name}` {types.get(name, 'timestamp')}" for name in columns)
    rows = spark.read.schema(schema).parquet(f"{to}/{layout.name}")
    return rows.where((F.col("batch_id") > before) & _is_unreadable(_times(layout.name))).count()


def _times(table: str) -> list[str]:
    return [each.name for each in TABLES[table].columns if each.type is Type.TIMESTAMP]


def _is_unreadable(times: Sequence[str]) -> Column:
    """Return whether a row has a time that is the first or the last one that Spark can show."""
    limits = [F.lit(each.strip("'")).cast("timestamp") for each in (FIRST_TIME, LAST_TIME)]
    found = [F.coalesce(F.col(name).isin(*limits), F.lit(False)) for name in times]
    return reduce(or_, found)


def _export_deadletters(
    spark: SparkSession, url: str, to: str, redact: Redaction | None
) -> tuple[int, int]:
    """Return how many there are, and how many of them have a time that had to be changed."""
    options = {"url": url, "table": "deadletters", "redact": _as_option(redact)}
    letters = spark.read.format("pgqueue").options(**options).load()
    folder = f"{to}/deadletters"
    _by_day(letters, "died_at").option("partitionOverwriteMode", "static").parquet(folder)
    # What was written, and not what is there by now.
    schema = letters.withColumn("day", F.lit(None).cast("date")).schema
    is_unreadable = F.col("died_at").isNull() | _is_unreadable(_times("deadletters"))
    written = spark.read.schema(schema).parquet(folder)
    row = written.agg(F.count("*"), F.count_if(is_unreadable)).first()
    return (row[0], row[1]) if row else (0, 0)


def _by_day(frame: DataFrame, time: str, *beside: str) -> DataFrameWriter:
    """Return a writer into a folder for each UTC day, whatever the session's time zone."""
    day = f"date_from_unix_date(cast(unix_micros({time}) div {DAY} as int))"
    return frame.withColumn("day", F.expr(day)).write.mode("overwrite").partitionBy("day", *beside)
