"""The entries of beat_schedule as pgqueue's schedules, which workers enqueue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pgqueue.compat.celery import absent, current
from pgqueue.compat.celery.calling import options_of
from pgqueue.compat.celery.exceptions import Unsupported
from pgqueue.compat.celery.running import CeleryTask
from pgqueue.compat.celery.schedules import when_of
from pgqueue.compat.celery.signatures import Signature
from pgqueue.exceptions import InvalidSchedule, PGQueueError
from pgqueue.options.schedules import Schedule
from pgqueue.tasks import registry
from pgqueue.tasks.declaration import Declaration
from pgqueue.values.error_words import hint, shown

FIELDS = ("task", "schedule", "args", "kwargs", "options", "relative")


def entries() -> Iterator[tuple[Declaration[Any, Any], Schedule]]:
    """Yield the schedules of the current app, and their tasks.

    Raises:
        InvalidSchedule: an entry is invalid.
    """
    current.discovery.import_all()
    for app in current.apps[-1:]:
        app.configure()
    conf = current.conf()
    for name, entry in conf.beat_schedule.items():
        yield _entry(name, entry, conf.timezone)


def entry_of(
    schedule: Any, call: Any, args: Any, kwargs: Any, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments of `add_periodic_task` as an entry of beat_schedule.

    Raises:
        Unsupported: the call is a chain, a group or a chord.
    """
    if isinstance(call, Signature):
        if call.kind in ("chain", "group", "chord", "chunks"):
            raise Unsupported(f"A schedule of a {call.kind}: schedule a task that calls it.")
        args, kwargs = (*(args or ()), *call.args), {**call.kwargs, **(kwargs or {})}
        options = {**call.options, **options}
    return {
        "task": call if isinstance(call, str) else call.name,
        "schedule": schedule,
        "args": tuple(args or ()),
        "kwargs": dict(kwargs or {}),
        "options": dict(options),
    }


def _entry(name: Any, entry: Any, timezone: Any) -> tuple[Declaration[Any, Any], Schedule]:
    try:
        if not isinstance(entry, Mapping):
            raise InvalidSchedule(f"{shown(entry)} is no dict.")
        for field in entry:
            if field not in FIELDS:
                raise InvalidSchedule(f"it has no field {field!r}. {hint(field, FIELDS)}")
        for field in ("task", "schedule"):
            if field not in entry:
                raise InvalidSchedule(f"it needs {field!r}.")
        when = when_of(entry["schedule"])
        task = registry.find(entry["task"])
        if task is None:
            raise InvalidSchedule(f"No task is named {entry['task']!r} here.")
        if options := entry.get("options"):
            _check(task, options)
        return task, Schedule(
            when,
            timezone=str(timezone) if timezone and isinstance(when, str) else None,
            name=name,
            args=tuple(entry.get("args") or ()),
            kwargs=dict(entry.get("kwargs") or {}),
        )
    except PGQueueError as error:
        raise InvalidSchedule(f"beat_schedule[{name!r}]: {error}") from error


def _check(task: Declaration[Any, Any], options: Any) -> None:
    """Refuse options that are invalid for a message."""
    if not isinstance(options, Mapping):
        raise InvalidSchedule(f"options={shown(options)}: it must be a dict.")
    if not isinstance(task, CeleryTask):
        raise InvalidSchedule(f"options are for tasks of Celery's kind: set them at {task.name}.")
    task.using(**options_of(task.origin, dict(options)))


class Scheduler:
    """The class of beat's schedulers, for packages that wrap it. Workers have no scheduler."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise Unsupported(
            "A beat scheduler: workers enqueue the entries of beat_schedule; the admin adds others."
        )

    def apply_entry(self, entry: Any, producer: Any = None) -> None:
        """Do nothing: workers never call it."""


registry.schedulers.append(entries)


__getattr__ = absent.names_of(__name__)
