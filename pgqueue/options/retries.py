"""Backoff: the wait of a failed message for its next attempt.

A backoff is a function of the error and the result so far. It returns seconds or a
`timedelta`, or None to give up at once. `max_attempts` bounds it in any case.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Protocol, TypeAlias, TypeVar

from pgqueue.exceptions import InvalidBackoff, InvalidTask
from pgqueue.values.discovery import import_declaring
from pgqueue.values.error_words import shown
from pgqueue.values.number_checks import LONGEST, as_timedelta


class Failed(Protocol):
    """The second argument of a backoff: in practice, the message's `TaskResult`."""

    @property
    def failures(self) -> int:
        """The number of its failures, including this one."""


Delay: TypeAlias = "float | timedelta | None"
Backoff: TypeAlias = "Callable[[BaseException, Any], Delay]"
F = TypeVar("F", bound="Callable[..., Delay]")

SHORTEST, LONGEST_DELAY = 1e-6, LONGEST.total_seconds()

_declared: dict[str, Backoff] = {}


def _check_number(what: str, value: Any, *, least: float, most: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidBackoff(f"{what}: it must be a number.")
    if not least <= value <= most:  # refuses NaN, too
        raise InvalidBackoff(f"{what}: it must be from {least:g} to {most:.0f}.")


@dataclass(frozen=True)
class Exponential:
    """Wait `base` seconds, then twice as long each time, never more than `cap`.

    After failure n the wait is min(base · 2^(n-1), cap) seconds, varied at random by ±`jitter`, so
    that messages which failed together do not come back together. This is truncated exponential
    backoff with jitter, as AWS and Google describe it, and Oban's curve with a cap.

    The default waits 2, 4, 8 … 32 768 s, and 12 hours from the 16th failure on. So 5 attempts take
    30 s, 10 take 17 minutes, 15 take 9 hours, and 20 take 66 hours, with ±`jitter` of each wait.

    Args:
        base, cap: seconds, above 0.
        jitter: a share of the delay, from 0 to 1.

    Raises:
        InvalidBackoff: a value is invalid.
    """

    base: float = 2
    cap: float = 43_200
    jitter: float = 0.2

    def __post_init__(self) -> None:
        _check_number(f"base={self.base!r:.50}", self.base, least=SHORTEST, most=LONGEST_DELAY)
        _check_number(f"cap={self.cap!r:.50}", self.cap, least=SHORTEST, most=LONGEST_DELAY)
        _check_number(f"jitter={self.jitter!r:.50}", self.jitter, least=0, most=1)

    def __call__(self, error: BaseException | None, result: Failed) -> float:
        """Return the seconds to wait after failure number `result.failures`."""
        doublings = min(max(result.failures - 1, 0), 64)
        delay = min(self.base * 2.0**doublings, self.cap)
        return delay * random.uniform(1 - self.jitter, 1 + self.jitter)  # noqa: S311


@dataclass(frozen=True)
class Delays:
    """Wait each of `seconds` in turn, and the last one from then on."""

    seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.seconds:
            raise InvalidBackoff("A list of delays needs at least one.")
        for delay in self.seconds:
            _check_number(f"the delay {delay!r:.50}", delay, least=0, most=LONGEST_DELAY)

    def __call__(self, error: BaseException | None, result: Failed) -> float:
        """Return the seconds to wait after failure number `result.failures`."""
        return self.seconds[min(max(result.failures, 1), len(self.seconds)) - 1]


def as_backoff(value: Any) -> Backoff:
    """Return `value`, a policy, a list of delays or a function, as a backoff.

    Raises:
        TypeError: the value has another type.
        ValueError: a delay is negative or beyond a hundred years, or the list is empty.
    """
    if callable(value) and not isinstance(value, type):
        return value  # type: ignore[no-any-return]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return Delays(tuple(as_timedelta(delay).total_seconds() for delay in value))
    raise TypeError(
        f"{shown(value)} is no backoff: give Exponential(…), a list of seconds, "
        "or a function of (exception, result)."
    )


def backoff(function: F) -> F:
    """Declare a function of (exception, result), so that `using()` may give it to messages.

    A message stores the function's name. A worker calls only declared functions: by this decorator,
    or as the backoff of a `@task`, of `PGQUEUE` or of `TASKS`.

    Raises:
        InvalidTask: it is no function at the top of a module.
    """
    if _name_of(function) is None:
        raise InvalidTask(f"{function!r} must be a function at the top of a module.")
    declare(function)
    return function


def declare(backoff: Any) -> None:
    """Register a backoff under its name, if it has one. Stored messages may then name it."""
    name = _name_of(backoff)
    if name is not None:
        _declared[name] = backoff


def _name_of(backoff: Any) -> str | None:
    if not inspect.isfunction(backoff) or not backoff.__qualname__.isidentifier():
        return None
    return f"{backoff.__module__}.{backoff.__qualname__}"


def dump_backoff(backoff: Backoff) -> Any:
    """Return `backoff` as JSON, for storage with a message.

    Raises:
        ValueError: the backoff is a function that was not declared.
    """
    if isinstance(backoff, Exponential):
        return asdict(backoff)
    if isinstance(backoff, Delays):
        return list(backoff.seconds)
    name = _name_of(backoff)
    if name is None or _declared.get(name) is not backoff:
        raise ValueError(
            f"{name or repr(backoff)} can't be stored with a message: declare it with "
            "@pgqueue.backoff at the top of a module, or give it to @task(backoff=…) instead."
        )
    return name


def load_backoff(described: Any) -> Backoff:
    """Return the backoff that `dump_backoff` described.

    Raises:
        ValueError: the JSON is no backoff, is invalid, or names a function not declared here.
        Exception: the error of the declaring module at its import.
    """
    if isinstance(described, str):
        if described not in _declared:
            import_declaring(described)
        if described in _declared:
            return _declared[described]
        raise ValueError(f"no backoff is named {described!r} here.")
    try:
        return Exponential(**described) if isinstance(described, dict) else as_backoff(described)
    except TypeError as error:
        raise ValueError(f"{described!r} is no backoff.") from error
