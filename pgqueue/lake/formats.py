"""The formats of tables, and the few things that an export needs from each of them.

A format commits the rows of a batch and the position of its last row together. A reader sees both
or neither.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import timedelta
from functools import wraps
from importlib import import_module
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import pyarrow as pa

from pgqueue.arrow.errors import ExportConflict, InvalidOption, PipelineError
from pgqueue.arrow.extensions import on_one_line
from pgqueue.lake.errors import CommitConflict, LakeFailed, OtherSource, UnknownFormat
from pgqueue.values.error_words import hint, shown
from pgqueue.values.names import SCHEME

T = TypeVar("T")
L = TypeVar("L", bound="Lake")

DAY = "day"
"""The column with the UTC day of a row, by which all tables are partitioned."""
SOURCE = "source"
"""The column with the source of a row, in a lake of several sources."""
TRIES = 20
"""How often a commit is tried, if other commits come first."""
ANOTHER_LAKE = "export to another folder, with another --catalog if the lake has one"
LONGEST_PAUSE = 1.0
"""Seconds between these tries."""
ANY_WORDS = re.compile("")
PART_OF = {"history": "channel", "deadletters": "channel", "events": "topic"}
"""The columns by which tables are partitioned, too, if an export asks for it."""


Condition: TypeAlias = tuple[str, str, Any]
"""A column, one of the relations "=", ">=" and "<=", and a text or a date."""
Position: TypeAlias = Mapping[str, Any]
"""The offset of a table's last row, as a stream stores it in a checkpoint."""


class LakePlace(NamedTuple):
    """The place of a lake.

    Attributes:
        to: the folder of the data: an absolute path or a URL.
        catalog: The connection URL of the catalog; None: the default of the format.
        by_channel: New tables are partitioned by channel, and events by topic.
        storage: Options of the object store, by the names that the format's writer knows.
        source: The name of the database in a lake of several databases; "": it is the only one.
        is_read_only: No catalog is made in a database where there is none.
    """

    to: str
    catalog: str | None = None
    by_channel: bool = False
    storage: Mapping[str, str] | None = None
    source: str = ""
    is_read_only: bool = False

    def partitions(self, table: str) -> list[str]:
        """Return the columns by which a table is partitioned."""
        more = PART_OF.get(table) if self.by_channel else None
        return [DAY, more] if more else [DAY]


class Lake(Protocol):
    """An open lake, as one source writes to it.

    Each verb that commits raises `CommitConflict` if another commit came first. Each verb raises
    `LakeFailed` if the writer of the format, or the place of the lake, fails.
    """

    def columns(self, table: str) -> pa.Schema | None:
        """Return the columns of a table; None: there is no table."""

    def create(self, table: str, schema: pa.Schema) -> None:
        """Create a table, or add the columns to it that it lacks."""

    def position(self, table: str) -> Position | None:
        """Return the position of the source's last row in a table; None: it has none."""

    def databases(self, table: str) -> Mapping[str, str]:
        """Return the identity of the database of each source that has a position in a table."""

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
        """Replace all rows of the source in a table in one commit."""

    def read(
        self, table: str, names: Sequence[str], conditions: Sequence[Condition]
    ) -> pa.RecordBatchReader:
        """Return columns of the rows that meet all conditions.

        The reader reads the files later: read from it within `failures()`.
        """

    def compact(self) -> None:
        """Merge small files."""

    def expire(self, older_than: timedelta) -> None:
        """Remove snapshots that are older, and the files that no other snapshot needs."""

    def failures(self) -> AbstractContextManager[None]:
        """Return a context that raises other errors of the writer, and of files, as LakeFailed."""

    def close(self) -> None:
        """Close the lake."""


VERBS = (
    "columns",
    "create",
    "position",
    "databases",
    "append",
    "replace",
    "read",
    "compact",
    "expire",
)


def naming_failures(cls: type[L]) -> type[L]:
    """Have each verb of a lake raise other errors of the writer, and of files, as LakeFailed."""
    for name in VERBS:
        setattr(cls, name, _naming_failures(getattr(cls, name)))
    return cls


def _naming_failures(verb: Callable[..., T]) -> Callable[..., T]:
    @wraps(verb)
    def within(lake: Lake, *given: Any, **named: Any) -> T:
        with lake.failures():
            return verb(lake, *given, **named)

    return within


FORMATS = ("ducklake", "delta", "iceberg")


def opened(tables_format: str, place: LakePlace) -> Lake:
    """Open a lake.

    Args:
        tables_format: "ducklake", "delta" or "iceberg".

    Raises:
        CatalogUnreachable: the catalog does not open, or is of another lake.
        InvalidOption: the writer of the format refuses the name of the folder, or the catalog is no
            URL.
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


def as_sql(conditions: Sequence[Condition]) -> str:
    """Return conditions as SQL, of which PyIceberg knows as much; the values have no quotes."""
    return " AND ".join(f"{name} {relation} '{value}'" for name, relation, value in conditions)


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


def check_source(table: str, known: pa.Schema, source: str) -> None:
    """Check that a table has the column `source` if, and only if, the export has a source.

    Raises:
        OtherSource: it is otherwise.
    """
    if (SOURCE in known.names) == bool(source):
        return
    if source:
        raise OtherSource(
            f"The table {table} was begun without a source, so its rows are of one database: leave "
            f"out the source {source!r}, or {ANOTHER_LAKE}."
        )
    raise OtherSource(
        f"The table {table} has rows of several databases: name this one by a source "
        f"(--source NAME), or {ANOTHER_LAKE}."
    )


@contextmanager
def conflicts(
    what: str, *errors: type[Exception], words: re.Pattern[str] = ANY_WORDS
) -> Iterator[None]:
    """Raise an error of a writer that another commit came first as a CommitConflict.

    Args:
        what: the part of the lake that the other commit has changed.
        errors: the errors of the writer.
        words: A pattern that these errors match. An error that does not match is raised as it is.
    """
    try:
        yield
    except errors as error:
        if not words.search(str(error)):
            raise
        raise CommitConflict(
            f"Another export has changed {what} meanwhile: {on_one_line(error)}. Run it again."
        ) from error


@contextmanager
def failures(to: str, *errors: type[Exception], secret: str = "") -> Iterator[None]:
    """Raise an error of a writer, of Arrow or of files as a LakeFailed.

    Args:
        to: the folder of the lake.
        errors: the errors of the writer.
        secret: a text that the error does not show, such as the URL of the catalog.
    """
    try:
        yield
    except PipelineError:
        raise
    except (OSError, pa.ArrowException, *errors) as error:
        said = on_one_line(error, secret) or type(error).__name__
        raise LakeFailed(
            f"The lake {to} has failed: {said.rstrip('.')}. Run this again when the cause is "
            "mended: no row is lost or doubled."
        ) from (None if secret else error)


def retried(commit: Callable[[], T]) -> T:
    """Return the value of a commit; repeat the commit if another one comes first.

    An export of another source may commit at any moment. A commit that is repeated checks the
    position again, so that no row is appended twice.

    Raises:
        CommitConflict: other commits came first each time.
    """
    for _ in range(TRIES - 1):
        with suppress(CommitConflict):
            return commit()
        # The pause is random, so that two exports do not meet again.
        time.sleep(random.uniform(0, LONGEST_PAUSE))  # noqa: S311
    return commit()


def check_folder(to: str, refused: str, package: str) -> None:
    """Check that the writer of a format writes to a folder of this machine as it is named.

    Args:
        refused: the characters that the writer reads in another way.
        package: the package of the writer.

    Raises:
        InvalidOption: the path has such a character.
    """
    found = next((each for each in to if each in refused), None)
    if found and not SCHEME.match(to):
        raise InvalidOption(
            f"to={to!r}: {package} writes to no folder with {found!r} in its path. Name another "
            "folder."
        )
