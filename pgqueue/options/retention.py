"""The retention of ended messages: one duration, or one for each outcome.

Most projects keep failures for longer than successes. So the durations may differ by outcome, in
the project's settings and in each channel. Dead letters have a retention of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, TypeAlias

from pgqueue.states import Outcome
from pgqueue.values.error_words import hint
from pgqueue.values.number_checks import as_duration

Retention: TypeAlias = "Mapping[str, timedelta]"


def as_retention(value: Any) -> dict[str, timedelta]:
    """Return the durations by outcome, for a duration or a dict of durations by outcome.

    Raises:
        TypeError: the value is neither.
        ValueError: an outcome is unknown, or a duration is not above 0, or is beyond a hundred
            years.
    """
    given = value if isinstance(value, Mapping) else dict.fromkeys(Outcome.values, value)
    return {_outcome(name): as_duration(keep) for name, keep in given.items()}


def _outcome(name: Any) -> str:
    if name in Outcome.values:
        return str(name)
    raise ValueError(f"{name!r} is no outcome. {hint(name, Outcome.values)}")
