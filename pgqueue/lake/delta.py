"""Delta tables, one folder each, written by delta-rs.

The position of a table is in the transaction identifiers of its log (`txn` actions): a number for
each part of it. They are committed together with the rows, and stay when old commits are removed.
The table's description has the identity of the database.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pgqueue.lake.formats import LakePlace, Position, check_after, conflicts, needed

if TYPE_CHECKING:
    import pyarrow as pa

EXTRA = "delta"
APP = "pgqueue"
"""The beginning of the names of the transaction identifiers."""
PARTS = ("txid", "id", "position", "marker")


class DeltaLake:
    """A lake of the format Delta: see `formats.Lake`.

    Opens a folder of tables.

    Raises:
        MissingPackage: the extra is not installed.
    """

    def __init__(self, place: LakePlace) -> None:
        self._place = place
        self._delta = needed("deltalake", EXTRA)
        self._storage = dict(place.storage or {}) or None
        self._tables: list[str] = []

    def create(self, table: str, schema: pa.Schema) -> None:
        """Create a table; `append` adds the columns to it that it lacks."""
        self._tables.append(table)
        self._delta.DeltaTable.create(
            self._uri(table),
            schema=schema,
            mode="ignore",
            partition_by=self._place.partitions(table),
            name=table,
            storage_options=self._storage,
        )

    def position(self, table: str) -> Position | None:
        """Return the position of a table's last row, as it was appended; None: it has none."""
        return self._position_of(self._open(table))

    def _position_of(self, opened: Any) -> Position | None:
        database = _database_of(opened)
        if database is None:
            return None
        found = {part: opened.transaction_version(_app(part)) for part in PARTS}
        known = {part: number for part, number in found.items() if number is not None}
        return {"database": database, "marker": None, **known} if known else None

    def append(
        self, table: str, rows: pa.Table, position: Position, *, after: Position | None
    ) -> None:
        """Append rows, and set the position, in one commit: see `formats.Lake`."""
        opened = self._open(table)
        if _database_of(opened) is None:
            # A table with rows has a description, also if the export is killed here.
            opened.alter.set_table_description(json.dumps({"database": position["database"]}))
        check_after(table, self._position_of(opened), after)
        # delta-rs refuses a commit if another one has set a transaction identifier meanwhile.
        conflict = needed("deltalake.exceptions", EXTRA).CommitFailedError
        with conflicts(table, conflict):
            self._write(
                opened,
                rows,
                mode="append",
                commit_properties=self._delta.CommitProperties(
                    custom_metadata={"pgqueue": dict(position)},
                    app_transactions=[
                        self._delta.Transaction(_app(part), position[part])
                        for part in PARTS
                        if position.get(part) is not None
                    ],
                ),
            )

    def replace(self, table: str, rows: pa.Table) -> None:
        """Replace all rows of a table in one commit."""
        self._write(self._open(table), rows, mode="overwrite")

    def _write(self, opened: Any, rows: pa.Table, **given: Any) -> None:
        self._delta.write_deltalake(
            opened, rows, schema_mode="merge", storage_options=self._storage, **given
        )

    def compact(self) -> None:
        """Merge small files."""
        for table in self._tables:
            self._open(table).optimize.compact()

    def expire(self, older_than: timedelta) -> None:
        """Remove files that no version of this age or younger needs, and old commits."""
        for table in self._tables:
            opened = self._open(table)
            opened.vacuum(
                retention_hours=int(older_than.total_seconds() // 3600),
                dry_run=False,
                enforce_retention_duration=False,
            )
            opened.create_checkpoint()
            opened.cleanup_metadata()

    def close(self) -> None:
        """Close the lake: each method has opened and closed its table."""

    def _open(self, table: str) -> Any:
        return self._delta.DeltaTable(self._uri(table), storage_options=self._storage)

    def _uri(self, table: str) -> str:
        return f"{self._place.to}/{table}"


open_lake = DeltaLake


def _app(part: str) -> str:
    return f"{APP}.{part}"


def _database_of(table: Any) -> str | None:
    description = table.metadata().description
    return str(json.loads(description)["database"]) if description else None
