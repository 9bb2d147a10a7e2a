"""Stage the rows of any source of Spark's as the arguments of a task's calls."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from pyspark import TaskContext
from pyspark.sql import functions as F

from pgqueue.arrow.tables import TABLES
from pgqueue.redaction import Redaction
from pgqueue.spark.errors import InvalidSource
from pgqueue.spark.writing import Attempt
from pgqueue.spark.written import MESSAGE, has_variant
from pgqueue.values.error_words import shown

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

_KWARGS = (MESSAGE["kwargs"],)
FORMATS = ("parquet", "csv", "json", "orc")
_SQL = re.compile(r"\s*(?:select|with)\b", re.IGNORECASE)
_FORMAT = re.compile(rf"({'|'.join(FORMATS)}):(.+)", re.DOTALL)
_ENDING = re.compile(rf".+\.({'|'.join(FORMATS)})", re.DOTALL)
_CSV = {
    "header": "true",
    # Ordinary quoting: a quote in quotes is doubled, and a cell may have line breaks.
    "multiLine": "true",
    "quote": '"',
    "escape": '"',
    # A row with too many or too few cells, or a file with another header, is an error.
    "mode": "FAILFAST",
    "enforceSchema": "false",
}
# No cell has this text for NULL. So an empty cell is NULL, and quotes without text are a text.
_NO_NULL = "\x01"
_GUESSES = "spark.sql.sources.partitionColumnTypeInference.enabled"
"""Whether Spark takes a folder `zip=01234` for the number 1234."""


class Csv(NamedTuple):
    """The format of a CSV file.

    Attributes:
        separator: the text between two cells.
        encoding: the encoding of the file, by a name that Java knows.
        null: the text that stands for NULL; None: only an empty cell does.
    """

    separator: str = ","
    encoding: str = "UTF-8"
    null: str | None = None


class Source(NamedTuple):
    """The place of the rows.

    Attributes:
        form: a format of `FORMATS`, or `SQL`, or `JDBC`.
        text: the path, query or URL.
    """

    form: str
    text: str

    @property
    def is_typed(self) -> bool:
        """Whether the values have types. A cell of a CSV file is a text or NULL."""
        return self.form != "csv"


SQL, JDBC = "sql", "jdbc"


class Calls(NamedTuple):
    """Rows as arguments of calls.

    Attributes:
        frame: one column, `kwargs`: a struct, or a text of JSON.
        names: the names of the arguments; None: each row has its own names.
    """

    frame: DataFrame
    names: list[str] | None


def source_of(text: str) -> Source:
    """Return the source that a text names.

    Args:
        text: A query of Spark SQL, which may name the tables of the queue; or a path that ends in
            .parquet, .csv, .json or .orc. A format and a colon may precede any other path. The
            URL of a database begins with jdbc:.

    Raises:
        InvalidSource: the text is neither a query, nor a path, nor a URL of a database.
    """
    if text.startswith("jdbc:"):
        return Source(JDBC, text)
    if _SQL.match(text):
        return Source(SQL, text)
    if found := _FORMAT.fullmatch(text):
        return Source(found[1], found[2])
    if found := _ENDING.fullmatch(text):
        return Source(found[1], text)
    raise InvalidSource(
        f"{shown(text)} is neither a query, nor jdbc:…, nor a path that ends in "
        f".{', .'.join(FORMATS)}. Put the format before another path: parquet:{text:.99}"
    )


def load(
    spark: SparkSession, source: str, *, url: str, table: str | None = None, csv: Csv | None = None
) -> Calls:
    """Return the rows of a source as arguments: a column for each, or the fields of a JSON line.

    Args:
        source: see `source_of`.
        url: of the queue's database; see `urls.resolve`.
        table: of the database behind jdbc:…, or a query in parentheses with an alias.
        csv: the format of a CSV file; None: the default format.

    Raises:
        InvalidSource: the text names no source, or the source takes no table or no such option; or
            a column has values of the type VARIANT.
    """
    form, text = source_of(source)
    if form == JDBC and not table:
        raise InvalidSource("A source jdbc:… needs a table, too.")
    if table and form != JDBC:
        raise InvalidSource("Only a source jdbc:… takes a table.")
    if csv and form != "csv":
        raise InvalidSource("Only a CSV file takes a separator, an encoding and a text for null.")
    if form == "json":
        return _lines(spark, text)
    if form == SQL:
        name_tables(spark, text, url=url)
        frame = spark.sql(text)
    elif form == JDBC:
        frame = spark.read.format("jdbc").options(url=text, dbtable=str(table)).load()
    elif form == "csv":
        frame = _csv(spark, text, csv or Csv())
    else:
        # By default Spark takes the columns of one file, and leaves out other columns.
        frame = _load(spark, form, text, {"mergeSchema": "true"})
    for field in frame.schema.fields:
        if has_variant(field.dataType):
            raise InvalidSource(
                f"The column {field.name!r} is {field.dataType.simpleString():.99}: a backfill "
                "takes no VARIANT. Select to_json() of it in a query."
            )
    named = (F.col(f"`{name.replace('`', '``')}`") for name in frame.columns)
    return Calls(frame.select(F.struct(*named).alias("kwargs")), frame.columns)


def _load(spark: SparkSession, form: str, path: str, options: Mapping[str, str]) -> DataFrame:
    before = spark.conf.get(_GUESSES)
    spark.conf.set(_GUESSES, "false")
    try:
        return spark.read.format(form).options(**options).load(path)
    finally:
        spark.conf.set(_GUESSES, str(before))


def _csv(spark: SparkSession, path: str, csv: Csv) -> DataFrame:
    options = {
        **_CSV,
        "sep": csv.separator,
        "encoding": csv.encoding,
        "nullValue": _NO_NULL if csv.null is None else csv.null,
    }
    # Without this setting Spark lacks windows-1252, which spreadsheets write.
    spark.conf.set("spark.sql.legacy.javaCharsets", "true")
    frame = _load(spark, "csv", path, options)
    # Java replaces bytes that it fails to decode by this character.
    wrong = f"is not in {csv.encoding}, or has the character U+FFFD: say which encoding it has."
    for name in frame.columns:
        if "\ufffd" in name:
            raise InvalidSource(f"The header {shown(name)} {wrong}")
    return frame.select(
        *(
            F.when(~F.contains(cell, F.lit("\ufffd")) | cell.isNull(), cell)
            .otherwise(_error(F.lit(f"The column {name!r} has "), cell, F.lit(f": it {wrong}")))
            .alias(name)
            for name in frame.columns
            for cell in [F.col(f"`{name.replace('`', '``')}`")]
        )
    )


def _lines(spark: SparkSession, path: str) -> Calls:
    """Return JSON lines unparsed: Spark would guess types, round decimals and add fields."""
    frame = spark.read.text(path)
    if len(frame.columns) > 1:
        raise InvalidSource(
            f"The folders below {path} are columns ({', '.join(frame.columns[1:])}). JSON lines "
            "must have no such columns: name the files of one folder."
        )
    line = F.when(F.is_valid_utf8("value"), F.col("value")).otherwise(
        _error(F.lit("A line is not in UTF-8: "), F.make_valid_utf8("value"))
    )
    return Calls(frame.where("trim(value) <> ''").select(line.alias("kwargs")), None)


def _error(*parts: Column) -> Column:
    return F.raise_error(F.concat(*(F.substring(part, 1, 500) for part in parts)))


def name_tables(
    spark: SparkSession, query: str, *, url: str, redact: Redaction | None = None
) -> None:
    """Register the queue's tables that a query names, redacted if the caller asks for it."""
    redacted = "false" if redact is None else redact.to_json()
    for name in TABLES:
        # Spark compares names without case.
        if re.search(rf"\b{name}\b", query, re.IGNORECASE):
            options = {"url": url, "table": name, "redact": redacted}
            frame = spark.read.format("pgqueue").options(**options).load()
            frame.createOrReplaceTempView(name)


def first(calls: Calls, count: int) -> list[str]:
    """Return the payloads that the first rows would be staged with.

    Raises:
        InvalidRow: a row is invalid.
        pyspark.errors.PySparkException: Spark fails to read the source.
    """
    from pgqueue.spark.staging import payloads

    table = calls.frame.limit(count).toArrow()
    return [each for batch in table.to_batches() for each in payloads(batch, _KWARGS)]


def stage(calls: Calls, *, url: str) -> list[Attempt]:
    """Stage each row as the named arguments of a call; return the attempts in order.

    Raises:
        pyspark.errors.PySparkException: a row is invalid, or Spark fails to read the source.
    """
    schema = "partition int, attempt long, rows long"
    staged = calls.frame.mapInArrow(partial(_stage, url), schema).collect()
    return sorted(Attempt(row.partition, row.attempt, row.rows) for row in staged)


def _stage(url: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    from pgqueue.spark.staging import stage

    context = TaskContext.get()
    attempt, rows = stage(url, batches, _KWARGS, ())
    row = {"partition": context.partitionId() if context else 0, "attempt": attempt, "rows": rows}
    schema = pa.schema({"partition": pa.int32(), "attempt": pa.int64(), "rows": pa.int64()})
    yield pa.RecordBatch.from_pylist([row], schema)
