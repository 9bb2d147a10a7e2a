"""Stage the rows of any source of Spark's as the arguments of a task's calls."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql import functions as F

from pgqueue.redaction import Redaction
from pgqueue.spark.errors import InvalidSource
from pgqueue.spark.tables import TABLES
from pgqueue.spark.writing import Attempt
from pgqueue.spark.written import MESSAGE
from pgqueue.spelling import shown

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

FORMATS = ("parquet", "csv", "json", "orc")
_SQL = re.compile(r"\s*(?:select|with)\b", re.IGNORECASE)
_FORMAT = re.compile(rf"({'|'.join(FORMATS)}):(.+)", re.DOTALL)
_ENDING = re.compile(rf".+\.({'|'.join(FORMATS)})", re.DOTALL)


def load(spark: SparkSession, source: str, *, url: str, table: str | None = None) -> DataFrame:
    """Return the rows of a source.

    Args:
        source: a query of Spark SQL, which knows the tables of the queue by name; or a path that
            ends in .parquet, .csv, .json or .orc; or such a format, a colon and any path; or the
            URL of a database, jdbc:….
        url: of the queue's database; see `urls.resolve`.
        table: of the database behind jdbc:…, or a query in parentheses with an alias.

    Raises:
        InvalidSource: it is none of these.
    """
    if source.startswith("jdbc:"):
        if not table:
            raise InvalidSource("A source jdbc:… needs a table, too.")
        return spark.read.format("jdbc").options(url=source, dbtable=table).load()
    if table:
        raise InvalidSource("Only a source jdbc:… takes a table.")
    if _SQL.match(source):
        name_tables(spark, source, url=url)
        return spark.sql(source)
    if found := _FORMAT.fullmatch(source):
        form, path = found.groups()
    elif found := _ENDING.fullmatch(source):
        form, path = found[1], source
    else:
        raise InvalidSource(
            f"{shown(source)} is neither a query, nor jdbc:…, nor a path that ends in "
            f".{', .'.join(FORMATS)}. Put the format before another path: parquet:{source:.99}"
        )
    options = {"header": "true", "inferSchema": "true"} if form == "csv" else {}
    return spark.read.format(form).options(**options).load(path)


def name_tables(
    spark: SparkSession, query: str, *, url: str, redact: Redaction | None = None
) -> None:
    """Let a query know the tables of the queue that it names, redacted if that is asked for."""
    redacted = "false" if redact is None else redact.to_json()
    for name in TABLES:
        if re.search(rf"\b{name}\b", query):
            options = {"url": url, "table": name, "redact": redacted}
            frame = spark.read.format("pgqueue").options(**options).load()
            frame.createOrReplaceTempView(name)


def stage(frame: DataFrame, *, url: str) -> list[Attempt]:
    """Stage each row as the named arguments of a call; return what was staged, in order.

    Raises:
        pyspark.errors.PySparkException: a row can't be stored, or the source can't be read.
    """
    calls = frame.select(F.struct(*(F.col(f"`{name}`") for name in frame.columns)).alias("kwargs"))
    schema = "partition int, attempt long, rows long"
    staged = calls.mapInArrow(partial(_stage, url), schema).collect()
    return sorted(Attempt(row.partition, row.attempt, row.rows) for row in staged)


def _stage(url: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    from pgqueue.spark.staging import stage

    context = TaskContext.get()
    attempt, rows = stage(url, batches, [MESSAGE["kwargs"]], ())
    row = {"partition": context.partitionId() if context else 0, "attempt": attempt, "rows": rows}
    schema = pa.schema({"partition": pa.int32(), "attempt": pa.int64(), "rows": pa.int64()})
    yield pa.RecordBatch.from_pylist([row], schema)
