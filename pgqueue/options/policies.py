"""The options of a policy, and their checks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from pgqueue.exceptions import InvalidPolicy
from pgqueue.values.error_words import checked_option, shown
from pgqueue.values.number_checks import as_count, as_timedelta

BREAKER = ("breaker_failures", "breaker_within", "breaker_pause")
"""The columns of a breaker, in the order of its values."""
SLOWEST_RATE, FASTEST_RATE = 1e-6, 1e6
LONGEST_PER = timedelta(days=366)
SHORTEST_START = 1e-6  # seconds: PostgreSQL rounds a shorter time to 0, and would divide by it
MOST_FAILURES = 1000
"""The most failures that a breaker counts: their times are in one row."""
LONGEST_BURST = 100 * 366 * 86_400.0  # seconds: a much later end is beyond PostgreSQL's range


def checked(
    *,
    max_running: int | None,
    rate: float | None,
    per: timedelta | float,
    burst: int | None,
    max_size: int | None,
    weight: int | None,
    breaker: tuple[int, timedelta | float, timedelta | float] | None,
) -> dict[str, Any]:
    """Return the columns of a policy with these limits.

    Raises:
        InvalidPolicy: the value of an option is invalid, or there is no limit.
    """
    limits = {"max_running": max_running, "rate": rate, "max_size": max_size, "weight": weight}
    if breaker is None and all(limit is None for limit in limits.values()):
        raise InvalidPolicy(
            f"It has no limit: give {', '.join([*limits, 'breaker'])}. "
            "To remove a policy, remove_policy()."
        )
    columns = {
        name: _check(name, value) for name, value in {**limits, "per": per, "burst": burst}.items()
    }
    if rate is not None:
        _check_pace(rate, columns["per"], burst)
    elif burst is not None:
        raise InvalidPolicy(f"burst={burst!r}: it needs a rate.")
    return {**columns, **_breaker(breaker)}


def _breaker(breaker: Any) -> dict[str, Any]:
    """Return the columns of a breaker, which are None without one."""
    if breaker is None:
        return dict.fromkeys(BREAKER)
    if not isinstance(breaker, tuple | list) or len(breaker) != len(BREAKER):
        raise InvalidPolicy(
            f"breaker={shown(breaker)}: it must be three values: failures, within and pause."
        )
    checks: tuple[Callable[[Any], Any], ...] = (partial(as_count, most=MOST_FAILURES), _per, _per)
    return {
        name: checked_option(check, name.replace("_", ": "), value, InvalidPolicy)
        for name, check, value in zip(BREAKER, checks, breaker, strict=True)
    }


def _check(name: str, value: Any) -> Any:
    if value is None and name != "per":
        return None
    return checked_option(_CHECKS[name], name, value, InvalidPolicy)


def _check_pace(rate: float, per: timedelta, burst: int | None) -> None:
    start = per.total_seconds() / rate
    if start < SHORTEST_START:
        raise InvalidPolicy(f"rate={rate!r}: it may be a million a second at most.")
    if start * (burst or 1) > LONGEST_BURST:
        raise InvalidPolicy(
            f"burst={burst!r}: by this rate it would take longer than 100 years."
            if burst
            else f"rate={rate!r}: it must be one in 100 years at least."
        )


def _rate(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError("it must be a number.")
    if not SLOWEST_RATE <= value <= FASTEST_RATE:  # refuses NaN, too
        raise ValueError("it must be above 0: from a millionth to a million.")
    return float(value)


def _per(value: Any) -> timedelta:
    per = as_timedelta(value)
    if not timedelta() < per <= LONGEST_PER:
        raise ValueError("it must be longer than 0 seconds, and a year at most.")
    return per


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "max_running": as_count,
    "rate": _rate,
    "per": _per,
    "burst": as_count,
    "max_size": as_count,
    "weight": partial(as_count, most=100),
}
