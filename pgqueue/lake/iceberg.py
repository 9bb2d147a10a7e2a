"""Iceberg tables, written by PyIceberg, with a catalog in SQLite or PostgreSQL.

A commit has the rows and the position: the position is a property of the table, and of the snapshot
that it ends with. Expired snapshots take no position away.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pgqueue.arrow.errors import InvalidOption
from pgqueue.arrow.extensions import needed, on_one_line
from pgqueue.arrow.urls import resolve
from pgqueue.lake.errors import CatalogUnreachable
from pgqueue.lake.formats import (
    DAY,
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

EXTRA = "iceberg"
NAMESPACE = "pgqueue"
POSITION = "pgqueue.position"
TABLES = "iceberg_tables"
"""The table of a catalog that has its tables."""
RETRIES = "commit.retry.num-retries"
LOOKS, BETWEEN_LOOKS = 4, 0.25
"""How often a catalog is asked for its first table, and the seconds between."""
ENTRY = ["status", "snapshot_id", "data_file"]
DELETED = 2
"""The status of an entry whose file was removed."""


@naming_failures
class IcebergLake:
    """A lake of the format Iceberg: see `formats.Lake`.

    Opens a catalog, and creates it if there is none and the lake is not only read.

    Raises:
        CatalogUnreachable: the catalog does not open.
        InvalidOption: PyIceberg refuses the name of the folder, or the catalog is no URL.
        MissingPackage: the extra is not installed.
    """

    def __init__(self, place: LakePlace) -> None:
        # PyIceberg reads the folder as a URL.
        check_folder(place.to, "#?", "PyIceberg")
        self._place = place
        self._property = f"{POSITION}.{place.source}" if place.source else POSITION
        sql = needed("pyiceberg.catalog.sql", EXTRA)
        self._is_equal = needed("pyiceberg.expressions", EXTRA).EqualTo
        self._is_any = needed("pyiceberg.expressions", EXTRA).AlwaysTrue()
        errors = needed("sqlalchemy.exc", EXTRA)
        is_url = SCHEME.match(place.to)
        self._warehouse = place.to if is_url else f"file://{place.to}"
        try:
            if not is_url and not place.is_read_only:
                Path(place.to).mkdir(parents=True, exist_ok=True)
            with ExitStack() as undo:
                self._catalog = sql.SqlCatalog(
                    "pgqueue",
                    uri=_uri(place),
                    warehouse=self._warehouse,
                    init_catalog_tables=str(not place.is_read_only),
                    **(place.storage or {}),
                )
                undo.callback(self._catalog.close)
                if not place.is_read_only:
                    self._catalog.create_namespace_if_not_exists(NAMESPACE)
                    _check_known(self._catalog, place)
                elif (
                    not needed("sqlalchemy", EXTRA).inspect(self._catalog.engine).has_table(TABLES)
                ):
                    raise ValueError(f"it has no table {TABLES}. Export to it first.")
                undo.pop_all()
        except (errors.SQLAlchemyError, OSError, ValueError) as error:
            raise CatalogUnreachable(
                f"The catalog of {place.to} does not open: {on_one_line(error)}"
            ) from None
        self._tables: list[str] = []

    def columns(self, table: str) -> pa.Schema | None:
        """Return the columns of a table; None: there is no table."""
        if not self._catalog.table_exists(f"{NAMESPACE}.{table}"):
            return None
        found: pa.Schema = self._open(table).schema().as_arrow()
        return found

    def create(self, table: str, schema: pa.Schema) -> None:
        """Create a table, or add the columns to it that it lacks."""
        if table not in self._tables:
            self._tables.append(table)
        with self._conflicts(table):
            with (
                self._catalog.create_table_if_not_exists(
                    f"{NAMESPACE}.{table}", schema
                ).transaction() as change,
                change.update_schema() as columns,
            ):
                columns.union_by_name(schema)
            opened = self._open(table)
            if not opened.spec().fields and not opened.snapshots():
                with opened.update_spec() as spec:
                    for column in self._place.partitions(table):
                        spec.add_identity(column)

    def position(self, table: str) -> Position | None:
        """Return the position of the source's last row in a table; None: it has none."""
        return self._position_of(self._open(table))

    def _position_of(self, opened: Any) -> Position | None:
        found = opened.properties.get(self._property)
        return json.loads(found) if found else None

    def databases(self, table: str) -> Mapping[str, str]:
        """Return the identity of the database of each source that has a position in a table."""
        begin = f"{POSITION}."
        found = self._open(table).properties.items()
        return {
            name.removeprefix(begin): json.loads(position)["database"]
            for name, position in found
            if name.startswith(begin)
        }

    def append(
        self, table: str, rows: pa.Table, position: Position, *, after: Position | None
    ) -> None:
        """Append rows, and set the position, in one commit: see `formats.Lake`."""
        opened = self._open(table)
        check_after(table, self._position_of(opened), after)
        given = {self._property: json.dumps(position)}
        with self._conflicts(table), opened.transaction() as change:
            # Only a commit with a snapshot is refused if another one came first, so a range without
            # rows has a snapshot, too.
            change.append(rows, snapshot_properties=given)
            change.set_properties(given)

    def replace(self, table: str, rows: pa.Table) -> None:
        """Replace all rows of the source in a table in one commit."""
        opened = self._open(table)
        source = self._place.source
        chosen = self._is_equal(SOURCE, source) if source else self._is_any
        is_empty = not opened.scan(row_filter=chosen).count()
        with self._conflicts(table), opened.transaction() as change:
            if not is_empty:
                change.overwrite(rows, overwrite_filter=chosen)
            elif rows.num_rows:
                change.append(rows)

    def read(
        self, table: str, names: Sequence[str], conditions: Sequence[Condition]
    ) -> pa.RecordBatchReader:
        """Return columns of the rows that meet all conditions."""
        chosen = as_sql(conditions) or self._is_any
        found = self._open(table).scan(row_filter=chosen, selected_fields=tuple(names))
        rows: pa.RecordBatchReader = found.to_arrow_batch_reader()
        return rows

    def compact(self) -> None:
        """Write each past day again whose rows came with several commits, in one commit a day."""
        today = datetime.now(UTC).date()
        for table in self._tables:
            for day in self._days(table):
                if day is not None and day < today:
                    chosen = self._is_equal(DAY, day.isoformat())
                    opened = self._open(table)
                    rows = opened.scan(row_filter=chosen).to_arrow()
                    with self._conflicts(table), opened.transaction() as change:
                        change.overwrite(rows, overwrite_filter=chosen)

    def _days(self, table: str) -> list[Any]:
        """Return the days of a table whose rows several commits have written.

        PyIceberg may write a large day into several files; these are of one commit.
        """
        opened = self._open(table)
        last = opened.current_snapshot()
        if last is None or not last.manifests(opened.io):
            # PyIceberg refuses to list the files of a snapshot that has never had any.
            return []
        commits = defaultdict(set)
        for each in opened.inspect.entries().select(ENTRY).to_pylist():
            if each["status"] != DELETED:
                part = tuple(sorted(each["data_file"]["partition"].items()))
                commits[part].add(each["snapshot_id"])
        return sorted({dict(part)[DAY] for part, of in commits.items() if len(of) > 1}, key=str)

    def expire(self, older_than: timedelta) -> None:
        """Remove snapshots that are older, except the last one."""
        for table in self._tables:
            until = datetime.now(UTC) - older_than
            with self._conflicts(table):
                self._open(table).maintenance.expire_snapshots().older_than(until).commit()

    def failures(self) -> AbstractContextManager[None]:
        """Return a context that raises other errors of the writer, and of files, as LakeFailed."""
        known = vars(needed("pyiceberg.exceptions", EXTRA)).values()
        own = [each for each in known if isinstance(each, type) and issubclass(each, Exception)]
        of_the_catalog = needed("sqlalchemy.exc", EXTRA).SQLAlchemyError
        return failures(self._place.to, of_the_catalog, ValueError, *own)

    def close(self) -> None:
        """Close the catalog's connections."""
        self._catalog.close()

    def _open(self, table: str) -> Any:
        opened = self._catalog.load_table(f"{NAMESPACE}.{table}")
        if not opened.location().startswith(f"{self._warehouse}/"):
            raise CatalogUnreachable(
                f"The catalog of {self._place.to} does not open: it has the table {table} of "
                f"another lake, in {opened.location()}. Export to that lake, or give a --catalog "
                "of its own: another database."
            )
        # PyIceberg would repeat a commit with old rows after another commit. This changes no
        # property of the stored table.
        opened.metadata.properties[RETRIES] = "0"
        return opened

    def _conflicts(self, table: str) -> AbstractContextManager[None]:
        return conflicts(
            f"the table {table}", needed("pyiceberg.exceptions", EXTRA).CommitFailedException
        )


open_lake = IcebergLake


def _check_known(catalog: Any, place: LakePlace) -> None:
    """Check that a catalog without tables is of a folder without tables.

    Raises:
        ValueError: the catalog of the folder's tables was lost, or is not the one that is given.
    """
    if SCHEME.match(place.to) or not any(Path(place.to, NAMESPACE).glob("*/metadata/*.json")):
        return
    # The first export of another source writes its first file right before it enters its table.
    for _ in range(LOOKS):
        if catalog.list_tables(NAMESPACE):
            return
        time.sleep(BETWEEN_LOOKS)
    raise ValueError(
        "it has no table, and the folder has tables of another catalog. Give the --catalog of this "
        "lake, or export to another folder."
    )


def _uri(place: LakePlace) -> str:
    """Return the URL of the catalog for SQLAlchemy.

    Raises:
        CatalogUnreachable: the folder is a URL, and no catalog is given.
        InvalidOption: the given catalog is no URL.
    """
    engine = needed("sqlalchemy.engine", EXTRA)
    errors = needed("sqlalchemy.exc", EXTRA)
    if place.catalog is None:
        if SCHEME.match(place.to):
            raise CatalogUnreachable(
                f"The tables of {place.to} need a catalog elsewhere: give the URL of a database."
            )
        url = engine.URL.create("sqlite", database=f"{place.to}/catalog.db")
    else:
        try:
            url = engine.make_url(resolve(place.catalog))
        except (errors.ArgumentError, ValueError):
            # The error's text may contain a part of the password.
            raise InvalidOption(
                f"The catalog of {place.to} is no URL that SQLAlchemy reads: give one such as "
                "postgresql://USER:PASSWORD@HOST/DATABASE, with %40 for an @ in the password."
            ) from None
    if url.drivername in ("postgresql", "postgres"):
        url = url.set(drivername="postgresql+psycopg")
    is_file = url.get_backend_name() == "sqlite" and "uri" not in url.query
    if place.is_read_only and is_file and url.database:
        # SQLite would make an empty file.
        url = url.set(database=f"file:{quote(url.database)}")
        url = url.update_query_dict({"mode": "ro", "uri": "true"})
    return str(url.render_as_string(hide_password=False))
