"""Celery's schedules for periodic tasks: crontab and schedule."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, NoReturn, Self, TypeAlias

from django.utils import timezone

from pgqueue.compat.celery import absent, current
from pgqueue.compat.celery.exceptions import Unsupported
from pgqueue.exceptions import InvalidSchedule
from pgqueue.options.schedules import When, project_timezone, rhythm_of
from pgqueue.values.error_words import shown
from pgqueue.values.instants import local
from pgqueue.values.number_checks import as_timedelta

Field: TypeAlias = "str | int | Iterable[int]"

DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
RANGE = re.compile(r"(\w+)-(\w+)(/\d+)?")


class schedstate(NamedTuple):
    """Whether a schedule is due, and the seconds until it is due next."""

    is_due: bool
    next: float


class BaseSchedule:
    """The base of schedules. Other classes than crontab and schedule are refused in beat_schedule,
    since workers never call the methods of a schedule."""

    def __init__(self, nowfun: Callable[[], datetime] | None = None, app: Any = None) -> None:
        self.nowfun = nowfun
        self.app = app

    def now(self) -> datetime:
        """Return the current time in the project's time zone."""
        nowfun = getattr(self, "nowfun", None)
        return nowfun() if nowfun else local(timezone.now())

    def remaining_estimate(self, last_run_at: datetime) -> timedelta:
        """Return the time until it is due, counted from the last run."""
        raise NotImplementedError

    def is_due(self, last_run_at: datetime) -> schedstate:
        """Return whether it is due, and the seconds until it is due next."""
        left = self.remaining_estimate(last_run_at).total_seconds()
        if left > 0:
            return schedstate(False, left)
        return schedstate(True, self.remaining_estimate(self.now()).total_seconds())

    def maybe_make_aware(self, dt: datetime) -> datetime:
        """Return a datetime with a time zone; a naive datetime is taken as UTC."""
        return dt.replace(tzinfo=UTC) if timezone.is_naive(dt) else dt


class _KnownSchedule(BaseSchedule):
    """A schedule whose rhythm pgqueue knows."""

    def remaining_estimate(self, last_run_at: datetime) -> timedelta:
        """Return the time until its next tick after the last run."""
        when: Any = self.line if isinstance(self, crontab) else self.run_every  # type: ignore[attr-defined]
        named = current.conf().timezone
        zone = str(named) if named and isinstance(when, str) else project_timezone()
        then = rhythm_of(when, zone).after(self.maybe_make_aware(last_run_at))
        return then - self.now()


class crontab(_KnownSchedule):
    """The times of a cron line; each field is text, a number or several numbers.

    Raises:
        InvalidSchedule: a field is invalid, or the fields have another meaning in cron.
    """

    def __init__(
        self,
        minute: Field = "*",
        hour: Field = "*",
        day_of_week: Field = "*",
        day_of_month: Field = "*",
        month_of_year: Field = "*",
        *,
        app: Any = None,
        **others: Any,
    ) -> None:
        super().__init__(app=app)
        if others:
            raise Unsupported(
                f"crontab({', '.join(others)}=…): cron lines follow the project's clock. "
                "For a time zone, set CELERY_TIMEZONE, or pgqueue.Schedule(…, timezone=…)."
            )
        days = _field(day_of_month, range(1, 32))
        weekdays = _field(day_of_week, range(7), DAYS)
        if not days.startswith("*") and not weekdays.startswith("*"):
            raise InvalidSchedule(
                "crontab(day_of_month=…, day_of_week=…): Celery runs on days that match both, a "
                "cron line on days that match either. Give one of them, and check the other one "
                "in the task."
            )
        months = _field(month_of_year, range(1, 13), MONTHS)
        line = (_field(minute, range(60)), _field(hour, range(24)), days, months, weekdays)
        self.line = " ".join(line)

    @classmethod
    def from_string(cls, crontab: str) -> Self:
        """Return the crontab of a cron line: minute, hour, day, month and day of the week.

        Raises:
            InvalidSchedule: the text is no cron line of five fields.
        """
        fields = crontab.split()
        if len(fields) != 5:
            raise InvalidSchedule(f"crontab: {shown(crontab)} has {len(fields)} fields, not 5.")
        minute, hour, day_of_month, month_of_year, day_of_week = fields
        return cls(minute, hour, day_of_week, day_of_month, month_of_year)

    def __repr__(self) -> str:
        return f"<crontab: {self.line}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, crontab) and other.line == self.line

    def __hash__(self) -> int:
        return hash(self.line)


class schedule(_KnownSchedule):
    """A fixed interval. Its ticks are multiples of it since 1970, even if it is `relative`.

    Args:
        run_every: seconds or a timedelta.

    Raises:
        InvalidSchedule: run_every is no interval.
    """

    def __init__(
        self,
        run_every: float | timedelta,
        relative: bool = False,
        nowfun: Callable[[], datetime] | None = None,
        app: Any = None,
    ) -> None:
        super().__init__(nowfun, app)
        try:
            self.run_every = as_timedelta(run_every)
        except (TypeError, ValueError) as error:
            raise InvalidSchedule(f"schedule({shown(run_every)}): {error}") from error
        self.relative = relative


class solar:
    """Sunrise and sunset: refused as schedules."""

    def __init__(self, event: str, lat: float, lon: float, **others: Any) -> NoReturn:
        raise Unsupported(
            f"solar({event!r}): no schedule follows the sun. Schedule a task by a cron line "
            "shortly before, compute the time in it (with astral, for example), and enqueue the "
            "other task by apply_async(eta=…)."
        )


def when_of(given: Any) -> When:
    """Return a schedule of Celery's as the `when` of `pgqueue.Schedule`.

    Raises:
        InvalidSchedule: the value is no schedule, or its class computes its due times itself.
    """
    for name in ("is_due", "remaining_estimate"):
        own = getattr(type(given), name, None)
        if isinstance(given, BaseSchedule) and own is not getattr(_KnownSchedule, name):
            raise InvalidSchedule(
                f"{type(given).__name__}.{name}(): workers do not call it. {absent.SCHEDULES}."
            )
    if isinstance(given, crontab):
        return given.line
    if isinstance(given, schedule):
        return given.run_every
    if isinstance(given, int | float | timedelta) and not isinstance(given, bool):
        return given
    raise InvalidSchedule(
        f"{shown(given)}: it must be crontab(…), schedule(…), a timedelta or seconds."
    )


def maybe_schedule(s: Any, relative: bool = False, app: Any = None) -> Any:
    """Return seconds or a timedelta as a schedule; anything else as it is."""
    if isinstance(s, int | float | timedelta) and not isinstance(s, bool):
        return schedule(s, relative=relative, app=app)
    return s


def _field(given: Any, possible: range, names: tuple[str, ...] = ()) -> str:
    if isinstance(given, int) and not isinstance(given, bool):
        return _number(str(given), possible, names)
    if not isinstance(given, str):
        return ",".join(sorted((_number(str(each), possible, names) for each in given), key=int))
    return ",".join(_part(part.strip().lower(), possible, names) for part in given.split(","))


def _part(part: str, possible: range, names: tuple[str, ...]) -> str:
    """Return a part of a field in cron's syntax, without names and ranges over the end."""
    if part.startswith("*"):
        return part
    if not (found := RANGE.fullmatch(part)):
        return _number(part, possible, names)
    first, last = (int(_number(each, possible, names)) for each in found.groups()[:2])
    step = int((found[3] or "/1")[1:])
    if first <= last:
        return f"{first}-{last}{found[3] or ''}"
    around = [*range(first, possible.stop), *range(possible.start, last + 1)]
    return ",".join(str(each) for each in sorted(around[::step]))


def _number(text: str, possible: range, names: tuple[str, ...]) -> str:
    if text.isalpha() and text[:3] in names:
        return str(names.index(text[:3]) + possible.start)
    if not text.isdecimal() or int(text) not in possible:
        raise InvalidSchedule(
            f"crontab: {shown(text)} must be from {possible.start} to {possible.stop - 1}."
        )
    return text


__getattr__ = absent.names_of(__name__)
