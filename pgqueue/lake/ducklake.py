"""A DuckLake: Parquet files in a folder, and a catalog in PostgreSQL, written by DuckDB.

A transaction of the catalog has the rows and the position: PostgreSQL commits both, or neither. The
positions are a table of the lake. So a reader of an earlier snapshot sees its position, and expired
snapshots take none away.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from pgqueue.arrow.extensions import (
    EXTRA,
    POSTGRES,
    attach,
    duckdb_with,
    needed,
    on_one_line,
    quoted,
    type_of,
)
from pgqueue.arrow.urls import DEFAULT, connect, resolve
from pgqueue.lake.errors import CatalogUnreachable
from pgqueue.lake.formats import (
    SOURCE,
    Condition,
    LakePlace,
    Position,
    as_sql,
    check_after,
    check_folder,
    conflicts,
    failures,
    naming_failures,
)
from pgqueue.values.names import SCHEME

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA = "pgqueue_lake"
"""The schema of the catalog's tables in PostgreSQL."""
POSITIONS = "positions"
"""The table of the positions; each source has its own, so that two sources never conflict in it."""

CAME_FIRST = re.compile(
    "Transaction conflict|write-write conflict|maximum retry count"
    "|another transaction|could not serialize access|deadlock detected"
)
"""Errors of DuckLake, DuckDB and PostgreSQL where another transaction of the catalog came first.

DuckDB tells them by their text only (up to 1.5 at least): any commit that fails is a
TransactionException.
"""


@naming_failures
class DuckLake:
    """A lake of the format DuckLake: see `formats.Lake`.

    Opens a catalog, and creates it if there is none.

    Raises:
        CatalogUnreachable: the catalog does not open, or is of another lake.
        InvalidOption: DuckDB does not write to a folder of this name.
        MissingPackage: the extra is not installed.
    """

    def __init__(self, place: LakePlace) -> None:
        # DuckDB reads it as the beginning of an escape.
        check_folder(place.to, "\\", "DuckDB")
        self._place = place
        self._positions = f"{POSITIONS}_{place.source}" if place.source else POSITIONS
        extensions = ["ducklake", POSTGRES]
        if SCHEME.match(place.to):
            extensions.append("httpfs")
        self._db = duckdb_with(*extensions)
        self._attach(place)

    def _attach(self, place: LakePlace) -> None:
        reference = place.catalog or DEFAULT
        # An error of DuckDB contains the URL with its password, so psycopg tries it first.
        try:
            with connect(reference, name="catalog") as connection:
                _check_folder(connection, place)
        except psycopg.OperationalError as error:
            raise CatalogUnreachable(f"The catalog is unreachable: {on_one_line(error)}") from None
        except (psycopg.Error, OSError) as error:
            raise CatalogUnreachable(
                f"The catalog of {place.to} does not open: {on_one_line(error)}"
            ) from None
        self._secret = make_conninfo(resolve(reference))
        try:
            attach(
                self._db,
                reference,
                "ATTACH 'ducklake:postgres:{}' AS lake "
                f"(DATA_PATH {quoted(place.to + '/')}, METADATA_SCHEMA {quoted(SCHEMA)}"
                f"{', READ_ONLY' if place.is_read_only else ''})",
            )
            self._db.execute("USE lake")
        except needed("duckdb", EXTRA).Error as error:
            raise CatalogUnreachable(
                f"The catalog of {place.to} does not open: {on_one_line(error)}"
            ) from None

    def columns(self, table: str) -> pa.Schema | None:
        """Return the columns of a table; None: there is no table."""
        return self._columns(table)

    def _columns(self, table: str) -> pa.Schema | None:
        if table not in self._tables():
            return None
        return self._db.execute(f"SELECT * FROM {table} LIMIT 0").to_arrow_table().schema  # noqa: S608

    def _tables(self) -> list[str]:
        found = self._db.execute(
            "SELECT table_name FROM duckdb_tables() WHERE database_name = 'lake'"
        ).fetchall()
        return [name for (name,) in found]

    def create(self, table: str, schema: pa.Schema) -> None:
        """Create a table, or add the columns to it that it lacks."""
        types = {each.name: type_of(each) for each in schema}
        with self._transaction(table):
            found = self._columns(table)
            known = [] if found is None else found.names
            self._db.execute(
                f"CREATE TABLE IF NOT EXISTS {self._positions} "
                "(table_name VARCHAR, position VARCHAR, noted_at TIMESTAMPTZ)"
            )
            if not known:
                self._forget(table)
                columns = ", ".join(f'"{name}" {type}' for name, type in types.items())
                by = ", ".join(f'"{name}"' for name in self._place.partitions(table))
                self._db.execute(f"CREATE TABLE {table} ({columns})")
                self._db.execute(f"ALTER TABLE {table} SET PARTITIONED BY ({by})")
            for name, type in types.items():
                if known and name not in known:
                    self._db.execute(f'ALTER TABLE {table} ADD COLUMN "{name}" {type}')
            if not self._positions_in(self._positions, table):
                # Two deletes of a row conflict, and two inserts do not: so the first append has a
                # row to delete, as each other one has.
                self._note(table, None)

        # Then a program that reads the Parquet files finds all rows in them. A session does not see
        # the option that another one has set, so each sets it.
        with self._conflicts("the catalog"):
            self._db.execute(
                "CALL lake.set_option('data_inlining_row_limit', 0, table_name => ?)", [table]
            )

    def position(self, table: str) -> Position | None:
        """Return the position of the source's last row in a table; None: it has none."""
        return self._position_in(self._positions, table)

    def _position_in(self, positions: str, table: str) -> Position | None:
        known = [each for each in self._positions_in(positions, table) if each is not None]
        return json.loads(known[0]) if known else None

    def _positions_in(self, positions: str, table: str) -> list[str | None]:
        found = self._db.execute(
            f"SELECT position FROM {positions} WHERE table_name = ?",  # noqa: S608
            [table],
        ).fetchall()
        return [position for (position,) in found]

    def _forget(self, table: str) -> None:
        """Forget the positions of a table that was dropped: its rows are exported again."""
        for name in self._tables():
            if name == POSITIONS or name.startswith(f"{POSITIONS}_"):
                self._db.execute(f"DELETE FROM {name} WHERE table_name = ?", [table])  # noqa: S608

    def _note(self, table: str, position: Position | None) -> None:
        self._db.execute(
            f"INSERT INTO {self._positions} VALUES (?, ?, now())",  # noqa: S608
            [table, None if position is None else json.dumps(position)],
        )

    def databases(self, table: str) -> Mapping[str, str]:
        """Return the identity of the database of each source that has a position in a table."""
        begin = f"{POSITIONS}_"
        found = {
            name.removeprefix(begin): self._position_in(name, table)
            for name in self._tables()
            if name.startswith(begin)
        }
        return {source: known["database"] for source, known in found.items() if known}

    def append(
        self, table: str, rows: pa.Table, position: Position, *, after: Position | None
    ) -> None:
        """Append rows, and set the position, in one commit: see `formats.Lake`."""
        with self._transaction(table):
            check_after(table, self._position_in(self._positions, table), after)
            if rows.num_rows:
                self._insert(table, rows)
            self._db.execute(f"DELETE FROM {self._positions} WHERE table_name = ?", [table])  # noqa: S608
            self._note(table, position)

    def replace(self, table: str, rows: pa.Table) -> None:
        """Replace all rows of the source in a table in one commit."""
        source = self._place.source
        chosen = f" WHERE {SOURCE} = {quoted(source)}" if source else ""
        with self._transaction(table):
            self._db.execute(f"DELETE FROM {table}{chosen}")  # noqa: S608
            if rows.num_rows:
                self._insert(table, rows)

    def _insert(self, table: str, rows: pa.Table) -> None:
        self._db.register("new_rows", rows)
        try:
            self._db.execute(f"INSERT INTO {table} BY NAME SELECT * FROM new_rows")  # noqa: S608
        finally:
            self._db.unregister("new_rows")

    def read(
        self, table: str, names: Sequence[str], conditions: Sequence[Condition]
    ) -> pa.RecordBatchReader:
        """Return columns of the rows that meet all conditions."""
        columns = ", ".join(f'"{name}"' for name in names)
        chosen = as_sql(conditions) or "true"
        return self._db.execute(f"SELECT {columns} FROM {table} WHERE {chosen}").to_arrow_reader()  # noqa: S608

    def compact(self) -> None:
        """Merge small files. The files of before stay until their snapshots are expired."""
        with self._conflicts("the catalog"):
            self._db.execute("CALL ducklake_flush_inlined_data('lake')")
            self._db.execute("CALL ducklake_merge_adjacent_files('lake')")

    def expire(self, older_than: timedelta) -> None:
        """Remove snapshots that are older, and the files that only they need.

        Files of a killed export stay. DuckLake would remove each file below the folder that the
        catalog does not know, such as a file of another lake.
        """
        # Arithmetic on these times would take the extension ICU.
        until = f"TIMESTAMPTZ {quoted((datetime.now(UTC) - older_than).isoformat(' '))}"
        with self._conflicts("the catalog"):
            self._db.execute(f"CALL ducklake_expire_snapshots('lake', older_than => {until})")
            self._db.execute(f"CALL ducklake_cleanup_old_files('lake', older_than => {until})")

    def failures(self) -> AbstractContextManager[None]:
        """Return a context that raises other errors of the writer, and of files, as LakeFailed."""
        return failures(self._place.to, needed("duckdb", EXTRA).Error, secret=self._secret)

    def close(self) -> None:
        """Close the lake."""
        self._db.close()

    @contextmanager
    def _transaction(self, table: str) -> Iterator[None]:
        with self._conflicts(f"the table {table}"):
            self._db.execute("BEGIN TRANSACTION")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                with suppress(needed("duckdb", EXTRA).Error):
                    self._db.execute("ROLLBACK")
                raise

    def _conflicts(self, what: str) -> AbstractContextManager[None]:
        return conflicts(what, needed("duckdb", EXTRA).Error, words=CAME_FIRST)


open_lake = DuckLake


def _check_folder(connection: psycopg.Connection[Any], place: LakePlace) -> None:
    """Check that the folder and the catalog are of one lake, or that there is no lake yet.

    Raises:
        CatalogUnreachable: the catalog, or the files of the folder, are of another lake.
    """
    # The first export of another source may make both meanwhile, and it makes the catalog first.
    has_files = not SCHEME.match(place.to) and any(
        each.is_file() for each in Path(place.to, "main").rglob("*")
    )
    found = _folder_of(connection)
    if found is not None and found.rstrip("/") != place.to.rstrip("/"):
        raise CatalogUnreachable(
            f"The catalog of {place.to} does not open: it is of the lake in {found}. Export to "
            "that folder, or give a --catalog of its own: another database."
        )
    if found is None and has_files and not place.is_read_only:
        raise CatalogUnreachable(
            f"The folder {place.to} has files of another DuckLake that this catalog does not know. "
            "Export to another folder, or give the --catalog of this lake."
        )


def _folder_of(connection: psycopg.Connection[Any]) -> str | None:
    """Return the folder of the lake that a catalog has; None: the catalog has no lake."""
    has = connection.execute("SELECT to_regclass(%s)", [f"{SCHEMA}.ducklake_metadata"])
    if has.fetchone() == (None,):
        return None
    row = connection.execute(
        sql.SQL(
            "SELECT value FROM {}.ducklake_metadata WHERE key = 'data_path' AND scope IS NULL"
        ).format(sql.Identifier(SCHEMA))
    ).fetchone()
    return row[0] if row else None
