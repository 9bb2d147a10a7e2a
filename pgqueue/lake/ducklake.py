"""A DuckLake: Parquet files in a folder, and a catalog in PostgreSQL, written by DuckDB.

A transaction of the catalog has the rows and the position: PostgreSQL commits both, or neither. The
positions are a table of the lake. So a reader of an earlier snapshot sees its position, and expired
snapshots take none away.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import psycopg

from pgqueue.arrow.urls import DEFAULT, connect
from pgqueue.lake.errors import CatalogUnreachable
from pgqueue.lake.extensions import EXTRA, POSTGRES, attach, duckdb_with, quoted, type_of
from pgqueue.lake.formats import LakePlace, Position, check_after, conflicts, needed
from pgqueue.values.names import SCHEME

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA = "pgqueue_lake"
"""The schema of the catalog's tables in PostgreSQL."""
POSITIONS = "positions"


class DuckLake:
    """A lake of the format DuckLake: see `formats.Lake`.

    Opens a catalog, and creates it if there is none.

    Raises:
        CatalogUnreachable: the catalog does not open.
        MissingPackage: the extra is not installed.
    """

    def __init__(self, place: LakePlace) -> None:
        self._place = place
        extensions = ["ducklake", POSTGRES]
        if SCHEME.match(place.to):
            extensions.append("httpfs")
        self._db = duckdb_with(*extensions)
        self._attach(place)

    def _attach(self, place: LakePlace) -> None:
        reference = place.catalog or DEFAULT
        # An error of DuckDB contains the URL with its password, so psycopg tries it first.
        try:
            connect(reference, name="catalog").close()
        except psycopg.OperationalError as error:
            raise CatalogUnreachable(f"The catalog is unreachable: {error}") from None
        try:
            attach(
                self._db,
                reference,
                "ATTACH 'ducklake:postgres:{}' AS lake "
                f"(DATA_PATH {quoted(place.to + '/')}, METADATA_SCHEMA {quoted(SCHEMA)})",
            )
            self._db.execute("USE lake")
        except needed("duckdb", EXTRA).Error as error:
            raise CatalogUnreachable(f"The catalog of {place.to} does not open: {error}") from None
        with self._transaction():
            self._db.execute(
                f"CREATE TABLE IF NOT EXISTS {POSITIONS} "
                "(table_name VARCHAR, position VARCHAR, noted_at TIMESTAMPTZ)"
            )

    def create(self, table: str, schema: pa.Schema) -> None:
        """Create a table, or add the columns to it that it lacks."""
        known = self._columns(table)
        types = {each.name: type_of(each) for each in schema}
        with self._transaction():
            if not known:
                columns = ", ".join(f'"{name}" {type}' for name, type in types.items())
                by = ", ".join(f'"{name}"' for name in self._place.partitions(table))
                self._db.execute(f"CREATE TABLE {table} ({columns})")
                self._db.execute(f"ALTER TABLE {table} SET PARTITIONED BY ({by})")
            for name, type in types.items():
                if known and name not in known:
                    self._db.execute(f'ALTER TABLE {table} ADD COLUMN "{name}" {type}')

        if not known:
            # Then a program that reads the Parquet files finds all rows in them.
            self._db.execute(
                "CALL lake.set_option('data_inlining_row_limit', 0, table_name => ?)", [table]
            )

    def _columns(self, table: str) -> list[str]:
        found = self._db.execute(
            "SELECT column_name FROM duckdb_columns() "
            "WHERE database_name = 'lake' AND table_name = ?",
            [table],
        ).fetchall()
        return [name for (name,) in found]

    def position(self, table: str) -> Position | None:
        """Return the position of a table's last row, as it was appended; None: it has none."""
        row = self._db.execute(
            f"SELECT position FROM {POSITIONS} WHERE table_name = ? LIMIT 1",  # noqa: S608
            [table],
        ).fetchone()
        return json.loads(row[0]) if row else None

    def append(
        self, table: str, rows: pa.Table, position: Position, *, after: Position | None
    ) -> None:
        """Append rows, and set the position, in one commit: see `formats.Lake`."""
        conflict = needed("duckdb", EXTRA).TransactionException
        with conflicts(table, conflict), self._transaction():
            check_after(table, self.position(table), after)
            if rows.num_rows:
                self._insert(table, rows)
            self._db.execute(f"DELETE FROM {POSITIONS} WHERE table_name = ?", [table])  # noqa: S608
            self._db.execute(
                f"INSERT INTO {POSITIONS} VALUES (?, ?, now())",  # noqa: S608
                [table, json.dumps(position)],
            )

    def replace(self, table: str, rows: pa.Table) -> None:
        """Replace all rows of a table in one commit."""
        with self._transaction():
            self._db.execute(f"DELETE FROM {table}")  # noqa: S608
            if rows.num_rows:
                self._insert(table, rows)

    def _insert(self, table: str, rows: pa.Table) -> None:
        self._db.register("new_rows", rows)
        try:
            self._db.execute(f"INSERT INTO {table} BY NAME SELECT * FROM new_rows")  # noqa: S608
        finally:
            self._db.unregister("new_rows")

    def compact(self) -> None:
        """Merge small files. The files of before stay until their snapshots are expired."""
        self._db.execute("CALL ducklake_flush_inlined_data('lake')")
        self._db.execute("CALL ducklake_merge_adjacent_files('lake')")

    def expire(self, older_than: timedelta) -> None:
        """Remove snapshots that are older, and the files that no other snapshot needs."""
        # Arithmetic on these times would take the extension ICU.
        until = f"TIMESTAMPTZ {quoted((datetime.now(UTC) - older_than).isoformat(' '))}"
        self._db.execute(f"CALL ducklake_expire_snapshots('lake', older_than => {until})")
        for clean in ("ducklake_cleanup_old_files", "ducklake_delete_orphaned_files"):
            self._db.execute(f"CALL {clean}('lake', older_than => {until})")

    def close(self) -> None:
        """Close the lake."""
        self._db.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN TRANSACTION")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            with suppress(needed("duckdb", EXTRA).Error):
                self._db.execute("ROLLBACK")
            raise


open_lake = DuckLake
