"""Types of command-line arguments for argparse; each refuses invalid values at once."""

from __future__ import annotations

import codecs
import json
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

from pgqueue.codec.scalars import as_number
from pgqueue.events.consumers import checked_name
from pgqueue.options.starts import Start, parse_start
from pgqueue.tasks.options import HEAVIEST
from pgqueue.values.error_words import shown
from pgqueue.values.escaping import on_one_line
from pgqueue.values.json_checks import as_json
from pgqueue.values.names import (
    as_channel,
    as_folder,
    as_key,
    as_path,
    as_slot,
    as_text,
)
from pgqueue.values.number_checks import LARGEST, as_age, as_count
from pgqueue.values.searches import as_search
from pgqueue.values.waits import as_wait

T = TypeVar("T")

NAME_LIMIT = 1000
QUERY_LIMIT = 1_000_000
LAST_ID = 2**63 - 1
ROLE_PREFIX_LIMIT = 50
JSON_LIMIT = 16 * 1024 * 1024


def _kind(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Return a type whose errors argparse shows with their text."""

    @wraps(parse)
    def wrapper(text: str) -> T:
        try:
            return parse(text)
        except (TypeError, ValueError) as error:
            raise ArgumentTypeError(f"{shown(text)}: {error}") from error

    return wrapper


def whole(least: int = 0, most: int = LARGEST) -> Callable[[str], int]:
    """Return the type of whole numbers from `least` to `most`."""

    @_kind
    def number(text: str) -> int:
        # int() also takes "1_000" and digits of other scripts.
        is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(LARGEST))
        return as_count(int(text) if is_number else text, least=least, most=most)

    return number


@_kind
def message(text: str) -> int:
    """Read the id of a message."""
    return _id(text, "a message")


@_kind
def flow(text: str) -> int:
    """Read the id of a flow."""
    return _id(text, "a flow")


@_kind
def waits(text: str) -> str:
    """Read the wait of a durable run."""
    return as_wait(text)


@_kind
def match(text: str) -> str:
    """Read a search of messages' contents."""
    return as_search(text)


def _id(text: str, of: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(LAST_ID))):
        raise ValueError(f"it must be the id of {of}, a whole number.")
    return as_count(int(text), least=1, most=LAST_ID)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise ValueError("it must be a number.") from error


@_kind
def spark_option(text: str) -> tuple[str, str]:
    """Read an option of Spark: its name and value, with "=" between them."""
    name, equals, value = text.partition("=")
    if not equals or not name.startswith("spark."):
        raise ValueError("it must be NAME=VALUE, with a NAME that begins with 'spark.'.")
    return name, value


def moment_of(text: str) -> datetime:
    """Return the time of a text; without a zone it is in UTC.

    Raises:
        ValueError: the text is no time.
    """
    try:
        time = datetime.fromisoformat(text)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("it must be a time such as 2026-11-24T08:30:00Z.") from None


moment = _kind(moment_of)
"""The type of times."""


@_kind
def objective(text: str) -> tuple[str, float, float]:
    """Read the objective of a channel: its name ("": all other channels), seconds, and share."""
    name, equals, numbers = text.rpartition("=")
    within, _, target = numbers.partition(":")
    if not equals:
        raise ValueError("it must be CHANNEL=SECONDS or CHANNEL=SECONDS:SHARE.")
    limit, met = as_age(_number(within)).total_seconds(), _number(target) if target else 0.99
    if not 0 < met < 1:  # nor NaN
        raise ValueError("the share must be a number between 0 and 1, such as 0.99.")
    return as_channel(name) if name else "", limit, met


@_kind
def duration(text: str) -> timedelta:
    """Read seconds, 0 or more."""
    return as_age(_number(text))


@_kind
def lasting(text: str) -> timedelta:
    """Read seconds, more than 0."""
    length = as_age(_number(text))
    if not length:
        raise ValueError("it must be more than 0.")
    return length


@_kind
def seconds(text: str) -> float:
    """Read seconds, 0 or more, as a number."""
    return as_age(_number(text)).total_seconds()


@_kind
def share(text: str) -> float:
    """Read a share: a number from 0 to 1."""
    number = _number(text)
    if not 0 <= number <= 1:  # nor NaN
        raise ValueError("it must be a number from 0 to 1.")
    return number


@_kind
def channel(text: str) -> str:
    """Read the name of a channel."""
    return as_channel(text)


@_kind
def key(text: str) -> str:
    """Read the key of a message."""
    return as_key(text)


@_kind
def name(text: str) -> str:
    """Read the name of a schedule or of a host."""
    return as_text(text, NAME_LIMIT)


@_kind
def address(text: str) -> str:
    """Read the address to listen at, or the name of a host."""
    if not text:
        raise ValueError("it must be an address.")
    return as_text(text, NAME_LIMIT)


@_kind
def group(text: str) -> str:
    """Read the name of a group of the event log."""
    return checked_name(text)


@_kind
def dedupe_key(text: str) -> str:
    """Read a dedupe key."""
    if text == "":
        raise ValueError("it must not be empty.")
    return as_key(text)


@_kind
def due(text: str) -> timedelta | datetime:
    """Read the earliest start of a message: seconds from now, or a time."""
    try:
        return as_age(float(text))
    except (ValueError, OverflowError):
        return moment_of(text)


@_kind
def start(text: str) -> Start:
    """Read the place in the event log where a group begins."""
    return parse_start(text)


@_kind
def table(text: str) -> str:
    """Read the name of a table, which may begin with its schema's name."""
    parts = as_text(text, NAME_LIMIT).split(".")
    if len(parts) > 2 or not all(parts):
        raise ValueError("it must be NAME or SCHEMA.NAME.")
    return text


@_kind
def text(text: str) -> str:
    """Read a short text."""
    return as_text(text, limit=NAME_LIMIT)


@_kind
def separator(text: str) -> str:
    r"""Read the separator of the cells of a CSV file: Spark takes \t for a tab."""
    if text == r"\t":
        return text
    if not text or set(text) & {*'"\r\n\x00\\'} or len(text) > 10:
        raise ValueError("it must be a character or a few, no quote and no line break.")
    return text


@_kind
def encoding(text: str) -> str:
    """Read the name of an encoding."""
    try:
        codecs.lookup(text)
    except (LookupError, ValueError):
        raise ValueError("it must be an encoding, such as UTF-8 or windows-1252.") from None
    return text


@_kind
def query(text: str) -> str:
    """Read a query, or another source of rows."""
    if not text.strip():
        raise ValueError("it must be a query, or another source of rows.")
    return as_text(text, QUERY_LIMIT)


@_kind
def task(text: str) -> str:
    """Read the import path of a task."""
    return as_path(text)


@_kind
def error(text: str) -> str:
    """Read the class of an error: its import path, or the end of the path."""
    if not text:
        raise ValueError("it must be the name of a class.")
    return as_path(text)


def _json(text: str, parse_float: Callable[[str], Any] = Decimal) -> Any:
    """Read JSON; no float rounds its numbers.

    Raises:
        TypeError, ValueError: it is no JSON, or PostgreSQL would refuse it.
    """
    try:
        as_json(json.loads(text, parse_float=str))
        as_text(text, JSON_LIMIT)
        return json.loads(text, parse_float=parse_float)
    except RecursionError as error:
        raise ValueError("it is nested too deeply.") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"it must be JSON, where text has double quotes: {error}.") from error
    except ArithmeticError as error:
        raise ValueError("the exponent of a number is too large.") from error


@_kind
def json_list(text: str) -> list[Any]:
    """Read a list in JSON."""
    value = _json(text)
    if not isinstance(value, list):
        raise ValueError('it must be a list, such as [1, "a"].')
    return value


@_kind
def json_object(text: str) -> dict[str, Any]:
    """Read an object in JSON."""
    value = _json(text)
    if not isinstance(value, dict):
        raise ValueError('it must be an object, such as {"order_id": 7}.')
    return value


@_kind
def json_value(text: str) -> Any:
    """Read any value in JSON. A number that no float can hold exactly is a Decimal."""
    return _json(text, as_number)


@_kind
def named_json(text: str) -> tuple[str, Any]:
    """Read an argument's name and its value in JSON, with "=" between them."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise ValueError("it must be NAME=JSON, such as order_id=7.")
    return name, _json(value)


@_kind
def priority(text: str) -> int:
    """Read the priority of a message."""
    return as_count(_small_number(text), least=-100, most=100)


@_kind
def weight(text: str) -> int:
    """Read the weight of a message."""
    return as_count(_small_number(text), most=HEAVIEST)


def _small_number(text: str) -> int | str:
    """Return the number of at most three digits, or the text if it is none."""
    digits = text.removeprefix("-")
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= 3
    return int(text) if is_number else text


@_kind
def role_prefix(text: str) -> str:
    """Read the prefix of the names of roles."""
    if text.startswith("pg_"):
        raise ValueError("it must not begin with pg_, which PostgreSQL keeps for itself.")
    if on_one_line(text) != text:
        raise ValueError(
            "it must have no control characters: the printed script must not have any."
        )
    return as_text(text, ROLE_PREFIX_LIMIT)


@_kind
def folder(text: str) -> str:
    """Read the path or URL of a folder."""
    return as_folder(text)


@_kind
def rate(text: str) -> float:
    """Read a rate per second: a number above 0."""
    number = _number(text)
    if not 0 < number <= LARGEST:
        raise ValueError(f"it must be a number above 0, {LARGEST} at most.")
    return number


@_kind
def source(text: str) -> str:
    """Read the name of a database in a lake of several databases."""
    return as_slot(text)


@_kind
def path(text: str) -> Path:
    """Read the path of a file."""
    if not text or "\x00" in text:
        raise ValueError("it must be the path of a file.")
    return Path(text)


def add_database(parser: ArgumentParser, verbs: Iterable[ArgumentParser] = ()) -> None:
    """Add the option for the database of the queue.

    Args:
        verbs: parsers of a command's verbs, if it has some. The option may stand before a verb or
            behind it.
    """
    option, text = "--database", "(PGQUEUE: DATABASE)."
    parser.add_argument(option, metavar="ALIAS", help=text)
    for verb in verbs:  # a default of the verb would replace what stands before it
        verb.add_argument(option, metavar="ALIAS", help=text, default=SUPPRESS)


def add_format(parser: ArgumentParser, help: str | None = None) -> None:
    """Add the option for the format in which a command prints rows."""
    parser.add_argument("--format", choices=["text", "json"], default="text", help=help)
