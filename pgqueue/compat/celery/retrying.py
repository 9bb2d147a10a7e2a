"""The backoff of a task: the errors that it retries, and the delays."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pgqueue.compat.celery.exceptions import (
    ChordError,
    Ignore,
    Reject,
    Retry,
    TimeLimitExceeded,
    Unsupported,
)
from pgqueue.exceptions import ParentFailed
from pgqueue.options.retries import Delay, Failed
from pgqueue.values.instants import aware
from pgqueue.values.number_checks import LARGEST, as_count, as_timedelta

NEVER_BY_THEMSELVES = (ChordError, Ignore, Reject, TimeLimitExceeded)


@dataclass(frozen=True)
class Retrying:
    """The backoff of a task: delays for `retry()` and for the errors of autoretry_for."""

    autoretry_for: tuple[type[BaseException], ...]
    dont_autoretry_for: tuple[type[BaseException], ...]
    max_retries: int | None
    default_delay: float
    backoff: float
    """The factor; 0: every retry waits for the default delay."""
    backoff_max: float
    jitter: bool

    @property
    def max_attempts(self) -> int:
        """The number of failures after which a message is dead."""
        return LARGEST if self.max_retries is None else self.max_retries + 1

    def __call__(self, error: BaseException, result: Failed) -> Delay:
        """Return the delay after failure `result.failures`; None: the message is dead."""
        if isinstance(error.__cause__, ParentFailed):
            return None  # the error of a parent, which was already retried
        if isinstance(error, Retry):
            return self._asked(error)
        if not isinstance(error, self.autoretry_for) or isinstance(
            error, (*self.dont_autoretry_for, *NEVER_BY_THEMSELVES)
        ):
            return None
        if self.max_retries is not None and result.failures > self.max_retries:
            return None
        if not self.backoff:
            return self.default_delay
        delay = min(self.backoff * 2.0 ** min(result.failures - 1, 64), self.backoff_max)
        return random.uniform(0, delay) if self.jitter else delay  # noqa: S311

    def _asked(self, retry: Retry) -> Delay:
        if retry.when is None:
            return self.default_delay
        if isinstance(retry.when, datetime):
            return aware(retry.when) - datetime.now(UTC)
        return as_timedelta(retry.when)


def retrying_of(task: Any) -> Retrying:
    """Return the backoff for a task's attributes.

    Raises:
        TypeError, ValueError: an attribute is invalid.
        Unsupported: retry_kwargs has more than max_retries and countdown.
    """
    given: Mapping[str, Any] = task.retry_kwargs or {}
    if others := set(given) - {"max_retries", "countdown"}:
        raise Unsupported(
            f"retry_kwargs of {task.name}: {', '.join(sorted(others))} must not change between the "
            "attempts of a message: call self.retry() in the task, or enqueue another message."
        )
    most = given.get("max_retries", task.max_retries)
    factor = float(task.retry_backoff or 0)
    return Retrying(
        autoretry_for=_classes(task.autoretry_for),
        dont_autoretry_for=_classes(task.dont_autoretry_for),
        max_retries=None if most is None else as_count(most, least=0, most=LARGEST - 1),
        default_delay=_seconds(given.get("countdown", task.default_retry_delay) or 0),
        backoff=max(1.0, factor) if factor else 0,
        backoff_max=_seconds(task.retry_backoff_max),
        jitter=bool(task.retry_jitter),
    )


def _classes(given: Any) -> tuple[type[BaseException], ...]:
    classes = (given,) if isinstance(given, type) else tuple(given or ())
    if not all(isinstance(each, type) and issubclass(each, BaseException) for each in classes):
        raise TypeError(f"{given!r} must be classes of exceptions.")
    return classes


def _seconds(given: float | timedelta) -> float:
    seconds = as_timedelta(given).total_seconds()
    if seconds < 0:
        raise ValueError(f"{given!r}: it must be 0 or more.")
    return seconds
