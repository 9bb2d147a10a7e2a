"""Values that PostgreSQL can store as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any


def as_object(value: Any) -> dict[str, Any]:
    """Return `value` if it is a dict that PostgreSQL can store as JSON.

    Raises:
        TypeError, ValueError: it is not.
    """
    if not isinstance(value, Mapping):
        raise TypeError("it must be a dict.")
    return dict(as_json(dict(value)))


def as_json(value: Any) -> Any:
    """Return `value` if PostgreSQL can store it as JSON.

    Raises:
        TypeError, ValueError: it is not storable.
    """
    try:
        if any("\x00" in text for text in _texts_in(value)):
            raise ValueError("PostgreSQL can't store the character NUL.")
        # A lone surrogate raises a ValueError of its own.
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except RecursionError as error:
        raise ValueError("it is nested too deeply.") from error
    return value


def _texts_in(value: Any) -> Iterator[str]:
    """Yield every text in a value, including the keys of dicts.

    Raises:
        TypeError: a key is no text.
    """
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            if not isinstance(key, str):
                raise TypeError("the keys of a dict must be text, as in JSON.")
            yield key
            yield from _texts_in(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts_in(each)
