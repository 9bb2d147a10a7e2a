"""The options of a schedule, in code and in the project's settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from datetime import timedelta
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from django.conf import settings as django_settings

from pgqueue.exceptions import InvalidSchedule
from pgqueue.options.ticks import Cron, Every, Rhythm
from pgqueue.values.error_words import hint, shown
from pgqueue.values.names import as_text
from pgqueue.values.number_checks import as_timedelta

Missed = Literal["skip", "once", "all"]
Overlap = Literal["allow", "skip", "one"]
When: TypeAlias = "str | timedelta | float"

NAME_LIMIT = 500
"""The limit in bytes: a name is part of a key."""


@dataclass(frozen=True)
class Schedule:
    """The times at which pgqueue enqueues a task by itself, and the task's arguments.

    Args:
        when: a cron line, "*/5 * * * *" or "@daily", or an interval as seconds or a timedelta.
        timezone: the time zone of the line: "Europe/Berlin"; None: the project's TIME_ZONE.
        name: the name by which it is found, paused and run; "": the task's name.
        args, kwargs: the arguments of the task.
        missed: the reaction when the first tick is late by a minute, for example since no worker
            ran. "skip": no messages; "once": one message for all ticks; "all": one message for each
            of the last 1 000 ticks. Ticks that are less late have a message each.
        overlap: the reaction to a tick while an earlier message waits or runs. "allow": both;
            "skip": no message; "one": the messages run one at a time, in their order.
        each_tenant: whether each tick has a message for each tenant, of `PGQUEUE["TENANT"]`.

    Raises:
        InvalidSchedule: the value of an option is invalid.
    """

    when: When
    _: KW_ONLY
    timezone: str | None = None
    name: str = ""
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    missed: Missed = "once"
    overlap: Overlap = "allow"
    each_tenant: bool = False

    def __post_init__(self) -> None:
        if self.timezone is not None and not isinstance(self.when, str):
            raise InvalidSchedule(
                f"timezone={shown(self.timezone)}: it is for cron lines; an interval has none."
            )
        rhythm_of(self.when, "UTC" if self.timezone is None else self.timezone)
        checked_name(self.name)
        if not isinstance(self.args, list | tuple):
            raise InvalidSchedule(f"args={shown(self.args)}: it must be a list or a tuple.")
        if not isinstance(self.kwargs, Mapping):
            raise InvalidSchedule(f"kwargs={shown(self.kwargs)}: it must be a dict.")
        _check_one_of("missed", self.missed, get_args(Missed))
        _check_one_of("overlap", self.overlap, get_args(Overlap))
        if not isinstance(self.each_tenant, bool):
            raise InvalidSchedule(
                f"each_tenant={shown(self.each_tenant)}: it must be True or False."
            )

    @property
    def rhythm(self) -> Rhythm:
        """The rhythm of its ticks; without a time zone, in the project's."""
        return rhythm_of(self.when, self.timezone or project_timezone())


class Entry(NamedTuple):
    """A schedule of `PGQUEUE`, and the import path of its task."""

    task: str
    schedule: Schedule


def rhythm_of(when: When, timezone: str) -> Rhythm:
    """Return the rhythm for a cron line or an interval.

    Raises:
        InvalidSchedule: the value is neither.
    """
    if not isinstance(timezone, str):
        raise InvalidSchedule(f"timezone={shown(timezone)}: it must be the name of a time zone.")
    if isinstance(when, str):
        return Cron(" ".join(when.split()), timezone)
    try:
        return Every(as_timedelta(when))
    except (TypeError, ValueError) as error:
        raise InvalidSchedule(
            f"{shown(when)} is neither a cron line nor an interval, as seconds or a timedelta."
            if isinstance(error, TypeError)
            else str(error)
        ) from error


def project_timezone() -> str:
    """Return the name of the project's time zone."""
    return django_settings.TIME_ZONE or "UTC"


def as_schedules(given: Any) -> tuple[Schedule, ...]:
    """Return the value of `@task(schedule=…)`, one schedule or a list, as schedules.

    Raises:
        InvalidSchedule: a schedule is invalid, or two have the same name.
    """
    several = given if isinstance(given, list | tuple) else [given]
    schedules = tuple(each if isinstance(each, Schedule) else Schedule(each) for each in several)
    names = [each.name for each in schedules]
    if len(set(names)) < len(names):
        raise InvalidSchedule("Each of several schedules needs its own name: Schedule(…, name=…).")
    return schedules


def as_entries(given: Any) -> dict[str, Entry]:
    """Return the SCHEDULES of `PGQUEUE` by their names.

    Raises:
        InvalidSchedule: an option of an entry is unknown, or its value is invalid.
    """
    if not isinstance(given, Mapping):
        raise InvalidSchedule("it must be a dict of dicts.")
    return {name: _entry(name, entry) for name, entry in given.items()}


def _entry(name: Any, given: Any) -> Entry:
    known = ["task", *(each.name for each in fields(Schedule) if each.name != "name")]
    try:
        if not isinstance(given, Mapping):
            raise InvalidSchedule(f"{shown(given)} is no dict.")
        for option in given:
            if option not in known:
                raise InvalidSchedule(f"it has no option {option!r}. {hint(option, known)}")
        for option in ("task", "when"):
            if option not in given:
                raise InvalidSchedule(f"it needs {option!r}.")
        if not isinstance(given["task"], str):
            raise InvalidSchedule(f"task={shown(given['task'])}: it must be an import path.")
        rest = {option: value for option, value in given.items() if option != "task"}
        return Entry(given["task"], Schedule(name=checked_name(name, least=1), **rest))
    except InvalidSchedule as error:
        raise InvalidSchedule(f"{shown(name)}: {error}") from error


def checked_name(name: Any, *, least: int = 0) -> str:
    """Return `name` if it is a valid name of a schedule.

    Raises:
        InvalidSchedule: the name is no text, is too short or too long, or is not storable.
    """
    try:
        text = as_text(name, NAME_LIMIT)
    except (TypeError, ValueError) as error:
        raise InvalidSchedule(f"name={shown(name)}: {error}") from error
    if len(text) < least:
        raise InvalidSchedule("name='': it must be a name.")
    return text


def _check_one_of(option: str, value: Any, words: Sequence[str]) -> None:
    if value not in words:
        raise InvalidSchedule(
            f"{option}={shown(value)}: it must be one of {', '.join(map(repr, words))}."
        )
