"""Flags, counts and durations, as users give them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pgqueue.values.error_words import shown

LARGEST = 2**31 - 1
"""The largest number in a column of PostgreSQL's type integer."""
LONGEST = timedelta(days=36525)
"""What lies further back than a hundred years may be no time that PostgreSQL knows."""


def as_flag(value: Any) -> bool:
    """Return `value` if it is True or False.

    Raises:
        TypeError: it is neither.
    """
    if not isinstance(value, bool):
        raise TypeError("it must be True or False.")
    return value


def as_count(value: Any, *, least: int = 1, most: int = LARGEST) -> int:
    """Return `value` if it is a whole number from `least` to `most`.

    Raises:
        ValueError: it is none.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        if least <= value <= most:
            return value
        if value > most == LARGEST:
            raise ValueError(f"it may be {most} at most.")
    bounds = f", {least} or more" if most == LARGEST else f" from {least} to {most}"
    raise ValueError(f"it must be a whole number{bounds}.")


def as_timedelta(value: Any) -> timedelta:
    """Return `value`, seconds or a timedelta, as a timedelta.

    Raises:
        TypeError: it is neither.
        ValueError: it is not a number, or too large.
    """
    if isinstance(value, timedelta):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{shown(value)} is neither seconds nor a timedelta.")
    if value != value:
        raise ValueError("it is not a number.")
    try:
        return timedelta(seconds=value)
    except OverflowError as error:
        raise ValueError(f"{shown(value)} seconds are too long.") from error


def as_age(value: Any) -> timedelta:
    """Return `value`, seconds or a timedelta of 0 or more, as a timedelta.

    Raises:
        TypeError: it is neither.
        ValueError: it is below 0, or beyond a hundred years.
    """
    age = as_timedelta(value)
    if age < timedelta():
        raise ValueError("it can't be below 0.")
    if age > LONGEST:
        raise ValueError("it may be a hundred years at most.")
    return age


def as_duration(value: Any) -> timedelta:
    """Return `value`, seconds or a timedelta above 0, as a timedelta.

    Raises:
        TypeError: it is neither.
        ValueError: it is not above 0, or beyond a hundred years.
    """
    duration = as_timedelta(value)
    if duration <= timedelta():
        raise ValueError("it must be longer than 0 seconds.")
    if duration > LONGEST:
        raise ValueError(f"{LONGEST.days} days, a hundred years, are as good as for ever.")
    return duration
