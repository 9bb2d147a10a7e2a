"""Check-ins for Sentry's monitors of schedules, https://docs.sentry.io/product/crons/."""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import timedelta
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from pgqueue.checkins.reporting import CheckIn
from pgqueue.exceptions import InvalidSchedule
from pgqueue.options.schedules import Schedule, project_timezone
from pgqueue.values.number_checks import as_timedelta

STATUSES = {"started": "in_progress", "succeeded": "ok", "failed": "error"}
LONGEST_SLUG = 50
MINUTE = timedelta(minutes=1)
UNITS = (("day", timedelta(days=1)), ("hour", timedelta(hours=1)), ("minute", MINUTE))


class SentryCrons:
    """Sends check-ins by the Sentry SDK of the process, which sends them by a thread of its own.

    The monitor's slug is the schedule's name in lower case, with "-" for other characters than
    letters, digits, "-" and "_", and at most 50 characters long. Monitors of schedules in code are
    created and kept up to date, except those at intervals of no whole minutes.

    Args:
        names: the schedules; None: all.
        max_runtime: minutes, or a timedelta, after which a run counts as failed in Sentry.
        margin: minutes, or a timedelta, by which a run may be late.

    Raises:
        ImportError: sentry-sdk is not installed.
        InvalidSchedule: a value is invalid.
    """

    def __init__(
        self,
        names: Collection[str] | None = None,
        *,
        max_runtime: float | timedelta | None = None,
        margin: float | timedelta | None = None,
    ) -> None:
        try:
            from sentry_sdk.crons import capture_checkin
        except ImportError as error:
            raise ImportError("SentryCrons needs sentry-sdk: pip install sentry-sdk.") from error
        if isinstance(names, str):
            raise InvalidSchedule(f"names={names!r}: it must be a list of names.")
        self._capture = capture_checkin
        self._names = names
        limits = {
            "max_runtime": _minutes("max_runtime", max_runtime),
            "checkin_margin": _minutes("margin", margin),
        }
        self._limits = {name: value for name, value in limits.items() if value is not None}

    def __call__(self, check_in: CheckIn) -> None:
        """Send a check-in, if the schedule has a monitor."""
        if self._names is not None and check_in.name not in self._names:
            return
        # The start and the end have the same id, also if other processes report them.
        id = uuid5(NAMESPACE_URL, f"pgqueue:{check_in.database}:{check_in.message_id}").hex
        self._capture(
            monitor_slug=slug(check_in.name),
            check_in_id=id,
            status=STATUSES[check_in.status],
            duration=check_in.seconds,
            monitor_config=self._config(check_in.schedule),
        )

    def _config(self, schedule: Schedule | None) -> Any:
        when = None if schedule is None else _when(schedule)
        if schedule is None or when is None:
            return None
        timezone = schedule.timezone or project_timezone()
        return {"schedule": when, "timezone": timezone, **self._limits}


def slug(name: str) -> str:
    """Return the slug of a schedule's monitor."""
    return re.sub(r"[^a-z0-9_-]+", "-", name.lower())[:LONGEST_SLUG].strip("-") or "schedule"


def _when(schedule: Schedule) -> dict[str, Any] | None:
    """Return the times as Sentry describes them; None: it can't."""
    if isinstance(schedule.when, str):
        return {"type": "crontab", "value": schedule.when}
    every = as_timedelta(schedule.when)
    for unit, length in UNITS:
        if every >= length and not every % length:
            return {"type": "interval", "value": every // length, "unit": unit}
    return None


def _minutes(name: str, value: float | timedelta | None) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | timedelta):
        raise InvalidSchedule(f"{name}={value!r}: it must be minutes or a timedelta.")
    minutes = value / MINUTE if isinstance(value, timedelta) else value
    if not 1 <= minutes < 1_000_000:
        raise InvalidSchedule(f"{name}={value!r}: it must be a minute or more.")
    return int(minutes)
