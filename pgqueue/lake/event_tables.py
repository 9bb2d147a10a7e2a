"""Tables of typed events: one for each topic, with a column for each field of its class.

The caller describes a class by an `EventTable`, or has `event_table` describe it. An event goes
into the table of its topic, whatever its payload is. The column `payload` is empty if the columns
of the fields have all of the payload; else it has the whole payload as JSON. So no event is lost,
and none stops an export.

All versions of a class are in one table. A column stays when its field is gone. A field whose type
has changed gets a second column, with the name of the new type at its end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from json import JSONEncoder
from types import NoneType
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from pgqueue.arrow.errors import InvalidOption
from pgqueue.arrow.tables import TABLES
from pgqueue.codec.arguments import UNREADABLE
from pgqueue.codec.encoding import ExactHint
from pgqueue.codec.hints import classes_in, hints_of
from pgqueue.codec.json_text import from_json
from pgqueue.codec.scalars import as_number
from pgqueue.lake.formats import DAY, SOURCE

if TYPE_CHECKING:
    from pgqueue.events.typed import Event

PREFIX = "events_"
PAYLOAD = "payload"
VERSION = "version"
TAKEN = ("position", "topic", "key", "created_at")
"""The columns that come from the table of all events."""
DIGITS = pa.decimal128(38, 18)
TYPES: Mapping[type | None, pa.DataType] = {
    int: pa.int64(),
    float: pa.float64(),
    Decimal: DIGITS,
    str: pa.string(),
    bool: pa.bool_(),
    datetime: pa.timestamp("us", "UTC"),
    date: pa.date32(),
    UUID: pa.string(),
    None: pa.string(),
}
"""The types of columns by the classes of values; None: JSON text."""
AS: Mapping[type, type] = {
    **{each: each for each in TYPES if each is not None},
    bytes: str,
    time: str,
    timedelta: Decimal,
}
"""The class of a column's values by the class in a type hint, in the form that JSON has."""
WORDS: Sequence[tuple[Callable[[pa.DataType], bool], str]] = (
    (pa.types.is_integer, "int"),
    (pa.types.is_floating, "float"),
    (pa.types.is_decimal, "decimal"),
    (pa.types.is_boolean, "bool"),
    (pa.types.is_timestamp, "time"),
    (pa.types.is_date, "date"),
)


class EventField(NamedTuple):
    """A field of an event class.

    Attributes:
        name: its name in payloads.
        of: the class of its values: a key of `TYPES`. None: the column has JSON.
        is_optional: whether None is a value.
        has_default: whether payloads may lack it. Its column is then empty.
    """

    name: str
    of: type | None
    is_optional: bool = False
    has_default: bool = False


class EventTable(NamedTuple):
    """The table of the typed events of a topic."""

    topic: str
    fields: tuple[EventField, ...]

    @property
    def name(self) -> str:
        """The name of the table: `events_order_paid` for the topic order.paid."""
        return PREFIX + re.sub(r"[^a-z0-9]", "_", self.topic.lower())


def event_table(cls: type[Event]) -> EventTable:
    """Return the table of an event class, such as `OrderPaid`.

    Raises:
        InvalidOption: the class has no topic.
    """
    if not cls.topic:
        raise InvalidOption(f"{cls.__name__} has no topic: class {cls.__name__}(Event, topic=…).")
    hints = hints_of(cls)
    found: Any = cls
    return EventTable(
        cls.topic,
        tuple(
            _field(
                each.name,
                hints.get(each.name, Any),
                has_default=(each.default, each.default_factory) != (MISSING, MISSING),
            )
            for each in fields(found)
        ),
    )


def _field(name: str, hint: Any, *, has_default: bool) -> EventField:
    classes = {each for each, _ in classes_in(hint)}
    known = {_as(each) for each in classes - {NoneType}}
    if known <= {int, float, Decimal} and len(known) > 1:
        known = {Decimal if Decimal in known else float}
    [of] = known if len(known) == 1 else [None]
    return EventField(name, of, NoneType in classes or of is None, has_default)


def _as(cls: type) -> type | None:
    if not issubclass(cls, Enum):
        return AS.get(cls)
    kinds = {type(each.value) for each in cls}
    if kinds in ({str}, {int}):
        return kinds.pop()
    return None if kinds == {str, int} else str


def check_names(tables: Sequence[EventTable]) -> None:
    """Check that no two topics have one table.

    Raises:
        InvalidOption: two topics have.
    """
    topics: dict[str, str] = {}
    for each in tables:
        other = topics.setdefault(each.name, each.topic)
        if other != each.topic:
            raise InvalidOption(
                f"The topics {other} and {each.topic} have one table, {each.name}: export one of "
                "them."
            )


def columns_of(table: EventTable, known: pa.Schema | None) -> dict[str, EventField]:
    """Return the fields by the names of their columns.

    A field gets another name if an event has a column of its name, or if the table has it with
    another type. A column that the table has keeps its spelling: DuckLake tells no column from
    another one by its case.

    Args:
        known: the columns that the table has; None: there is no table.
    """
    others = {each.name.lower(): _word(each.type) for each in known or ()}
    spelled = {each.name.lower(): each.name for each in known or ()}
    taken = {*TAKEN, VERSION, PAYLOAD, DAY, SOURCE}
    found = {}
    for field in table.fields:
        word = _word(TYPES[field.of])
        name = next(
            each
            for each in _names(field.name, word)
            if each.lower() not in taken and others.get(each.lower(), word) == word
        )
        taken.add(name.lower())
        found[spelled.get(name.lower(), name)] = field
    return found


def _names(name: str, word: str) -> Iterator[str]:
    yield name
    yield f"{name}_{word}"
    while True:
        name += "_"
        yield name


def _word(type: pa.DataType) -> str:
    return next((word for has, word in WORDS if has(type)), "text")


def schema_of(columns: Mapping[str, EventField]) -> pa.Schema:
    """Return the schema of a table, without the columns that each table has."""
    events = [(each, TABLES["events"].column(each).type.arrow) for each in TAKEN]
    own = [(name, TYPES[field.of]) for name, field in columns.items()]
    return pa.schema([*events, (VERSION, pa.int64()), (PAYLOAD, pa.string()), *own])


def rows_of(topic: str, columns: Mapping[str, EventField], events: pa.Table) -> pa.Table:
    """Return the rows of a table for the events of its topic.

    Args:
        events: rows of the table of all events.
    """
    chosen = events.filter(pc.equal(events["topic"], topic))
    read = {name: _reader(field) for name, field in columns.items()}
    given: dict[str, list[Any]] = {name: [] for name in (VERSION, PAYLOAD, *columns)}
    for payload, metadata in zip(
        chosen[PAYLOAD].to_pylist(), chosen["metadata"].to_pylist(), strict=True
    ):
        given[VERSION].append(_version(metadata))
        values = _values(payload, columns, read)
        given[PAYLOAD].append(None if values.has_all else payload)
        for name in columns:
            given[name].append(values.by_column.get(name))
    schema = schema_of(columns)
    arrays = [
        *(chosen[name].combine_chunks() for name in TAKEN),
        *(pa.array(values, schema.field(name).type) for name, values in given.items()),
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


class _Values(NamedTuple):
    """The values of a payload by column, and whether they are all of the payload."""

    by_column: dict[str, Any]
    has_all: bool


def _values(
    payload: str | None,
    columns: Mapping[str, EventField],
    read: Mapping[str, Callable[[Any], Any]],
) -> _Values:
    try:
        plain = from_json(payload or "")
    except UNREADABLE:
        plain = None
    if not isinstance(plain, dict):
        return _Values({}, has_all=False)
    has_all = plain.keys() <= {field.name for field in columns.values()}
    found = {}
    for name, field in columns.items():
        if field.name not in plain:
            has_all = has_all and field.has_default
            continue
        try:
            found[name] = read[name](plain[field.name])
        except UNREADABLE:
            has_all = False
    return _Values(found, has_all)


def _version(metadata: str | None) -> int | None:
    try:
        found = from_json(metadata or "{}").get(VERSION, 1)
        return _in_range(found) if type(found) is int else None
    except (*UNREADABLE, AttributeError):
        return None


def _reader(field: EventField) -> Callable[[Any], Any]:
    """Return a function from the plain JSON of a field to the value of its column.

    The function raises one of `UNREADABLE` if the JSON means no value of the column.
    """
    if field.of is None:
        return _as_text
    hint = ExactHint(field.of | None if field.is_optional else field.of)
    return partial(_read, hint, field.of)


def _read(hint: ExactHint, of: type, plain: Any) -> Any:
    value = hint.read(plain)
    if value is None:
        return None
    if type(value) is not of:
        raise TypeError(f"it is no {of.__name__}")
    adapt = _ADAPT.get(of)
    return adapt(value) if adapt else value


def _in_range(value: int) -> int:
    if not -(2**63) <= value < 2**63:
        raise OverflowError("it has more than 64 bits")
    return value


def _exact(value: Decimal) -> Decimal:
    pa.scalar(value, DIGITS)  # raises an ArrowInvalid, which is a ValueError
    return value


def _in_utc(value: datetime) -> datetime:
    """Return a time in UTC; without a zone it is in UTC."""
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


_ADAPT: Mapping[type, Callable[[Any], Any]] = {
    int: _in_range,
    Decimal: _exact,
    datetime: _in_utc,
    UUID: str,
}


def _as_float(value: Any) -> float:
    """Return a Decimal of parsed JSON as a float that is written with its digits."""
    number = as_number(value)
    if not isinstance(number, float):
        raise TypeError(f"{value!r:.99} is no float")
    return number


_json = JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_as_float).encode


def _as_text(plain: Any) -> str | None:
    """Return parsed JSON as text; None for null."""
    return None if plain is None else _json(plain)
