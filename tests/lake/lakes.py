"""The lakes of the tests, and the engines that read them."""

# ruff: noqa: S608

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet

from pgqueue.arrow.extensions import duckdb_with
from pgqueue.lake import LakeExport, export
from tests.spark.conftest import wait_for_horizon


class OurLake(ABC):
    """A lake that an export writes, and two or more engines read."""

    name: str

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder

    def export(self, **given: Any) -> LakeExport:
        """Export all committed rows."""
        wait_for_horizon(self.url)
        return export(url=self.url, to=str(self.folder), tables_format=self.name, **given)

    @abstractmethod
    def read(self, table: str) -> Mapping[str, pa.Table]:
        """Return the rows of a table, as each engine reads them."""

    @abstractmethod
    def files(self, table: str) -> int:
        """Return the number of data files that the last snapshot of a table has."""

    @abstractmethod
    def earlier(self, table: str) -> pa.Table:
        """Return the rows of a table before its last commit."""

    def values(self, table: str, column: str) -> list[Any]:
        """Return the values of a column in order; all engines must read the same."""
        [first, *others] = [
            sorted(rows[column].to_pylist(), key=str) for rows in self.read(table).values()
        ]
        assert all(each == first for each in others)
        return first

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return the rows of a table, as the first engine reads them."""
        return next(iter(self.read(table).values())).to_pylist()


class InDuckLake(OurLake):
    """Read by DuckDB; and by any reader of Parquet that asks PostgreSQL for the files."""

    name = "ducklake"

    def read(self, table: str) -> Mapping[str, pa.Table]:
        return {"duckdb": self._query(f"SELECT * FROM {table}"), "arrow": self._by_files(table)}

    def earlier(self, table: str) -> pa.Table:
        [[last]] = self._query(
            f"SELECT max(snapshot_id) FROM snapshots() WHERE list_contains("
            f"map_extract_value(changes, 'tables_inserted_into'), (SELECT table_id::VARCHAR "
            f"FROM ducklake_table_info('lake') WHERE table_name = '{table}'))"
        ).to_pydict().values()  # fmt: skip
        return self._query(f"SELECT * FROM {table} AT (VERSION => {last - 1})")

    def files(self, table: str) -> int:
        return len(self._paths(table))

    def _query(self, query: str) -> pa.Table:
        db = duckdb_with("ducklake", "postgres_scanner")
        try:
            db.execute(
                f"ATTACH 'ducklake:postgres:{self.url}' AS lake "
                "(METADATA_SCHEMA 'pgqueue_lake', READ_ONLY)"
            )
            db.execute("USE lake")
            return db.execute(query).to_arrow_table()
        finally:
            db.close()

    def _paths(self, table: str) -> list[str]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            rows = connection.execute(
                "SELECT s.path || t.path || f.path FROM pgqueue_lake.ducklake_data_file f "
                "JOIN pgqueue_lake.ducklake_table t USING (table_id) "
                "JOIN pgqueue_lake.ducklake_schema s USING (schema_id) "
                "WHERE t.table_name = %s AND t.end_snapshot IS NULL AND f.end_snapshot IS NULL",
                [table],
            ).fetchall()
        return [str(self.folder / path) for (path,) in rows]

    def _by_files(self, table: str) -> pa.Table:
        paths = self._paths(table)
        if not paths:
            return self._query(f"SELECT * FROM {table} LIMIT 0")
        schema = pa.unify_schemas([pyarrow.parquet.read_schema(each) for each in paths])
        return pyarrow.dataset.dataset(paths, schema).to_table()


class InDelta(OurLake):
    """Read by delta-rs, and by DuckDB, which has Delta's kernel."""

    name = "delta"

    def read(self, table: str) -> Mapping[str, pa.Table]:
        scan = f"SELECT * FROM delta_scan('{self.folder}/{table}')"
        return {
            "delta-rs": self._table(table).to_pyarrow_table(),
            "duckdb": duckdb_with("delta").execute(scan).to_arrow_table(),
        }

    def earlier(self, table: str) -> pa.Table:
        opened = self._table(table)
        opened.load_as_version(opened.version() - 1)
        return opened.to_pyarrow_table()

    def files(self, table: str) -> int:
        return len(self._table(table).file_uris())

    def _table(self, table: str) -> Any:
        from deltalake import DeltaTable

        return DeltaTable(f"{self.folder}/{table}")


class InIceberg(OurLake):
    """Read by PyIceberg, and by DuckDB."""

    name = "iceberg"

    def read(self, table: str) -> Mapping[str, pa.Table]:
        opened = self._table(table)
        where = opened.metadata_location.removeprefix("file://")
        scan = f"SELECT * FROM iceberg_scan('{where}')"
        return {
            "pyiceberg": opened.scan().to_arrow(),
            "duckdb": duckdb_with("avro", "iceberg").execute(scan).to_arrow_table(),
        }

    def earlier(self, table: str) -> pa.Table:
        opened = self._table(table)
        *_, before, _ = opened.snapshots()
        return opened.scan(snapshot_id=before.snapshot_id).to_arrow()

    def files(self, table: str) -> int:
        return int(self._table(table).inspect.files().num_rows)

    def _table(self, table: str) -> Any:
        from pyiceberg.catalog.sql import SqlCatalog

        catalog = SqlCatalog("pgqueue", uri=f"sqlite:///{self.folder}/catalog.db")
        return catalog.load_table(f"pgqueue.{table}")


LAKES = {each.name: each for each in (InDuckLake, InDelta, InIceberg)}
