"""The options of reads, checked before the first query."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from pgqueue.arrow.errors import InvalidOption
from pgqueue.arrow.tables import TABLES, Column, Table
from pgqueue.arrow.urls import DEFAULT
from pgqueue.engine.values import Position
from pgqueue.exceptions import InvalidFilter
from pgqueue.options.filters import Filter as EventFilter
from pgqueue.redaction import Redaction
from pgqueue.values.error_words import hint, shown

MOST_PARTITIONS = 64
"""The most partitions; each needs one or two connections to PostgreSQL while it is read."""
FILTERS = ("channel", "task", "key", "state", "outcome", "topic")
OF_EVERY_READ = ("url", "table", "columns", "redact", *FILTERS)
OF_BATCHES = ("since", "until", "after", "before", "numPartitions")
OF_STREAMS = (
    *("startingOffsets", "startingTimestamp", "maxOffsetsPerTrigger", "minPartitions"),
    "failOnDataLoss",
)
NAMES = {name.lower(): name for name in (*OF_EVERY_READ, *OF_BATCHES, *OF_STREAMS)}
EARLIEST, LATEST = "earliest", "latest"


class Filter(NamedTuple):
    """A column and its permitted values; or a pattern, if it is not empty."""

    column: str
    values: list[str]
    pattern: str = ""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The part of a table to read.

    Attributes:
        url: see `urls.resolve`.
        name: the name of the table.
        columns: the columns to read, in this order.
        since: The earliest time of a row (see `Table.time`).
        until: The time before which a row's time must be.
        redact: The redaction, as `Redaction.to_json` writes it; "": none.
    """

    url: str
    name: str
    columns: tuple[Column, ...]
    filters: tuple[Filter, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    redact: str = ""

    @property
    def table(self) -> Table:
        """The table that is read."""
        return TABLES[self.name]


@dataclass(frozen=True, kw_only=True)
class ReadOptions(Selection):
    """The options of a single read.

    Attributes:
        partitions: the number of partitions; None: by size.
        after: the position after which events are read.
        before: the position before which events are read; None: up to the last one.
    """

    partitions: int | None = None
    after: int | None = None
    before: int | None = None


@dataclass(frozen=True, kw_only=True)
class StreamOptions(Selection):
    """The options of a stream.

    Attributes:
        start: The beginning of a new query: `EARLIEST`, `LATEST`, a position or a time. A position
            of the log is a number. The query reads the rows after the position, or from the time.
        limit: The most rows of a batch.
        partitions: The number of partitions of a batch.
        fails_on_loss: Whether the query fails if retention has removed rows that it has not read.
    """

    start: str | int | Position | datetime = LATEST
    limit: int | None = None
    partitions: int = 1
    fails_on_loss: bool = True


def selection(given: Mapping[str, str]) -> Selection:
    """Return the selection that the options of any read give.

    Raises:
        InvalidOption: a name is unknown, or a value is invalid.
    """
    options = _named(given)
    if "table" not in options:
        raise InvalidOption(
            f"The data source needs the option table. There are {', '.join(TABLES)}."
        )
    name = options["table"]
    if name not in TABLES:
        raise InvalidOption(f"The data source has no table {shown(name)}. {hint(name, TABLES)}")
    since, until = (_time(each, options) for each in ("since", "until"))
    if since and until and since >= until:
        raise InvalidOption(f"The option since ({since}) must be before until ({until}).")
    return Selection(
        url=options.get("url", DEFAULT),
        name=name,
        columns=_columns(name, TABLES[name], options),
        filters=tuple(_filters(name, TABLES[name], options)),
        since=since,
        until=until,
        redact=_redaction(options.get("redact", "false")),
    )


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """Return the checked options of `spark.read.format("pgqueue")`.

    Raises:
        InvalidOption: a name is unknown, or a value is invalid.
    """
    options = _named(given, without=OF_STREAMS, why="is an option of readStream, not of read")
    selected = selection(given)
    for name in ("after", "before"):
        if name in options and not selected.table.is_log:
            raise _not_selected(selected.name, name)
    after, before = (_position(name, options) for name in ("after", "before"))
    if after is not None and before is not None and after >= before:
        raise InvalidOption(f"The option after ({after}) must be less than before ({before}).")
    return ReadOptions(
        **vars(selected),
        partitions=_count("numPartitions", options, MOST_PARTITIONS),
        after=after,
        before=before,
    )


def stream_options(given: Mapping[str, str]) -> StreamOptions:
    """Return the checked options of `spark.readStream.format("pgqueue")`.

    Raises:
        InvalidOption: a name is unknown, or a value is invalid.
    """
    options = _named(given, without=OF_BATCHES, why="is an option of read, not of readStream")
    selected = selection(given)
    if not selected.table.is_frozen:
        followed = ", ".join(name for name, table in TABLES.items() if table.is_frozen)
        raise InvalidOption(
            f"The table {selected.name} changes in place, so no stream can follow it. "
            f"There is {followed}."
        )
    return StreamOptions(
        **vars(selected),
        start=_start(options, selected.table),
        limit=_count("maxOffsetsPerTrigger", options, 2**31 - 1),
        partitions=_count("minPartitions", options, MOST_PARTITIONS) or 1,
        fails_on_loss=_flag("failOnDataLoss", options),
    )


def _named(
    given: Mapping[str, str], *, without: Collection[str] = (), why: str = ""
) -> dict[str, str]:
    """Return the options by their documented names: Spark passes the names in lower case."""
    options = {}
    for name, value in given.items():
        if name.lower() not in NAMES:
            known = hint(name, NAMES.values())
            raise InvalidOption(f"The data source has no option {shown(name)}. {known}")
        options[NAMES[name.lower()]] = value
    for name in options:
        if name in without:
            raise InvalidOption(f"{name} {why}.")
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
    for column in FILTERS:
        if column not in options:
            continue
        if column not in table.filters:
            raise _not_selected(name, column)
        values = _values(column, options[column])
        filters.append(_topics(values) if column == "topic" else Filter(column, values))
    return filters


def _redaction(given: str) -> str:
    if given.lower() == "false":
        return ""
    try:
        found = Redaction() if given.lower() == "true" else Redaction.from_json(given)
    except (TypeError, ValueError) as error:
        raise InvalidOption(
            f"The option redact is {shown(given)}; it must be true, false or a JSON list of "
            f"names: {error}"
        ) from None
    return found.to_json()


def _not_selected(table: str, option: str) -> InvalidOption:
    return InvalidOption(f"The table {table} takes no option {option}.")


def _topics(patterns: Sequence[str]) -> Filter:
    try:
        given = EventFilter(tuple(patterns)).parameters
    except InvalidFilter as error:
        raise InvalidOption(f"The option topic: {error}") from None
    return Filter("topic", given["filter_topics"], given["filter_regex"])


def _values(name: str, given: str) -> list[str]:
    """Return the texts of an option: its value, or the items of a JSON list."""
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
        # A time without a zone is in UTC, like the days of history.
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        text = shown(options[name])
        raise InvalidOption(
            f"The option {name} is {text}; it must be a time such as 2026-11-24T08:30:00Z."
        ) from None


def _start(options: Mapping[str, str], table: Table) -> str | int | Position | datetime:
    """Return the beginning of a new query."""
    if "startingOffsets" in options and "startingTimestamp" in options:
        raise InvalidOption("Give startingOffsets or startingTimestamp, not both.")
    if time := _time("startingTimestamp", options):
        return time
    given = options.get("startingOffsets", LATEST)
    if given in (EARLIEST, LATEST):
        return given
    names = ("position",) if table.is_log else Position._fields
    try:
        found = json.loads(given)
        numbers = [found[name] for name in names]
    except (ValueError, TypeError, KeyError):
        numbers = [None]
    if not all(type(each) is int and 0 <= each < 2**63 for each in numbers):
        raise InvalidOption(
            f"The option startingOffsets is {shown(given)}; it must be {EARLIEST}, {LATEST} or "
            f"{json.dumps(dict.fromkeys(names, 0))}, the last position that was read."
        )
    return int(numbers[0]) if table.is_log else Position(*numbers)


def _position(name: str, options: Mapping[str, str]) -> int | None:
    if name not in options:
        return None
    text = options[name]
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise InvalidOption(
            f"The option {name} is {shown(text)}; it must be a position: a whole number from 0 up."
        )
    return int(text)


def _flag(name: str, options: Mapping[str, str]) -> bool:
    text = options.get(name, "true").lower()
    if text not in ("true", "false"):
        raise InvalidOption(f"The option {name} is {shown(text)}; it must be true or false.")
    return text == "true"


def _count(name: str, options: Mapping[str, str], most: int) -> int | None:
    if name not in options:
        return None
    text = options[name]
    count = int(text) if text.isascii() and text.isdigit() and len(text) < 11 else 0
    if not 1 <= count <= most:
        raise InvalidOption(
            f"The option {name} is {shown(text)}; it must be a whole number from 1 to {most}."
        )
    return count
