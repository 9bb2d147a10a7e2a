"""Schedules of tasks: the schedules that the project's code declares, and a tick's message."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

import psycopg
from django.core.exceptions import ObjectDoesNotExist
from django.db import connections, transaction
from django.utils.module_loading import autodiscover_modules

from pgqueue import models
from pgqueue.conf import settings
from pgqueue.database.migration_check import needing_tables
from pgqueue.engine import schedule as engine
from pgqueue.engine.schedule import DeclaredSchedule, Scheduled
from pgqueue.exceptions import InvalidSchedule, InvalidTask, PGQueueError, UnknownTask
from pgqueue.options.schedules import Schedule, checked_name, rhythm_of
from pgqueue.options.ticks import Cron
from pgqueue.redaction import Hidden
from pgqueue.tasks import redacting, registry, tenants
from pgqueue.tasks.declaration import Declaration
from pgqueue.tasks.definition import Task, find_task
from pgqueue.tasks.dropping import refuse_dropped
from pgqueue.tasks.result import TaskResult


def declared(database: str) -> list[DeclaredSchedule]:
    """Return the schedules that the project's code declares, sorted by name.

    This imports the `tasks` modules of all apps, since most schedules are declared there.

    Args:
        database: the alias of the database that stores these schedules.

    Raises:
        InvalidSchedule: a task is unknown, its arguments or its options do not fit, or two
            schedules have the same name.
    """
    autodiscover_modules("tasks")
    found = [_described(task, schedule) for task, schedule in _each() if task.alias == database]
    [(name, count)] = Counter(each.name for each in found).most_common(1) or [("", 0)]
    if count > 1:
        raise InvalidSchedule(f"{count} schedules are named {name!r}: give each a name of its own.")
    return sorted(found)


def _each() -> Iterator[tuple[Declaration[Any, Any], Schedule]]:
    for task in registry.each():
        for schedule in task.schedule:
            yield task, schedule
    for name, entry in settings().schedules.items():
        try:
            yield known(entry.task), entry.schedule
        except UnknownTask as error:
            raise InvalidSchedule(f"PGQUEUE['SCHEDULES'][{name!r}]: {error}") from error
    for scheduler in registry.schedulers:
        yield from scheduler()


def _described(task: Declaration[Any, Any], schedule: Schedule) -> DeclaredSchedule:
    rhythm = schedule.rhythm
    when: dict[str, Any] = {"cron": "", "every": None, "timezone": "UTC"}
    if isinstance(rhythm, Cron):
        when |= {"cron": rhythm.line, "timezone": rhythm.timezone}
    else:
        when |= {"every": rhythm.interval}
    name = schedule.name or task.name
    if schedule.each_tenant and settings().tenant is None:
        raise InvalidSchedule(f"{name!r}: each_tenant needs PGQUEUE['TENANT'].")
    if task.encrypted and (schedule.args or schedule.kwargs):
        raise InvalidSchedule(f"{name!r}: {_kept_open(task)}")
    try:
        task.using(**OVERLAPS[schedule.overlap](name))
        payload = json.loads(task.plain_codec.encode(tuple(schedule.args), schedule.kwargs))
    except (InvalidTask, TypeError) as error:  # InvalidArguments is a TypeError
        raise InvalidSchedule(f"{name!r}: {error}") from error
    return DeclaredSchedule(
        name=name,
        task=task.name,
        **when,
        args=json.dumps(payload["args"]),
        kwargs=json.dumps(payload["kwargs"]),
        missed=schedule.missed,
        overlap=schedule.overlap,
        each_tenant=schedule.each_tenant,
    )


def _kept_open(task: Declaration[Any, Any]) -> str:
    return (
        f"{task.name} is encrypted, and a schedule's arguments are stored as they are: have the "
        "task look them up."
    )


def known(name: str) -> Task[Any, Any]:
    """Return the task of this name, importing its module.

    Raises:
        UnknownTask: no task has this name, or the import of its module fails.
    """
    try:
        task = find_task(name)
    except Exception as error:  # the module's own
        said = f"{type(error).__name__}: {error}"
        raise UnknownTask(f"The module of the task {name!r} can't be imported: {said}") from error
    if task is None:
        raise UnknownTask(f"No task is named {name!r} here.")
    return task


def check_schedule(row: models.Schedule) -> None:
    """Check that a worker can execute a schedule.

    Raises:
        InvalidSchedule: the times are invalid, the task is unknown, or its arguments or its options
            do not fit.
    """
    checked_name(row.name, least=1)
    rhythm_of(row.when, row.timezone)
    if not isinstance(row.args, list) or not isinstance(row.kwargs, dict):
        raise InvalidSchedule("args must be a list, and kwargs a dict.")
    try:
        task = known(row.task)
        overlap = OVERLAPS[row.overlap](row.name)
        task.using(channel=row.channel or None, priority=row.priority or 0, **overlap)
        arguments(task, json.dumps(row.args), json.dumps(row.kwargs))
        if task.encrypted and (row.args or row.kwargs):
            raise InvalidSchedule(_kept_open(task))
    except (PGQueueError, ObjectDoesNotExist) as error:
        raise InvalidSchedule(str(error)) from error


def arguments(task: Task[Any, Any], args: str, kwargs: str) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments with which a schedule's row calls its task.

    Raises:
        UnreadablePayload: the texts are no arguments, or belong to another task.
        InvalidArguments: the arguments do not fit the function.
        ObjectDoesNotExist: the row of a model instance is gone.
    """
    found = task.codec.decode(f'{{"args": {args}, "kwargs": {kwargs}}}')
    task.plain_codec.encode(*found)
    return found


def hiding(scheduled: Scheduled) -> Hidden:
    """Return the `Hidden` that removes a schedule's redacted arguments from texts."""
    given = (json.loads(scheduled.args), json.loads(scheduled.kwargs))
    return redacting.redacted_call(scheduled.task, *given)[2]


def enqueue(
    scheduled: Scheduled, tick: datetime, connection: psycopg.Connection[Any]
) -> TaskResult[Any] | None:
    """Store the message of a tick, in the transaction of `connection`.

    A schedule with `each_tenant` has a message for each tenant, or none at all.

    Returns:
        The first new message, or else one that lives; None: there are no tenants.

    Raises:
        InvalidTenant: the project's function has no names.
        UnknownTask: no task has the schedule's task name here.
        PGQueueError: the task refuses the arguments or options.
    """
    metadata = {"schedule": scheduled.name, "tick": tick.isoformat()}
    return _enqueue_each(scheduled, metadata, connection=connection)


def run(name: str, *, database: str | None = None) -> TaskResult[Any]:
    """Enqueue the message of a schedule now, between its ticks and even if it is paused.

    Its ticks do not change. If the schedule skips ticks while an earlier message waits or runs,
    the earlier message is returned (its `came_of` is "existing").

    A schedule with `each_tenant` has a message for each tenant; the first one is returned.

    Args:
        database: the alias of the queue's database, if not the one of `PGQUEUE`.

    Raises:
        InvalidSchedule: no schedule has this name.
        UnknownTask: no task has the schedule's task name here.
        PGQueueError: the task refuses the arguments or options.
    """
    alias = database or settings().database
    with needing_tables(alias):
        scheduled = engine.find_schedule(connections[alias], name)
    if scheduled is None:
        raise InvalidSchedule(f"There is no schedule {name!r}.")
    with transaction.atomic(using=alias):
        result = _enqueue_each(scheduled, {"schedule": name}, database=alias)
    if result is None:
        raise InvalidSchedule(f"{name!r} is for each tenant, and there are no tenants.")
    return result


def _enqueue_each(
    scheduled: Scheduled, metadata: Mapping[str, str], **where: Any
) -> TaskResult[Any] | None:
    lane = f"schedule:{scheduled.name}"
    if not _is_for_each_tenant(scheduled):
        return _enqueue(scheduled, metadata, lane, **where)
    results = [
        _enqueue(scheduled, {**metadata, tenants.TENANT: each}, f"{lane}:{each}", **where)
        for each in tenants.every()
    ]
    new = [each for each in results if each.came_of != "existing"]
    return next(iter([*new, *results]), None)


def _is_for_each_tenant(scheduled: Scheduled) -> bool:
    """Return whether the code that declares a schedule says so: its row does not."""
    if not scheduled.definition:
        return False
    task, entry = known(scheduled.task), settings().schedules.get(scheduled.name)
    declared = [each for each in task.schedule if (each.name or task.name) == scheduled.name]
    if entry is not None:
        declared.append(entry.schedule)
    return any(each.each_tenant for each in declared)


def _enqueue(
    scheduled: Scheduled, metadata: Mapping[str, str], lane: str, **where: Any
) -> TaskResult[Any]:
    task = known(scheduled.task)
    own = task.scheduled_by(scheduled.name)
    options: dict[str, Any] = {
        **own,
        # "Run now" is pressed in a tenant, and ticks are in none: both must have the same key.
        "metadata": {
            **tenants.outside(),
            **task.metadata,
            **own.get("metadata", {}),
            **metadata,
        },
        "enqueue_on_commit": False,
        **OVERLAPS[scheduled.overlap](lane),
        **where,
    }
    if scheduled.channel:
        options["channel"] = scheduled.channel
    if scheduled.priority is not None:
        options["priority"] = scheduled.priority
    args, kwargs = arguments(task, scheduled.args, scheduled.kwargs)
    called = task.using(**options)
    result = called.enqueue(*args, **kwargs)
    refuse_dropped(called.queue_name, result)
    return result


# "skip": while a message lives, no second one may have its dedupe key. "one": in an ordered lane,
# one message waits for the other. Key and lane belong to the schedule, so no producer delays it.
# Options of the task that contradict these are dropped.
OVERLAPS: Mapping[str, Callable[[str], dict[str, Any]]] = {
    "allow": lambda own: {},
    "skip": lambda own: {
        "dedupe_key": own,
        "dedupe_for": None,
        "on_conflict": "return",
        "longest_wait": None,
    },
    "one": lambda own: {"key": own, "ordered": True},
}
