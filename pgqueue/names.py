"""Names, as users give them: of channels, of keys, of tasks."""

from __future__ import annotations

from typing import Any

# An entry of the index that claims walk must fit a third of a page.
CHANNEL_LIMIT = 200
KEY_LIMIT = 1000
PATH_LIMIT = 1000


def as_channel(value: Any) -> str:
    """Return `value` if it can be the name of a channel.

    Raises:
        TypeError: it is no text.
        ValueError: it is empty or too long, or can't be stored.
    """
    if value == "":
        raise ValueError("it must be a name.")
    return as_text(value, CHANNEL_LIMIT)


def as_key(value: Any) -> str:
    """Return `value` if it can be a key; "" is none.

    Raises:
        TypeError: it is no text.
        ValueError: it is too long, or can't be stored.
    """
    return as_text(value, KEY_LIMIT)


def as_path(value: Any) -> str:
    """Return `value` if it can be the import path of a task.

    Raises:
        TypeError: it is no text.
        ValueError: it is too long, or can't be stored.
    """
    return as_text(value, PATH_LIMIT)


def as_text(value: Any, limit: int) -> str:
    """Return `value` if it is text of no more than `limit` bytes that PostgreSQL can store.

    Raises:
        TypeError: it is no text.
        ValueError: it is too long, or can't be stored.
    """
    if not isinstance(value, str):
        raise TypeError("it must be text.")
    if "\x00" in value:
        raise ValueError("PostgreSQL can't store the character NUL.")
    if len(value.encode()) > limit:  # a lone surrogate raises a ValueError of its own
        raise ValueError(f"it may be {limit} bytes long at most.")
    return value
