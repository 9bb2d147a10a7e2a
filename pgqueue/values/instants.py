"""Times as users give them, as PostgreSQL takes them, and as a project has them.

A project with `USE_TZ = False` has times without a zone: they are in its TIME_ZONE. Its connections
return such times, and the queue's own connections do not. So values for users pass through
`of_project()`, and what is computed here, or written as text, is `aware`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TypeVar

from django.conf import settings
from django.utils import timezone

from pgqueue.values.readable import EARLIEST, LATEST

T = TypeVar("T", datetime, datetime | None)


def as_instant(value: datetime) -> datetime:
    """Return a time in UTC, if the database takes it.

    Raises:
        ValueError: it has no time zone, in a project with `USE_TZ`; or it is beyond the years 1 to
            9999, or at their very ends.
    """
    if value.utcoffset() is None:
        if settings.USE_TZ:
            raise ValueError("it must say its time zone.")
        value = _with_zone(value)
    # Compared as they are: to convert a time at the ends of the years would overflow.
    if not EARLIEST <= value <= LATEST:
        raise ValueError("it must be in the years 1 to 9999, and two days within them.")
    return value.astimezone(UTC)


def of_project(moment: T) -> T:
    """Return a time as the project has its times: with a zone, or in its own without one."""
    if moment is None or settings.USE_TZ or timezone.is_naive(moment):
        return moment
    return timezone.make_naive(moment, timezone.get_default_timezone())


def aware(moment: datetime) -> datetime:
    """Return a time of the project with its zone."""
    return _with_zone(moment) if timezone.is_naive(moment) else moment


def local(moment: datetime) -> datetime:
    """Return a time as pages show it: in the current time zone."""
    return timezone.localtime(aware(moment))


def _with_zone(moment: datetime) -> datetime:
    return moment.replace(tzinfo=timezone.get_default_timezone())
