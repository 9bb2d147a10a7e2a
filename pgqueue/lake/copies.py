"""Copy tables of a lake into files of Parquet, which Spark reads without the jars of the format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import date
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from pgqueue.lake.errors import NoTable
from pgqueue.lake.formats import DAY, SOURCE, Condition, Lake, LakePlace, check_source, opened
from pgqueue.values.names import SCHEME, as_folder


def copy(
    *,
    url: str,
    of: str,
    tables_format: str,
    tables: Mapping[str, Sequence[str]],
    into: Path,
    catalog: str | None = None,
    source: str = "",
    since: date | None = None,
    until: date | None = None,
) -> None:
    """Copy rows of a lake into a folder for each table.

    Args:
        url: The database whose export wrote the lake: see `arrow.urls.resolve`.
        of: The folder of the lake, as `lake.export` takes it.
        tables_format: "ducklake", "delta" or "iceberg".
        tables: The columns to copy by table; columns that a table lacks are left out.
        into: A folder of this machine.
        catalog: As `lake.export` takes it.
        source: The source whose rows are copied, if the lake has several.
        since: The first UTC day to copy; None: all.
        until: The last UTC day to copy; None: all.

    Raises:
        CatalogUnreachable: the catalog of the lake does not open, or is of another lake.
        InvalidOption: the writer of the format refuses the name of the folder, or the catalog is no
            URL.
        LakeFailed: the reader of the format, or the place of the lake, has failed.
        MissingPackage: the extra of the format is not installed.
        NoTable: the lake lacks a table.
        OtherSource: the lake has several sources and none is given, or none and one is given.
    """
    of = as_folder(of)
    if not SCHEME.match(of) and not Path(of).is_dir():
        raise NoTable(f"There is no folder {of}: export to it first.")
    place = LakePlace(
        of,
        catalog or (url if tables_format == "ducklake" else None),
        source=source,
        is_read_only=True,
    )
    chosen: list[Condition] = [
        (name, relation, value)
        for name, relation, value in (
            (SOURCE, "=", source or None),
            (DAY, ">=", since),
            (DAY, "<=", until),
        )
        if value is not None
    ]
    with closing(opened(tables_format, place)) as lake:
        for table, columns in tables.items():
            known = lake.columns(table)
            if known is None:
                raise NoTable(f"{of} has no table {table} of {tables_format}: export to it first.")
            check_source(table, known, source)
            names = [each for each in (*columns, DAY) if each in known.names]
            rows = lake.read(table, names, chosen)
            (into / table).mkdir(parents=True)
            with parquet.ParquetWriter(into / table / "rows.parquet", rows.schema) as writer:
                for batch in _batches(lake, rows):
                    writer.write_batch(batch)


def _batches(lake: Lake, rows: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Yield the batches of rows of a lake; raise an error of their reader as LakeFailed."""
    while True:
        with lake.failures():
            batch = next(rows, None)
        if batch is None:
            return
        yield batch
