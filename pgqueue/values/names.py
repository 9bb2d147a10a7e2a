"""Names, as users give them: of channels, of keys, of tasks."""

from __future__ import annotations

import os.path
import re
from typing import Any

# An entry of the index that claims walk must fit a third of a page.
CHANNEL_LIMIT = 200
KEY_LIMIT = 1000
PATH_LIMIT = 1000
FOLDER_LIMIT = 1000
IDENTIFIER_LIMIT = 63
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
SLOT = re.compile(r"[a-z0-9_]+")
AT_START = "pgqueue_start"
"""The tag of the checks that our commands do as they start."""


def is_own(task: str) -> bool:
    """Return whether a task is one of pgqueue's own, by its name."""
    return task.startswith("pgqueue.")


def as_channel(value: Any) -> str:
    """Return `value` if it can be the name of a channel.

    Raises:
        TypeError: it is no text.
        ValueError: it is empty or too long, or PostgreSQL cannot store it.
    """
    if value == "":
        raise ValueError("it must be a name.")
    return as_text(value, CHANNEL_LIMIT)


def as_key(value: Any) -> str:
    """Return `value` if it can be a key; "" is none.

    Raises:
        TypeError: it is no text.
        ValueError: it is too long, or PostgreSQL cannot store it.
    """
    return as_text(value, KEY_LIMIT)


def as_path(value: Any) -> str:
    """Return `value` if it can be the import path of a task.

    Raises:
        TypeError: it is no text.
        ValueError: it is too long, or PostgreSQL cannot store it.
    """
    return as_text(value, PATH_LIMIT)


def as_folder(value: Any) -> str:
    """Return the name of a folder: a URL with a scheme as it is, any other path made absolute.

    Raises:
        TypeError: it is no text.
        ValueError: it is empty, too long, or PostgreSQL cannot store it.
    """
    folder = as_text(value, FOLDER_LIMIT)
    if not folder:
        raise ValueError("it must be a folder, or a URL that begins with a scheme.")
    return folder.rstrip("/") if SCHEME.match(folder) else os.path.abspath(folder)


def as_identifier(value: Any) -> str:
    """Return `value` if it can be the name of something in PostgreSQL: it cuts longer ones.

    Raises:
        TypeError: it is no text.
        ValueError: it is empty or too long, or PostgreSQL cannot store it.
    """
    if value == "":
        raise ValueError("it must be a name.")
    return as_text(value, IDENTIFIER_LIMIT)


def as_slot(value: Any) -> str:
    """Return `value` if it can be the name of a replication slot.

    Raises:
        TypeError: it is no text.
        ValueError: it is empty or too long, or has other characters than slots may have.
    """
    if not SLOT.fullmatch(as_identifier(value)):
        raise ValueError("it may have small letters from a to z, digits and underscores only.")
    return str(value)


def as_text(value: Any, limit: int) -> str:
    """Return `value` if it is text of no more than `limit` bytes that PostgreSQL can store.

    Raises:
        TypeError: it is no text.
        ValueError: it is too long, or PostgreSQL cannot store it.
    """
    if not isinstance(value, str):
        raise TypeError("it must be text.")
    if "\x00" in value:
        raise ValueError("PostgreSQL can't store the character NUL.")
    if len(value.encode()) > limit:  # a lone surrogate raises a ValueError of its own
        raise ValueError(f"it may be {limit} bytes long at most.")
    return value
