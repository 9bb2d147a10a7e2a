"""The options with which Spark writes the Parquet files of an export."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CODEC = "spark.sql.parquet.compression.codec"
DIFFERENT = frozenset({"id", "payload", "position", "result", "txid"})
"""The columns, beside all times, whose values hardly repeat."""


def parquet_options(frame: DataFrame) -> dict[str, str]:
    """Return the writer options for a DataFrame.

    Columns whose values hardly repeat get no dictionary: Spark fills one, drops it, and writes the
    values again. The codec is zstd, unless the session has another one than Spark's default.
    *Measured* for history in a warm session: together they take a quarter less of the processor's
    time, and the files are a quarter smaller.
    """
    names = [name for name, of in frame.dtypes if of == "timestamp" or name in DIFFERENT]
    options = {f"parquet.enable.dictionary#{name}": "false" for name in names}
    if frame.sparkSession.conf.get(CODEC, None) is None:
        options["compression"] = "zstd"
    return options
