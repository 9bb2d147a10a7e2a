"""JSON as text, as PostgreSQL writes and takes it."""

from __future__ import annotations

from decimal import Decimal
from json import JSONDecoder, JSONEncoder
from typing import Any, NoReturn

TAG = "@"
"""The key of a tagged value: `{"@": "datetime", "value": …}`."""


def refuse(constant: str) -> NoReturn:
    """Refuse a constant that JSON does not have, such as NaN.

    Raises:
        ValueError: always.
    """
    raise ValueError(f"{constant} is not JSON")


# An encoder that looks for cycles takes longer; they end in a RecursionError anyway.
to_json = JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode
_decoder = JSONDecoder(parse_float=Decimal, parse_constant=refuse)


def from_json(text: str) -> Any:
    """Return the value of a text, without spaces around it: PostgreSQL writes none.

    Raises:
        ValueError: it isn't JSON.
    """
    try:
        value, end = _decoder.scan_once(text, 0)  # type: ignore[attr-defined]
    except StopIteration:
        end = -1
    if end != len(text):
        return _decoder.decode(text)
    return value
