"""Delta tables, one folder each, written by delta-rs.

The position of a table is in the transaction identifiers of its log (`txn` actions): a number for
each part of it. They are committed together with the rows, and stay when old commits are removed.
The table's description has the identity of the database. In a lake of several sources, the
identifiers have the name of the source, and the description has each source's database.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from pgqueue.arrow.extensions import needed
from pgqueue.lake.errors import LakeFailed
from pgqueue.lake.formats import (
    SOURCE,
    Condition,
    LakePlace,
    Position,
    check_after,
    check_folder,
    conflicts,
    failures,
    naming_failures,
)

EXTRA = "delta"
APP = "pgqueue"
"""The beginning of the names of the transaction identifiers."""
PARTS = ("txid", "id", "position", "marker", "floor", "is_whole")
NOTHING = -(2**63)
"""The number in place of a marker that is None."""
REMEMBERED, REMEMBERED_HOURS = "delta.deletedFileRetentionDuration", 7 * 24
"""How long a checkpoint names removed files, and the hours of its default."""
REFUSED = "%[]\\^|\t\n"
"""Characters that delta-rs 1.6 does not write, or writes in another way."""


@naming_failures
class DeltaLake:
    """A lake of the format Delta: see `formats.Lake`.

    Opens a folder of tables.

    Raises:
        InvalidOption: delta-rs refuses the name of the folder.
        MissingPackage: the extra is not installed.
    """

    def __init__(self, place: LakePlace) -> None:
        # delta-rs reads the folder as a URL: it misses the files, or panics.
        check_folder(place.to, REFUSED, "delta-rs")
        self._place = place
        self._delta = needed("deltalake", EXTRA)
        self._storage = dict(place.storage or {}) or None
        self._tables: list[str] = []

    def columns(self, table: str) -> pa.Schema | None:
        """Return the columns of a table; None: there is no table."""
        if not self._delta.DeltaTable.is_deltatable(self._uri(table), self._storage):
            return None
        return pa.schema(self._open(table).schema().to_arrow())

    def create(self, table: str, schema: pa.Schema) -> None:
        """Create a table; `append` adds the columns to it that it lacks."""
        if table not in self._tables:
            self._tables.append(table)
        with self._conflicts(table):
            self._delta.DeltaTable.create(
                self._uri(table),
                schema=schema,
                mode="ignore",
                partition_by=self._place.partitions(table),
                name=table,
                storage_options=self._storage,
            )

    def position(self, table: str) -> Position | None:
        """Return the position of the source's last row in a table; None: it has none."""
        return self._position_of(self._open(table))

    def databases(self, table: str) -> Mapping[str, str]:
        """Return the identity of the database of each source that has a position in a table."""
        opened = self._open(table)
        return {
            source: database
            for source, database in _databases_of(opened).items()
            if self._numbers(opened, source)
        }

    def _position_of(self, opened: Any) -> Position | None:
        database = _databases_of(opened).get(self._place.source)
        known = self._numbers(opened, self._place.source)
        if not known:
            return None
        if database is None:
            raise LakeFailed(_LOST_DESCRIPTION.format(opened.table_uri))
        return {"database": database, "marker": None, **known}

    def _numbers(self, opened: Any, source: str) -> dict[str, int]:
        """Return the transaction identifiers of a source."""
        found = {part: opened.transaction_version(_app(source, part)) for part in PARTS}
        return {part: number for part, number in found.items() if number not in (None, NOTHING)}

    def append(
        self, table: str, rows: pa.Table, position: Position, *, after: Position | None
    ) -> None:
        """Append rows, and set the position, in one commit: see `formats.Lake`."""
        opened = self._open(table)
        with self._conflicts(table):
            self._describe(opened, position["database"])
        check_after(table, self._position_of(opened), after)
        # delta-rs refuses a commit if another one has set a transaction identifier meanwhile.
        with self._conflicts(table):
            self._write(
                opened,
                rows,
                mode="append",
                commit_properties=self._delta.CommitProperties(
                    custom_metadata={"pgqueue": dict(position)},
                    app_transactions=[
                        self._delta.Transaction(
                            _app(self._place.source, part),
                            NOTHING if position[part] is None else int(position[part]),
                        )
                        for part in PARTS
                        if part in position
                    ],
                ),
            )

    def replace(self, table: str, rows: pa.Table) -> None:
        """Replace all rows of the source in a table in one commit."""
        source = self._place.source
        chosen = f"{SOURCE} = '{source}'" if source else None
        with self._conflicts(table):
            self._write(self._open(table), rows, mode="overwrite", predicate=chosen)

    def _describe(self, opened: Any, database: str) -> None:
        """Note the database of the source in the table's description, until it has rows.

        A table with rows of a source has it, also if the export is killed here.
        """
        known, source = _databases_of(opened), self._place.source
        if source in known and (known[source] == database or self._numbers(opened, source)):
            return
        described = {"databases": {**known, source: database}} if source else {"database": database}
        opened.alter.set_table_description(json.dumps(described))

    def _write(self, opened: Any, rows: pa.Table, **given: Any) -> None:
        self._delta.write_deltalake(
            opened, rows, schema_mode="merge", storage_options=self._storage, **given
        )

    def read(
        self, table: str, names: Sequence[str], conditions: Sequence[Condition]
    ) -> pa.RecordBatchReader:
        """Return columns of the rows that meet all conditions."""
        chosen = parquet.filters_to_expression([*conditions]) if conditions else None
        rows = self._open(table).to_pyarrow_dataset()
        return rows.scanner(columns=list(names), filter=chosen).to_reader()

    def compact(self) -> None:
        """Merge small files."""
        for table in self._tables:
            with self._conflicts(table):
                self._open(table).optimize.compact()

    def expire(self, older_than: timedelta) -> None:
        """Remove files that no version of this age or younger needs, and old commits.

        Files of a killed export stay: a vacuum finds only those that the log has removed.
        """
        hours = int(older_than.total_seconds() // 3600)
        for table in self._tables:
            opened = self._open(table)
            self._remember_files(table, opened, hours)
            opened.vacuum(
                retention_hours=hours,
                dry_run=False,
                enforce_retention_duration=False,
            )
            opened.create_checkpoint()
            opened.cleanup_metadata()

    def _remember_files(self, table: str, opened: Any, hours: int) -> None:
        """Have checkpoints name removed files for so many hours: a week is the default."""
        wanted = f"interval {hours} hours"
        if hours > REMEMBERED_HOURS and opened.metadata().configuration.get(REMEMBERED) != wanted:
            with self._conflicts(table):
                opened.alter.set_table_properties({REMEMBERED: wanted})

    def failures(self) -> AbstractContextManager[None]:
        """Return a context that raises other errors of the writer, and of files, as LakeFailed."""
        return failures(self._place.to, needed("deltalake.exceptions", EXTRA).DeltaError)

    def close(self) -> None:
        """Close the lake: each method has opened and closed its table."""

    def _open(self, table: str) -> Any:
        return self._delta.DeltaTable(self._uri(table), storage_options=self._storage)

    def _uri(self, table: str) -> str:
        return f"{self._place.to}/{table}"

    def _conflicts(self, table: str) -> AbstractContextManager[None]:
        return conflicts(
            f"the table {table}", needed("deltalake.exceptions", EXTRA).CommitFailedError
        )


open_lake = DeltaLake

_LOST_DESCRIPTION = (
    "The description of the table {} was changed. An export notes its database there. The table's "
    "history has the earlier description: set it again."
)


def _app(source: str, part: str) -> str:
    return ".".join(filter(None, (APP, source, part)))


def _databases_of(table: Any) -> dict[str, str]:
    """Return the identity of the database by source; the source "" is the only one.

    Raises:
        LakeFailed: somebody else has changed the table's description.
    """
    try:
        described = json.loads(table.metadata().description or "{}")
    except ValueError:
        described = None
    if not isinstance(described, dict):
        raise LakeFailed(_LOST_DESCRIPTION.format(table.table_uri))
    if "database" in described:
        return {"": described["database"]}
    return dict(described.get("databases", {}))
