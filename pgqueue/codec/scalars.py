"""Single values as JSON, within what jsonb holds.

jsonb keeps numbers as PostgreSQL's numeric and strings as its text. So 1e16 returns as
10000000000000000, an int to Python; -0.0 has lost its sign; there is no NaN, no \\x00 and no
half of a surrogate pair.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Context, Decimal, InvalidOperation
from functools import partial
from math import copysign, isfinite
from types import NoneType
from typing import Any
from uuid import UUID

# Python parses no more digits than these.
INT_LIMIT = 10**4300
# From here on, a float is written without a decimal point.
FLOAT_LIMIT = 1e16
# Written as floats, but parsed as Decimals: a float would round what SQL sends for a Decimal.
FRACTION = (float, Decimal)
NUMBERS = (int, *FRACTION)
MICROSECOND = timedelta(microseconds=1)
# Exact, whatever the thread's own context is, and no larger than a timedelta.
SECONDS = Context(prec=40, Emin=-40, Emax=40)


class Unstorable(Exception):
    """A value can't come back from JSON as what it is; `path` leads to it from the outermost."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = ""

    def about(self, subject: str) -> str:
        """Return a sentence about the fault in `subject`, the outermost value."""
        path = self.path.removeprefix(".")
        return f"{subject}: {path} {self.reason}" if path else f"{subject} {self.reason}"


class Unknown(ValueError):
    """JSON has something that this code does not know, and newer code may."""


@dataclass(frozen=True, eq=False)
class Form:
    """How the values of a type look in JSON, and which kinds of plain JSON can be read so.

    Attributes:
        adopts: whether it also writes instances of a subclass.
        by_class: whether JSON that later code reads names the class (`encoding.ExactHint`).
    """

    of: type
    tag: str
    kinds: tuple[type, ...]
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]
    adopts: bool = False
    by_class: bool = False


def write_int(value: int) -> int:
    if not -INT_LIMIT < value < INT_LIMIT:
        raise Unstorable("has more than 4300 digits, which Python won't parse: pass bytes.")
    return int(value)


def as_number(text: str | Decimal) -> float | Decimal:
    """Return a number as a float, or as a Decimal where no float is written with its digits.

    Raises:
        ValueError: its exponent is too large for a Decimal.
    """
    number = float(text)
    try:
        exact = Decimal(text)
    except InvalidOperation as error:
        raise ValueError(f"the exponent of {text:.99} is too large") from error
    return number if Decimal(repr(number)) == exact else exact


def as_float(text: str) -> float:
    """Return a number as a float that is written with its digits.

    Raises:
        ValueError: no float is.
    """
    number = as_number(text)
    if isinstance(number, Decimal):
        raise ValueError(f"{text:.99} would be rounded: write it as a text.")
    return number


def write_float(value: float) -> float | str:
    if not isfinite(value):
        raise Unstorable(f"is {value}; JSON has no such number: pass None, or a Decimal.")
    survives = abs(value) < FLOAT_LIMIT and (value != 0 or copysign(1, value) > 0)
    return float(value) if survives else float.__repr__(value)


def write_str(value: str) -> str:
    if "\x00" in value:
        raise Unstorable("has a character \\x00, which PostgreSQL can't store: pass bytes.")
    if not value.isascii():
        refuse_surrogates(value)
    # Not str(value), which for the member of an enum is its name.
    return str.__str__(value)


def refuse_surrogates(value: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        half = value[error.start]
        raise Unstorable(
            f"has {half!r}, half of a surrogate pair, which UTF-8 can't say: pass bytes."
        ) from None


def write_key(key: Any) -> str:
    if not isinstance(key, str):
        raise Unstorable(f"has the key {key!r:.99}; JSON knows only str: pass a list of pairs.")
    try:
        return write_str(key)
    except Unstorable as error:
        raise Unstorable(f"has the key {key!r:.99}, which {error.reason}") from None


def write_clock(value: datetime | time) -> str:
    if value.tzinfo:
        offset = value.utcoffset()
        # Without one it would come back naive; and Python reads +00:00:00.000001 as UTC.
        if offset is None or offset.microseconds:
            raise Unstorable(f"has a time zone whose offset is {offset}: pass a datetime in UTC.")
    return value.isoformat()


def write_seconds(value: timedelta) -> str:
    return str(SECONDS.scaleb(value // MICROSECOND, -6))


def read_seconds(plain: Any) -> timedelta:
    return timedelta(microseconds=int(SECONDS.scaleb(Decimal(plain), 6)))


def write_bytes(value: bytes) -> str:
    return b64encode(value).decode()


read_bytes = partial(b64decode, validate=True)

# JSON's own types come first: without a hint, plain JSON is theirs.
SCALARS = (
    Form(NoneType, "None", (NoneType,), lambda none: None, lambda null: None),
    Form(bool, "bool", (bool,), bool, bool),
    Form(int, "int", (int,), write_int, int, adopts=True),
    Form(float, "float", NUMBERS, write_float, float, adopts=True),
    Form(str, "str", (str,), write_str, str, adopts=True),
    Form(datetime, "datetime", (str,), write_clock, datetime.fromisoformat, adopts=True),
    Form(date, "date", (str,), date.isoformat, date.fromisoformat, adopts=True),
    Form(time, "time", (str,), write_clock, time.fromisoformat, adopts=True),
    Form(timedelta, "timedelta", (str, *NUMBERS), write_seconds, read_seconds),
    Form(Decimal, "Decimal", (str, *NUMBERS), str, Decimal, adopts=True),
    Form(UUID, "UUID", (str,), str, UUID, adopts=True),
    Form(bytes, "bytes", (str,), write_bytes, read_bytes, adopts=True),
)
