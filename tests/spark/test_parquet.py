"""The options of the Parquet files that an export writes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from pgqueue.spark.parquet import CODEC, parquet_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def codecs(folder: Path) -> dict[str, set[str]]:
    """Return the codecs of each column in all Parquet files below a folder."""
    found: dict[str, set[str]] = {}
    for path in folder.rglob("*.parquet"):
        for each in columns(path):
            found.setdefault(each.path_in_schema, set()).add(each.compression)
    return found


def columns(path: Path) -> list[pq.ColumnChunkMetaData]:
    with pq.ParquetFile(path) as file:
        group = file.metadata.row_group(0)
        return [group.column(index) for index in range(group.num_columns)]


def test_only_columns_whose_values_repeat_have_a_dictionary(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = spark.range(1000).selectExpr(
        "id", "timestamp_micros(id) AS created_at", "concat('k', id % 3) AS key", "id AS payload"
    )

    rows.write.options(**parquet_options(rows)).parquet(f"{tmp_path}/rows")

    has_dictionary = {
        each.path_in_schema: each.has_dictionary_page
        for path in tmp_path.rglob("*.parquet")
        for each in columns(path)
    }
    assert has_dictionary == {"id": False, "created_at": False, "key": True, "payload": False}
    assert codecs(tmp_path) == {name: {"ZSTD"} for name in has_dictionary}


def test_the_codec_that_a_session_has_chosen_is_kept(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(3)
    spark.conf.set(CODEC, "gzip")
    try:
        rows.write.options(**parquet_options(rows)).parquet(f"{tmp_path}/rows")
    finally:
        spark.conf.unset(CODEC)

    assert codecs(tmp_path) == {"id": {"GZIP"}}
