"""Read rows of which Python can't hold a value, such as the time `infinity`.

The constraints of our tables refuse these values. A row may be older than the constraints, or be
stored without them. It must not take the other rows of its statement with it, so each value is
replaced by the nearest one that Python holds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import Any

import psycopg
from psycopg.adapt import Transformer
from psycopg.pq import Format

from pgqueue.values.escaping import logger_of

logger = logger_of(__name__)

EARLIEST = datetime(1, 1, 3, tzinfo=UTC)
LATEST = datetime(9999, 12, 29, tzinfo=UTC)
"""The bounds of all times in our tables: datetime's, with two days to spare, so that each has a
local time in every time zone."""
LONGEST = timedelta(days=36525 * 100)
TOO_MUCH = (psycopg.DataError, ValueError, OverflowError, RecursionError)
"""What loaders raise where a value is beyond Python's types."""

NEAREST: Mapping[str, tuple[Any, Any]] = {
    "timestamptz": (EARLIEST, LATEST),
    "timestamp": (EARLIEST.replace(tzinfo=None), LATEST.replace(tzinfo=None)),
    "date": (date(1, 1, 3), date(9999, 12, 29)),
    "interval": (-LONGEST, LONGEST),
}


class Readable:
    """A cursor of psycopg's that reads every row.

    Attributes:
        unreadable: the rows of the last result that have had a value which Python can't hold, by
            their numbers; of each, these values by the names of their columns.
    """

    unreadable: Mapping[int, Mapping[str, str]] = {}
    _rest: deque[Any] | None = None

    def execute(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Forget the result before."""
        self.unreadable, self._rest = {}, None
        return super().execute(*args, **kwargs)  # type: ignore[misc]

    def fetchall(self: Any) -> Any:
        """Return the remaining rows."""
        if self._rest is None:
            try:
                return super().fetchall()  # type: ignore[misc]
            except TOO_MUCH:
                self._salvage()
        rows, self._rest = list(self._rest), deque()
        return rows

    def fetchmany(self: Any, size: int = 0) -> Any:
        """Return the next rows."""
        if self._rest is None:
            try:
                return super().fetchmany(size)  # type: ignore[misc]
            except TOO_MUCH:
                self._salvage()
        return [self._rest.popleft() for _ in range(min(size or self.arraysize, len(self._rest)))]

    def fetchone(self: Any) -> Any:
        """Return the next row."""
        if self._rest is None:
            try:
                return super().fetchone()  # type: ignore[misc]
            except TOO_MUCH:
                self._salvage()
        return self._rest.popleft() if self._rest else None

    def __iter__(self: Any) -> Any:
        return self

    def __next__(self: Any) -> Any:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    def _salvage(self: Any) -> None:
        """Read the remaining rows value by value."""
        if self.rownumber is None:
            raise
        reader: Any = Transformer(self)
        rest: deque[Any] = deque()
        make = self.row_factory(self)
        for number in range(self.rownumber, self.pgresult.ntuples):
            values, unreadable = self._salvaged(reader, number)
            if unreadable:
                self.unreadable = {**self.unreadable, number: unreadable}
                # The first column is an id, in most statements; others may be what nobody may see.
                first = values[0] if isinstance(values[0], int) else "?"
                logger.warning("The row %s has values that can't be read: %s", first, unreadable)
            rest.append(make(values))
        self._rest = rest

    def _salvaged(self: Any, reader: Any, number: int) -> tuple[list[Any], dict[str, str]]:
        """Return the values of a row, and the texts of those that Python can't hold."""
        values: list[Any] = []
        unreadable = {}
        for place, column in enumerate(self.description):
            data = self.pgresult.get_value(number, place)
            form = Format(self.pgresult.fformat(place))
            try:
                loader = reader.get_loader(column.type_code, form)
                values.append(None if data is None else loader.load(data))
            except TOO_MUCH:
                known = self.adapters.types.get(column.type_code)
                kind = known.name if known else ""
                values.append(_nearest(kind, bytes(data), form))
                unreadable[column.name] = _text(bytes(data), form) if kind in NEAREST else "no text"
        return values, unreadable


def _nearest(kind: str, data: bytes, form: Format) -> Any:
    """Return the value that stands in for one which Python can't hold."""
    if kind not in NEAREST:
        return data.decode("utf-8", "replace")
    if form is Format.BINARY:
        # The first bit of the number is its sign; an interval has its days behind the microseconds.
        is_early = data[8 if kind == "interval" else 0] >= 0x80
    else:
        is_early = data.startswith(b"-") or data.endswith(b" BC")
    return NEAREST[kind][0 if is_early else 1]


def _text(data: bytes, form: Format) -> str:
    return data.hex() if form is Format.BINARY else data.decode("utf-8", "replace")


@cache
def _readable(factory: type[Any]) -> type[Any]:
    return factory if issubclass(factory, Readable) else type("Readable", (Readable, factory), {})


ReadableCursor: type[psycopg.Cursor[Any]] = _readable(psycopg.Cursor)
"""The cursors of our own connections."""


@contextmanager
def reading(connection: Any) -> Iterator[None]:
    """Have cursors that are made in this block read every row; others are left as they were.

    Args:
        connection: of psycopg, or Django's, which is opened.
    """
    if hasattr(connection, "ensure_connection"):
        connection.ensure_connection()
        connection = connection.connection
    # A producer's own connection (`Tuples`) has none: it is read as the producer reads it.
    factory = getattr(connection, "cursor_factory", None)
    if factory is None or issubclass(factory, Readable):
        yield
        return
    connection.cursor_factory = _readable(factory)
    try:
        yield
    finally:
        connection.cursor_factory = factory


def read_as_iso(connection: psycopg.Connection[Any]) -> None:
    """Have the server write times and intervals as psycopg reads them, whatever a role's settings.

    The server reports both settings, so nothing is sent where they are right. The order of day and
    month in what the server reads stays as it was.
    """
    report = connection.pgconn.parameter_status
    if not (report(b"DateStyle") or b"ISO").startswith(b"ISO"):
        connection.execute("SET DateStyle = 'ISO'")
    if (report(b"IntervalStyle") or b"postgres") != b"postgres":
        connection.execute("SET IntervalStyle = 'postgres'")
