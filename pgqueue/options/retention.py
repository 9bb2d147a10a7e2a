"""How long what has ended is kept: one duration, or one for each of the ways to end.

Most want to look at failures for longer than at what went well, so outcomes may differ, in the
project's settings and in each channel. Dead letters have not ended: theirs is counted apart.
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
    """Return `value`, a duration or a dict of some by outcome, by outcome.

    Raises:
        TypeError: it is neither.
        ValueError: an outcome is unknown, or a duration not above 0 or beyond a hundred years.
    """
    given = value if isinstance(value, Mapping) else dict.fromkeys(Outcome.values, value)
    return {_outcome(name): as_duration(keep) for name, keep in given.items()}


def _outcome(name: Any) -> str:
    if name in Outcome.values:
        return str(name)
    raise ValueError(f"{name!r} is no outcome. {hint(name, Outcome.values)}")
