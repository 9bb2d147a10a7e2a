"""The options of a batch read, checked before anything is asked of the database."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from pgqueue.spark.errors import InvalidOption
from pgqueue.spark.tables import TABLES, Column, Table
from pgqueue.spark.urls import DEFAULT
from pgqueue.spelling import hint, shown

MOST_PARTITIONS = 64
"""Each is a connection to PostgreSQL while it is read."""
NAMES = {
    name.lower(): name
    for name in (
        *("url", "table", "columns", "since", "until", "numPartitions"),
        *("channel", "task", "key", "state", "outcome"),
    )
}


class Filter(NamedTuple):
    """A column and the values that it may have."""

    column: str
    values: list[str]


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """What to read.

    Attributes:
        url: see `urls.resolve`.
        name: of the table.
        columns: those that are read, in this order.
        since: select what has its time (see `Table.time`) at or after this.
        until: select what has its time before this.
        partitions: how many; None: by size.
    """

    url: str
    name: str
    columns: tuple[Column, ...]
    filters: tuple[Filter, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    partitions: int | None = None

    @property
    def table(self) -> Table:
        """The table that is read."""
        return TABLES[self.name]


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """Turn the options of `spark.read.format("pgqueue")` into what to read.

    Raises:
        InvalidOption: a name is unknown, or a value can't be.
    """
    options = _named(given)
    if "table" not in options:
        raise InvalidOption(
            f"The data source needs the option table. There are {', '.join(TABLES)}."
        )
    name = options["table"]
    if name not in TABLES:
        raise InvalidOption(f"The data source has no table {shown(name)}. {hint(name, TABLES)}")
    table = TABLES[name]
    since, until = (_time(each, options) for each in ("since", "until"))
    if since and until and since >= until:
        raise InvalidOption(f"The option since ({since}) must be before until ({until}).")
    return ReadOptions(
        url=options.get("url", DEFAULT),
        name=name,
        columns=_columns(name, table, options),
        filters=tuple(_filters(name, table, options)),
        since=since,
        until=until,
        partitions=_count("numPartitions", options),
    )


def _named(given: Mapping[str, str]) -> dict[str, str]:
    """Return the options by their proper names: Spark compares them in lower case."""
    options = {}
    for name, value in given.items():
        if name.lower() not in NAMES:
            known = hint(name, NAMES.values())
            raise InvalidOption(f"The data source has no option {shown(name)}. {known}")
        options[NAMES[name.lower()]] = value
    return options


def _columns(name: str, table: Table, options: Mapping[str, str]) -> tuple[Column, ...]:
    if "columns" not in options:
        return table.columns
    names = [each.strip() for each in options["columns"].split(",")]
    for each in names:
        if each not in table.names:
            raise InvalidOption(
                f"The option columns: {name} has no column {shown(each)}. {hint(each, table.names)}"
            )
        if names.count(each) > 1:
            raise InvalidOption(f"The option columns names {each} twice.")
    return tuple(table.column(each) for each in names)


def _filters(name: str, table: Table, options: Mapping[str, str]) -> list[Filter]:
    filters = []
    for column in ("channel", "task", "key", "state", "outcome"):
        if column not in options:
            continue
        if column not in table.filters:
            raise InvalidOption(f"The table {name} can't be selected by the option {column}.")
        filters.append(Filter(column, _values(column, options[column])))
    return filters


def _values(name: str, given: str) -> list[str]:
    """Return the texts that an option gives: itself, or a JSON list of some."""
    values = [given]
    if given.startswith("["):
        try:
            values = json.loads(given)
        except ValueError as error:
            raise InvalidOption(f"The option {name} is no JSON list: {error}") from None
        if not all(isinstance(each, str) for each in values):
            raise InvalidOption(f"The option {name} must be a text, or a JSON list of texts.")
    for each in values:
        if "\x00" in each:
            raise InvalidOption(f"The option {name}: PostgreSQL has no character NUL.")
        try:
            each.encode()
        except ValueError as error:
            raise InvalidOption(f"The option {name}: {error}") from None
    return values


def _time(name: str, options: Mapping[str, str]) -> datetime | None:
    if name not in options:
        return None
    try:
        time = datetime.fromisoformat(options[name])
        # A time without a zone is one of UTC, as the days of history are.
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        text = shown(options[name])
        raise InvalidOption(
            f"The option {name} is {text}; it must be a time such as 2026-11-24T08:30:00Z."
        ) from None


def _count(name: str, options: Mapping[str, str]) -> int | None:
    if name not in options:
        return None
    text = options[name]
    count = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    if not 1 <= count <= MOST_PARTITIONS:
        raise InvalidOption(
            f"The option {name} is {shown(text)}; "
            f"it must be a whole number from 1 to {MOST_PARTITIONS}."
        )
    return count
