"""The columns that a DataFrame may have to become messages or events: names, types and bounds."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from typing import NamedTuple

from pyspark.sql import types as T

from pgqueue.codec.arguments import PAYLOAD_LIMIT
from pgqueue.options.filters import TOPIC_LIMIT, as_topic
from pgqueue.spark.errors import InvalidColumn
from pgqueue.values.error_words import hint
from pgqueue.values.names import (
    CHANNEL_LIMIT,
    KEY_LIMIT,
    PATH_LIMIT,
    as_path,
)
from pgqueue.values.number_checks import LARGEST

_INTEGERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)


class Kind(Enum):
    """The kind of a column's values; the text names the types of Spark that it takes."""

    TEXT = "string"
    NUMBER = "a whole number"
    TIME = "timestamp"
    FLAG = "boolean"
    BYTES = "binary"
    LIST = "an array, a VARIANT, or a string with JSON"
    OBJECT = "a struct, a map, a VARIANT, or a string with JSON"
    JSON = "a struct, a map, an array, a VARIANT, or a string with JSON"

    @property
    def types(self) -> tuple[type[T.DataType], ...]:
        """The types of Spark for this kind."""
        return _TYPES[self]


_TYPES: Mapping[Kind, tuple[type[T.DataType], ...]] = {
    Kind.TEXT: (T.StringType,),
    Kind.NUMBER: _INTEGERS,
    Kind.TIME: (T.TimestampType,),
    Kind.FLAG: (T.BooleanType,),
    Kind.BYTES: (T.BinaryType,),
    Kind.LIST: (T.StringType, T.VariantType, T.ArrayType),
    Kind.OBJECT: (T.StringType, T.VariantType, T.StructType, T.MapType),
    Kind.JSON: (T.StringType, T.VariantType, T.StructType, T.MapType, T.ArrayType),
}


class Written(NamedTuple):
    """A column of a written DataFrame.

    Attributes:
        least: The lowest number; for other types, the fewest bytes.
        most: The highest number; for other types, the most bytes.
        check: The function raises InvalidEvent or ValueError if a text is invalid.
    """

    name: str
    kind: Kind
    least: int = 0
    most: int = 0
    check: Callable[[str], object] | None = None


_TASK = re.compile(r"[\w.:/-]+")


def as_task(text: str) -> str:
    """Return a text if it has the form of a task's import path or name.

    Spark imports no tasks, so it does not know the names of the project's tasks.

    Raises:
        ValueError: the text has another form.
    """
    if not _TASK.fullmatch(as_path(text)):
        raise ValueError("it must be the import path of a task, such as shop.tasks.send_receipt.")
    return text


MESSAGE = {
    column.name: column
    for column in (
        Written("task", Kind.TEXT, 1, PATH_LIMIT, as_task),
        Written("channel", Kind.TEXT, 1, CHANNEL_LIMIT),
        Written("key", Kind.TEXT, 0, KEY_LIMIT),
        Written("args", Kind.LIST, 0, PAYLOAD_LIMIT),
        Written("kwargs", Kind.OBJECT, 0, PAYLOAD_LIMIT),
        Written("payload", Kind.JSON, 0, PAYLOAD_LIMIT),
        Written("body", Kind.BYTES, 0, PAYLOAD_LIMIT),
        Written("metadata", Kind.OBJECT, 0, PAYLOAD_LIMIT),
        Written("priority", Kind.NUMBER, -100, 100),
        Written("weight", Kind.NUMBER, 1, 100),
        Written("max_attempts", Kind.NUMBER, 1, LARGEST),
        Written("run_at", Kind.TIME),
        Written("expires_at", Kind.TIME),
        Written("ordered", Kind.FLAG),
        Written("dedupe_key", Kind.TEXT, 0, KEY_LIMIT),
    )
}
"""The columns of a message."""
EVENT = {
    column.name: column
    for column in (
        Written("topic", Kind.TEXT, 1, TOPIC_LIMIT, as_topic),
        Written("key", Kind.TEXT, 0, KEY_LIMIT),
        Written("payload", Kind.JSON, 0, PAYLOAD_LIMIT),
        Written("metadata", Kind.OBJECT, 0, PAYLOAD_LIMIT),
    )
}
"""The columns of an event."""
IDS = {"id": Written("id", Kind.NUMBER, 1, 2**63 - 1)}
"""The columns of a verb."""


def columns_of(schema: T.StructType, known: Mapping[str, Written]) -> list[Written]:
    """Return the known columns of a DataFrame's schema, in its order.

    Raises:
        InvalidColumn: a name is unknown or given twice, or a type is wrong.
    """
    columns = []
    for field in schema.fields:
        column = known.get(field.name)
        if column is None:
            raise InvalidColumn(
                f"A write takes no column {field.name!r}. {hint(field.name, known)}"
            )
        if column in columns:
            raise InvalidColumn(f"There are two columns {field.name!r}.")
        if not isinstance(field.dataType, column.kind.types):
            raise InvalidColumn(
                f"The column {field.name!r} is {field.dataType.simpleString():.99}; "
                f"it must be {column.kind.value}."
            )
        if not isinstance(field.dataType, T.VariantType) and has_variant(field.dataType):
            raise InvalidColumn(
                f"The column {field.name!r} is {field.dataType.simpleString():.99}, so it has a "
                "VARIANT within. Make all of it a VARIANT with to_variant_object()."
            )
        columns.append(column)
    return columns


def has_variant(kind: T.DataType) -> bool:
    """Return whether values of a type are of the type VARIANT, or have such a value within."""
    if isinstance(kind, T.VariantType):
        return True
    within: list[T.DataType] = []
    if isinstance(kind, T.StructType):
        within = [field.dataType for field in kind.fields]
    elif isinstance(kind, T.ArrayType):
        within = [kind.elementType]
    elif isinstance(kind, T.MapType):
        within = [kind.valueType]
    return any(map(has_variant, within))


def check_message(names: Collection[str], *, task: str | None, channel: str | None) -> None:
    """Check that the columns make a message, without contradictions.

    Args:
        task, channel: the options with these names; None: not given.

    Raises:
        InvalidColumn: a column is missing, or contradicts another one.
    """
    has_task = "task" in names or task is not None
    if not has_task and "channel" not in names and channel is None:
        raise InvalidColumn(
            "Rows need a task: a column or an option of that name. Raw messages, which have none, "
            "need a channel."
        )
    if calls := [name for name in ("args", "kwargs") if name in names]:
        if "payload" in names:
            raise InvalidColumn(f"Give the column payload, or {' and '.join(calls)}, not both.")
        if not has_task:
            raise InvalidColumn(
                f"A raw message has no {calls[0]}: give the column payload, or a task."
            )


def check_payload(schema: T.StructType, *, task: str | None) -> None:
    """Check that a column `payload` has a type for the arguments of a task.

    Raises:
        InvalidColumn: the column has another type.
    """
    kinds = {field.name: field.dataType for field in schema.fields}
    kind = kinds.get("payload")
    if task is None or not isinstance(kind, (T.StructType, T.ArrayType)):
        return
    names = set(kind.names) if isinstance(kind, T.StructType) else {""}
    if not names <= {"args", "kwargs"}:
        raise InvalidColumn(
            f"The column 'payload' is {kind.simpleString():.99}; for a task it must be a struct of "
            "args and kwargs. Give the columns args and kwargs instead."
        )


def check_event(names: Collection[str], *, topic: str | None) -> None:
    """Check that the columns make an event.

    Args:
        topic: the option of this name; None: not given.

    Raises:
        InvalidColumn: a required column is missing.
    """
    if "topic" not in names and topic is None:
        raise InvalidColumn("Events need a topic: a column or an option of that name.")
    if not names:
        raise InvalidColumn(f"Events need a column: {', '.join(EVENT)}.")


def check_ids(columns: Collection[Written]) -> None:
    """Check that a column has ids.

    Raises:
        InvalidColumn: the column is missing.
    """
    if not columns:
        raise InvalidColumn("An operation needs the column id with the ids of its messages.")
