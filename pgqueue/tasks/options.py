"""The options of a task: what each may be, and how the ones of one message travel with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any, TypedDict

from django.utils import timezone

from pgqueue.exceptions import InvalidTask
from pgqueue.retries import Backoff, as_backoff, as_timedelta, dump_backoff

# An entry of the index that claims walk must fit a third of a page.
CHANNEL_LIMIT = 200
KEY_LIMIT = 1000
CENTURY = timedelta(days=36_525)


class Options(TypedDict, total=False):
    """What `@task` and `using()` take; each is documented at `@task`."""

    channel: str | None
    queue_name: str
    key: str | Callable[..., str]
    priority: int
    run_after: datetime | timedelta | float | None
    max_attempts: int | None
    backoff: Backoff | Sequence[float | timedelta] | None
    timeout: timedelta | float | None
    atomic: bool
    metadata: Mapping[str, Any]
    enqueue_on_commit: bool | str
    database: str | None


def checked(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return `options` in the form a Task keeps them.

    Raises:
        InvalidTask: one is unknown, or has a value that can't be.
    """
    given = {
        ("channel" if name == "queue_name" else name): value for name, value in options.items()
    }
    for name in given:
        if name not in _CHECKS:
            near = get_close_matches(name, _CHECKS, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(_CHECKS)}."
            raise InvalidTask(f"A task has no option {name!r}. {hint}")
    return {name: _check(name, value) for name, value in given.items()}


def _check(name: str, value: Any) -> Any:
    try:
        return _CHECKS[name](value)
    except (TypeError, ValueError) as error:
        raise InvalidTask(f"{name}={value!r}: {error}") from error


def checked_key(key: Any) -> str:
    """Return `key` if it can be one.

    Raises:
        ValueError: it is no text, or too long.
    """
    return _text(key, KEY_LIMIT)


def _text(value: Any, limit: int) -> str:
    if not isinstance(value, str):
        raise TypeError("it must be text.")
    if "\x00" in value:
        raise ValueError("PostgreSQL can't store the character NUL.")
    if len(value.encode()) > limit:  # a lone surrogate raises a ValueError of its own
        raise ValueError(f"it may be {limit} bytes long at most.")
    return value


def _channel(value: Any) -> str | None:
    if value == "":
        raise ValueError("it must be a name.")
    return None if value is None else _text(value, CHANNEL_LIMIT)


def _key(value: Any) -> str | Callable[..., str]:
    return value if callable(value) else checked_key(value)


def _priority(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not -100 <= value <= 100:
        raise ValueError("it must be a whole number from -100 to 100.")
    return int(value)


def _run_after(value: Any) -> datetime | timedelta | None:
    if value is None:
        return None
    if not isinstance(value, datetime):
        delay = as_timedelta(value)
        if not -CENTURY <= delay <= CENTURY:
            raise ValueError("it may be a hundred years at most.")
        return delay
    if timezone.is_naive(value):
        raise ValueError("it must say its time zone.")
    try:
        return value.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("it must be in the years 1 to 9999, in UTC.") from error


def _count(value: Any) -> int | None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise ValueError("it must be a whole number, 1 or more.")
    return value


def _timeout(value: Any) -> timedelta | None:
    if value is None:
        return None
    timeout = as_timedelta(value)
    if timeout <= timedelta():
        raise ValueError("it must be longer than 0 seconds.")
    return timeout


def _metadata(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError("it must be a dict.")
    text = json.dumps(dict(value), allow_nan=False)
    if "\\u0000" in text or "\\ud" in text:
        raise ValueError("PostgreSQL can't store the character NUL, nor half a surrogate pair.")
    return dict(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("it must be True or False.")
    return value


def _on_commit(value: Any) -> bool | str:
    if not isinstance(value, bool | str):
        raise TypeError("it must be True, False or the alias of a database.")
    return value


def _alias(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError("it must be the alias of a database.")
    return value


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "channel": _channel,
    "key": _key,
    "priority": _priority,
    "run_after": _run_after,
    "max_attempts": _count,
    "backoff": lambda value: None if value is None else as_backoff(value),
    "timeout": _timeout,
    "atomic": _flag,
    "metadata": _metadata,
    "enqueue_on_commit": _on_commit,
    "database": _alias,
    "takes_context": _flag,
}

# What the worker needs to know; everything else is in columns of its own, or the producer's.
_OF_THE_RUN: dict[str, Callable[[Any], Any]] = {
    "backoff": dump_backoff,
    "timeout": timedelta.total_seconds,
    "atomic": bool,
    "backend": str,  # of tasks of django.tasks
}


def travelling(options: Mapping[str, Any], defaults: Mapping[str, Any]) -> str | None:
    """Return as JSON what a worker must do otherwise than the task's decorator says.

    Raises:
        InvalidTask: a backoff is a function that can't be imported by its name.
    """
    changed = {}
    for name, dump in _OF_THE_RUN.items():
        value = options.get(name)
        if value == defaults.get(name):
            continue
        try:
            changed[name] = None if value is None else dump(value)
        except ValueError as error:
            raise InvalidTask(f"{name}: {error}") from error
    return json.dumps(changed) if changed else None
