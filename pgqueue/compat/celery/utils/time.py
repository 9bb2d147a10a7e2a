"""Celery's helpers for instants and durations."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from django.utils import timezone as django_timezone

from pgqueue.compat.celery import absent
from pgqueue.compat.celery.utils.rate_limits import rate_of

__all__ = [
    "get_exponential_backoff_interval",
    "humanize_seconds",
    "is_naive",
    "localize",
    "make_aware",
    "maybe_iso8601",
    "maybe_make_aware",
    "maybe_timedelta",
    "rate",
    "remaining",
    "timezone",
    "to_utc",
]

UNITS = ((86400.0, "day"), (3600.0, "hour"), (60.0, "minute"), (1.0, "second"))


class _Zones:
    """Time zones by their names."""

    utc = UTC

    @property
    def local(self) -> tzinfo:
        """The project's time zone."""
        return django_timezone.get_default_timezone()

    def get_timezone(self, zone: Any) -> tzinfo:
        """Return the time zone of this name."""
        return ZoneInfo(zone) if isinstance(zone, str) else zone

    def to_local(self, dt: datetime, local: Any = None, orig: Any = None) -> datetime:
        """Return an instant in the project's time zone, or in another one."""
        return make_aware(dt, orig or UTC).astimezone(local or self.local)


timezone = _Zones()


def is_naive(dt: datetime) -> bool:
    """Say whether a datetime has no time zone."""
    return django_timezone.is_naive(dt)


def make_aware(dt: datetime, tz: tzinfo) -> datetime:
    """Return a datetime with this time zone, if it has none."""
    return dt.replace(tzinfo=tz) if is_naive(dt) else dt


def maybe_make_aware(dt: datetime, tz: tzinfo | None = None, naive_as_utc: bool = True) -> datetime:
    """Return an aware datetime; a naive one is taken as UTC, or in the project's time zone."""
    return make_aware(dt, UTC if naive_as_utc else tz or timezone.local)


def localize(dt: datetime, tz: tzinfo) -> datetime:
    """Return an aware datetime in this time zone."""
    return dt.astimezone(tz)


def to_utc(dt: datetime) -> datetime:
    """Return a datetime in UTC."""
    return make_aware(dt, UTC).astimezone(UTC)


def maybe_iso8601(dt: datetime | str | None) -> datetime | None:
    """Return the datetime of an ISO 8601 text; other values stay unchanged."""
    return datetime.fromisoformat(dt) if isinstance(dt, str) else dt


def maybe_timedelta(delta: Any) -> Any:
    """Return a number of seconds as a timedelta; other values stay unchanged."""
    return timedelta(seconds=delta) if isinstance(delta, int | float) else delta


def remaining(
    start: datetime, ends_in: timedelta, now: datetime | None = None, relative: bool = False
) -> timedelta:
    """Return the time until `ends_in` after the start.

    Args:
        relative: without effect: the end is not rounded.
    """
    return start + ends_in - (now or datetime.now(UTC))


def rate(r: Any) -> float:
    """Return a rate limit, "10/m", as a number per second; 0: none."""
    found = rate_of(r)
    return found[0] / found[1] if found else 0


def humanize_seconds(
    secs: float, prefix: str = "", sep: str = "", now: str = "now", microseconds: bool = False
) -> str:
    """Return a number of seconds in words: "2.00 hours"."""
    for size, unit in UNITS:
        if secs >= size:
            number = secs / size
            return f"{prefix}{sep}{number:.2f} {unit}{'s' if number > 1 else ''}"
    if microseconds and secs > 0:
        return f"{prefix}{sep}{secs:.2f} seconds"
    return now


def get_exponential_backoff_interval(
    factor: float, retries: int, maximum: float, full_jitter: bool = False
) -> float:
    """Return the seconds to wait before the next try."""
    seconds = min(maximum, factor * 2**retries)
    return max(0, random.randrange(int(seconds) + 1) if full_jitter else seconds)  # noqa: S311


__getattr__ = absent.names_of(__name__)
