"""The sources of a report: the queue itself, or the folder of an export."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from pgqueue.arrow.tables import TABLES
from pgqueue.spark.errors import NoExport
from pgqueue.spark.pipeline.runs import DEADLETTERS, HISTORY, MESSAGES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Tables(NamedTuple):
    """The tables of a report, with the columns that `runs` requires."""

    history: DataFrame
    deadletters: DataFrame
    messages: DataFrame


class Live(NamedTuple):
    """The queue itself, as it is now.

    Attributes:
        url: see `urls.resolve`.
    """

    url: str

    def __str__(self) -> str:
        return "live"

    def read(self, spark: SparkSession, since: datetime | None, until: datetime | None) -> Tables:
        """Return the messages that ended between two times, and the live messages."""
        between = {
            name: time.isoformat() for name, time in (("since", since), ("until", until)) if time
        }

        def load(table: str, columns: Sequence[str], **options: str) -> DataFrame:
            reader = spark.read.format("pgqueue").options(url=self.url, table=table, **options)
            return reader.option("columns", ", ".join(columns)).load()

        return Tables(
            load("history", HISTORY, **between),
            load("deadletters", DEADLETTERS, **between),
            load("messages", MESSAGES, state='["ready", "running", "scheduled"]'),
        )


class Folder(NamedTuple):
    """The folder of an export: it has history and dead letters, but no live messages.

    Attributes:
        path: the path or URL of the export's folder.
        name: the name of the source in the report; "": the path.
    """

    path: str
    name: str = ""

    def __str__(self) -> str:
        return self.name or self.path

    def read(self, spark: SparkSession, since: datetime | None, until: datetime | None) -> Tables:
        """Return the messages that ended between two times.

        Raises:
            NoExport: the folder has no export.
        """
        folder = self.path.rstrip("/")
        try:
            history = _read(spark, f"{folder}/history", HISTORY, "history")
        except AnalysisException as error:
            if error.getCondition() not in ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA"):
                raise
            raise NoExport(
                f"{folder} has no history: export to it first, with pgqueue_export --to {folder}."
            ) from error
        try:
            letters = _read(spark, f"{folder}/deadletters", DEADLETTERS, "deadletters")
        except AnalysisException:
            # An export that was killed in its last step has no dead letters yet.
            letters = _nothing(spark, "deadletters")
        return Tables(
            _between(history, "finished_at", since, until).select(*HISTORY),
            _between(letters, "died_at", since, until).select(*DEADLETTERS),
            _nothing(spark, "messages").select(*MESSAGES),
        )


Source = Live | Folder


def _read(spark: SparkSession, path: str, names: Sequence[str], table: str) -> DataFrame:
    """Read Parquet files, also files of an older version with fewer columns."""
    found = spark.read.parquet(path)
    missing = [TABLES[table].column(name) for name in names if name not in found.columns]
    if not missing:
        return found
    schema = found.schema
    for column in missing:
        schema = schema.add(column.name, DataType.fromDDL(column.type.value))
    return spark.read.schema(schema).parquet(path)


def _between(
    frame: DataFrame, time: str, since: datetime | None, until: datetime | None
) -> DataFrame:
    """Select rows by a time, and folders by their day."""
    if since:
        frame = frame.where((F.col("day") >= F.lit(since.date())) & (F.col(time) >= F.lit(since)))
    if until:
        frame = frame.where((F.col("day") <= F.lit(until.date())) & (F.col(time) < F.lit(until)))
    return frame


def _nothing(spark: SparkSession, table: str) -> DataFrame:
    columns = TABLES[table].columns
    schema = ", ".join(f"`{column.name}` {column.type.value}" for column in columns)
    return spark.createDataFrame([], schema)
