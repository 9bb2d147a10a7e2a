"""JSON as text, as PostgreSQL writes and takes it."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from json import JSONDecoder, JSONEncoder
from typing import Any, NoReturn

TAG = "@"
"""The key of a tagged value: `{"@": "datetime", "value": …}`."""
MARKED = re.compile(r'"\\u0000([^"]*)"')


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


def with_decimals(value: Any) -> str:
    """Return a value as JSON, with each Decimal as a number; no text in it may have NUL."""
    # json does not write Decimals. \u0000 marks them here: no text of PostgreSQL contains it.
    return MARKED.sub(r"\1", json.dumps(value, default=lambda number: f"\0{number}"))
