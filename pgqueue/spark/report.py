"""The report about a queue: facts, and small tables for the page, the terminal and files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from pgqueue.spark.pipeline import METRICS
from pgqueue.spark.pipeline.attempts import attempts
from pgqueue.spark.pipeline.material import Material, Objective
from pgqueue.spark.pipeline.objectives import DEFAULT
from pgqueue.spark.pipeline.percentiles import EXACT_BELOW
from pgqueue.spark.pipeline.periods import Period
from pgqueue.spark.pipeline.runs import LIVE, runs, waiting
from pgqueue.spark.pipeline.sources import Folder, Source

if TYPE_CHECKING:
    from pandas import DataFrame as Pandas
    from pyspark.sql import DataFrame, SparkSession

CONF = {
    # Spark sends small tables to the driver as Arrow.
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Compression takes a quarter of the CPU time in which rows are read and cached, and makes them
    # half as large. Spark writes rows to disk if memory has no room for them.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    # Approximate percentiles: with more than 128 groups, Spark would sort all rows.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "10000",
}
MICROSECOND = timedelta(microseconds=1)


class Report(NamedTuple):
    """The facts and tables of a report."""

    facts: Mapping[str, object]
    """Single values: title, since, until, source and so on."""
    tables: Mapping[str, Pandas]
    """Small tables by name. Times are aware, in UTC; durations, named …_s, are in seconds."""


def build(
    spark: SparkSession,
    source: Source,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    objectives: Mapping[str, Objective] = DEFAULT,
    exact_below: int = EXACT_BELOW,
    progress: Callable[[str], None] = lambda title: None,
) -> Report:
    """Read the messages that have ended, and make every table of the report.

    Args:
        source: The source of the messages.
        since: The report covers messages that ended at or after this time; None: any.
        until: The report covers messages that ended before this time; None: any.
        objectives: The objective of each channel; "" is for all other channels.
        exact_below: The number of messages from which on percentiles are approximate.
        progress: The function is called with the title of each part before the part is made.

    Raises:
        NoExport: the folder has no export.
        pyspark.errors.PySparkException: Spark failed to read the tables.
    """
    now = datetime.now(UTC)
    progress("Reading")
    tables = source.read(spark, since, until)
    # Messages that waited at an earlier time may have ended since then.
    has_live = not isinstance(source, Folder) and (until is None or until >= now)
    everything = runs(tables.history, tables.deadletters)
    if has_live:
        everything = everything.unionByName(waiting(tables.messages))
    with _configured(spark), _cached(everything):
        ended = everything.where(F.col("outcome") != LIVE)
        messages, first, last = _extent(ended)
        # The report of a live queue includes the current backlog.
        end = last + MICROSECOND if last and isinstance(source, Folder) else now
        period = Period(since or first or until or end, until or end)
        material = Material(
            runs=ended,
            attempts=attempts(everything),
            period=period,
            exact=messages < exact_below,
            has_live=has_live,
            objectives=objectives,
            since=since,
            # Leave out messages that end while the report reads a queue. An export is complete.
            until=until or (None if isinstance(source, Folder) else now),
        )
        facts: dict[str, object] = {
            "title": "Queue report",
            "made_at": now,
            "since": period.since,
            "until": period.until,
            "source": str(source),
            "percentiles": "exact" if material.exact else "approximate",
            "messages": messages,
            "bucket_s": period.width,
            "has_live": material.has_live,
        }
        for metric in METRICS.values():
            progress(metric.title)
            made = metric.make(material)
            material.tables.update(made.tables)
            facts.update(made.facts)
        if not material.has_live:
            # Messages that still wait are missing, so the backlog would seem to fall.
            over_time = material.tables["over_time"]
            over_time["backlog"] = (
                over_time["backlog"].astype("Int64").mask(over_time["at"].notna())
            )
        return Report(facts, material.tables)


def _extent(ended: DataFrame) -> tuple[int, datetime | None, datetime | None]:
    """Return the number of ended messages, the first due time, and the last end."""
    row = ended.agg(
        F.count("*"), F.unix_micros(F.min("arrived_at")), F.unix_micros(F.max("ended_at"))
    ).first()
    count, first, last = row or (0, None, None)
    return count, _time(first), _time(last)


def _time(micros: int | None) -> datetime | None:
    return None if micros is None else datetime.fromtimestamp(0, UTC) + micros * MICROSECOND


@contextmanager
def _cached(frame: DataFrame) -> Iterator[None]:
    """Keep the rows of a DataFrame in Spark's memory."""
    frame.cache()
    try:
        yield
    finally:
        frame.unpersist()


@contextmanager
def _configured(spark: SparkSession) -> Iterator[None]:
    """Change the session's options for the report."""
    before = {name: spark.conf.get(name, None) for name in CONF}
    for name, value in CONF.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, was in before.items():
            if was is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, was)
