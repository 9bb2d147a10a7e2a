"""Levels of Python's `logging`."""

from __future__ import annotations

from typing import Any

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def as_level(value: Any) -> str | None:
    """Return `value` if it is the name of a level; None: no lines are kept.

    Raises:
        ValueError: it is none.
    """
    if value is None or (isinstance(value, str) and value in LEVELS):
        return value
    raise ValueError(f"it must be one of {', '.join(LEVELS)}, or None.")
