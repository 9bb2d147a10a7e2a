"""The formats of tables, and the few things that an export needs from each of them.

A format commits the rows of a batch and the position of its last row together. A reader sees both
or neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from pgqueue.arrow.errors import ExportConflict
from pgqueue.lake.errors import MissingPackage, UnknownFormat
from pgqueue.values.error_words import hint, shown

if TYPE_CHECKING:
    import pyarrow as pa

DAY = "day"
"""The column with the UTC day of a row, by which all tables are partitioned."""
PART_OF = {"history": "channel", "deadletters": "channel", "events": "topic"}
"""The columns by which tables are partitioned, too, if an export asks for it."""


Position: TypeAlias = Mapping[str, Any]
"""The offset of a table's last row, as a stream stores it in a checkpoint."""


class LakePlace(NamedTuple):
    """The place of a lake.

    Attributes:
        to: the folder of the data: an absolute path or a URL.
        catalog: the connection URL of the catalog; None: the default of the format.
        by_channel: new tables are partitioned by channel, and events by topic.
        storage: options of the object store, by the names that the format's writer knows.
    """

    to: str
    catalog: str | None = None
    by_channel: bool = False
    storage: Mapping[str, str] | None = None

    def partitions(self, table: str) -> list[str]:
        """Return the columns by which a table is partitioned."""
        more = PART_OF.get(table) if self.by_channel else None
        return [DAY, more] if more else [DAY]


class Lake(Protocol):
    """An open lake."""

    def create(self, table: str, schema: pa.Schema) -> None:
        """Create a table, or add the columns to it that it lacks."""

    def position(self, table: str) -> Position | None:
        """Return the position of a table's last row, as it was appended; None: it has none."""

    def append(
        self, table: str, rows: pa.Table, position: Position, *, after: Position | None
    ) -> None:
        """Append rows, and set the position, in one commit. There may be no rows.

        Args:
            after: the position that the table must have before; None: it must have none.

        Raises:
            ExportConflict: another export has appended rows meanwhile.
        """

    def replace(self, table: str, rows: pa.Table) -> None:
        """Replace all rows of a table in one commit."""

    def compact(self) -> None:
        """Merge small files."""

    def expire(self, older_than: timedelta) -> None:
        """Remove snapshots that are older, and the files that no other snapshot needs."""

    def close(self) -> None:
        """Close the lake."""


FORMATS = ("ducklake", "delta", "iceberg")


def opened(tables_format: str, place: LakePlace) -> Lake:
    """Open a lake.

    Args:
        tables_format: "ducklake", "delta" or "iceberg".

    Raises:
        CatalogUnreachable: the catalog does not open.
        MissingPackage: the extra of the format is not installed.
        UnknownFormat: there is no format of this name.
    """
    if tables_format not in FORMATS:
        raise UnknownFormat(
            f"There is no format {shown(tables_format)}. {hint(tables_format, FORMATS)}"
        )
    module = import_module(f"pgqueue.lake.{tables_format}")
    open_lake: Callable[[LakePlace], Lake] = module.open_lake
    return open_lake(place)


def check_after(table: str, found: Position | None, after: Position | None) -> None:
    """Check that a table has the position after which the next rows are appended.

    Raises:
        ExportConflict: it has another position.
    """
    if found != after:
        raise ExportConflict(
            f"Another export has appended rows to the table {table} meanwhile: {found} is not "
            f"{after}. This export has lost the lock of its target. Run it again."
        )


@contextmanager
def conflicts(table: str, *errors: type[Exception]) -> Iterator[None]:
    """Raise an error of a writer that another commit came first as an ExportConflict."""
    try:
        yield
    except errors as error:
        raise ExportConflict(
            f"Another export has changed the table {table} meanwhile: {error}. Run it again."
        ) from error


def needed(name: str, extra: str) -> Any:
    """Import a module of a package that comes with an extra.

    Raises:
        MissingPackage: the package is not installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingPackage(
            f"The format {extra} needs {name.partition('.')[0]}: pip install 'pgqueue[{extra}]'. "
            f"({error})"
        ) from error
