"""The options of a channel's configuration, and the columns that store them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from typing import Any, TypedDict

from pgqueue import models
from pgqueue.exceptions import InvalidChannel
from pgqueue.options.retention import as_retention
from pgqueue.states import Outcome
from pgqueue.values.error_words import hint, shown
from pgqueue.values.names import as_path
from pgqueue.values.number_checks import as_duration, as_flag


class Configuration(TypedDict, total=False):
    """The options of `Channel.configure()`, which documents them."""

    on_dead: str
    on_full: str
    handler: Any
    watched: bool
    urgent_first: bool
    age_after: timedelta | float | None
    retention: timedelta | float | Mapping[str, timedelta | float] | None
    dead_retention: timedelta | float | None


def columns_of(name: str, value: Any) -> dict[str, Any]:
    """Return the columns of a channel's row that store an option, and their values.

    Raises:
        InvalidChannel: the option is unknown, or the value is invalid.
    """
    if name not in _OPTIONS:
        raise InvalidChannel(f"A channel has no option {name!r}. {hint(name, _OPTIONS)}")
    try:
        checked = _OPTIONS[name](value)
    except (TypeError, ValueError) as error:
        raise InvalidChannel(f"{name}={shown(value)}: {error}") from error
    return checked if isinstance(checked, dict) else {name: checked}


def _one_of(words: Collection[str]) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if value not in words:
            raise ValueError(f"it must be {' or '.join(map(repr, words))}.")
        return str(value)

    return check


def _handler(value: Any) -> str:
    if getattr(value, "encrypted", False):
        raise ValueError("it is encrypted, and raw messages are stored as they are sent.")
    path = getattr(value, "name", value)
    if not isinstance(path, str):
        raise TypeError("it must be a task, or the import path of one.")
    return as_path(path)


def _keep(value: Any) -> timedelta | None:
    return None if value is None else as_duration(value)


def _retention(value: Any) -> dict[str, timedelta | None]:
    """Return all columns of the retention: an option states it as a whole."""
    is_by_outcome = isinstance(value, Mapping)
    by_outcome = as_retention(value) if is_by_outcome else {}
    return {
        "retention": None if is_by_outcome else _keep(value),
        **{f"retention_{outcome}": by_outcome.get(outcome) for outcome in Outcome.values},
    }


_OPTIONS: Mapping[str, Callable[[Any], Any]] = {
    "on_dead": _one_of(models.Channel.OnDead.values),
    "on_full": _one_of(models.Channel.OnFull.values),
    "handler": _handler,
    "watched": as_flag,
    "urgent_first": as_flag,
    "age_after": _keep,
    "retention": _retention,
    "dead_retention": _keep,
}
