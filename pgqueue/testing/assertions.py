"""Assertions on waiting messages: enqueued messages that have neither begun nor ended."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.core.exceptions import ObjectDoesNotExist
from django.db import connections

from pgqueue.engine import lookup
from pgqueue.engine.lookup import Found
from pgqueue.exceptions import UnknownTask, UnreadablePayload
from pgqueue.models import Message
from pgqueue.states import State
from pgqueue.tasks import Task, TaskResult, find_task
from pgqueue.values.number_checks import as_timedelta

WAITING = (State.HELD, State.SCHEDULED, State.READY)
NEAR = timedelta(seconds=1)
"""The tolerance for comparing `run_after`."""
SHOWN = 10
UNREADABLE = (ObjectDoesNotExist, UnreadablePayload)
"""Errors of arguments: the row of a model instance is gone, or the task does not take them."""


def assert_enqueued(
    task: Any,
    *,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    run_after: datetime | timedelta | float | None = None,
    count: int | None = None,
    channel: str | None = None,
    key: str | None = None,
    database: str | None = None,
) -> list[TaskResult[Any]]:
    """Check that messages of a task wait; return them, in the order of their ids.

    A message waits while it is ready, delayed, waiting for a retry, or held.

    Args:
        task: a task of pgqueue or of `django.tasks`, or its import path.
        args, kwargs: the arguments of the call. Arguments match by position and by name, and
            defaults count as given. Without both, any call matches.
        run_after: the aware datetime at which the message becomes due; or the seconds or the
            timedelta from its enqueueing. The tolerance is one second.
        count: the exact number of messages; None: one or more.
        channel, key: the channel and the key of the message.
        database: the alias of the queue's database, if it is not the task's own.

    Raises:
        AssertionError: fewer or more messages wait. Its text lists the waiting messages of
            the task.
        UnknownTask: no task has this import path.
    """
    declared = _declared(task)
    wanted = {"channel": channel, "key": key}
    waiting = _waiting(declared, database)
    matching = [
        result
        for found, result in waiting
        if _matches(declared, result, args, kwargs)
        and all(value is None or getattr(found, name) == value for name, value in wanted.items())
        and (run_after is None or _is_due(found, run_after))
    ]
    if len(matching) == count or (count is None and matching):
        return matching
    expected = {**wanted, "args": args, "kwargs": kwargs, "run_after": run_after}
    raise AssertionError(_text(declared, expected, count, len(matching), waiting))


def assert_not_enqueued(
    task: Any,
    *,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    run_after: datetime | timedelta | float | None = None,
    channel: str | None = None,
    key: str | None = None,
    database: str | None = None,
) -> None:
    """Check that no such message waits.

    Args:
        task, args, kwargs, run_after, channel, key, database: as for `assert_enqueued`.

    Raises:
        AssertionError: a matching message waits.
        UnknownTask: no task has this import path.
    """
    assert_enqueued(
        task,
        args=args,
        kwargs=kwargs,
        run_after=run_after,
        count=0,
        channel=channel,
        key=key,
        database=database,
    )


def _declared(task: Any) -> Task[Any, Any]:
    """Return pgqueue's task for a task of pgqueue or django.tasks, or an import path."""
    if isinstance(task, Task):
        return task
    name = task if isinstance(task, str) else getattr(task, "module_path", repr(task))
    declared = find_task(name)
    if declared is None:
        raise UnknownTask(f"No task is named {name} here. Is its app in INSTALLED_APPS?")
    return declared


def _waiting(task: Task[Any, Any], database: str | None) -> list[tuple[Found, TaskResult[Any]]]:
    alias = database or task.alias
    ids = Message.objects.using(alias).filter(task=task.name, state__in=WAITING)
    found = lookup.find_each(connections[alias], ids.values_list("pk", flat=True))
    return [(found[id], TaskResult.of(task, found[id])) for id in sorted(found)]


def _matches(
    task: Task[Any, Any],
    result: TaskResult[Any],
    args: Sequence[Any] | None,
    kwargs: Mapping[str, Any] | None,
) -> bool:
    if args is None and kwargs is None:
        return True
    wanted = _call(task, args or (), kwargs or {})
    try:
        return wanted is not None and wanted == _call(task, result.args, result.kwargs)
    except UNREADABLE:
        return False


def _call(
    task: Task[Any, Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return the value of each parameter in a call; None if the call doesn't fit the function."""
    first = [None] if task.takes_context else []
    try:
        bound = inspect.signature(task.func).bind(*first, *args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    return bound.arguments


def _arguments(result: TaskResult[Any]) -> str:
    try:
        return f"args={result.args!r}, kwargs={result.kwargs!r}"
    except UNREADABLE as error:
        return f"its arguments can't be read ({error})"


def _is_due(found: Found, run_after: datetime | timedelta | float) -> bool:
    if not isinstance(run_after, datetime):
        run_after = found.created_at + as_timedelta(run_after)
    return abs(found.run_at - run_after) < NEAR


def _text(
    task: Task[Any, Any],
    expected: Mapping[str, Any],
    count: int | None,
    matching: int,
    waiting: Sequence[tuple[Found, TaskResult[Any]]],
) -> str:
    given = ", ".join(f"{name}={value!r}" for name, value in expected.items() if value is not None)
    such = f"messages of {task.name}" + (f" with {given}" if given else "")
    wanted = "one or more" if count is None else str(count)
    lines = [f"Expected {wanted} {such} to wait, found {matching}."]
    if not waiting:
        lines.append(
            "No message of this task waits. (Were they run already? With enqueue_on_commit, or "
            "transaction.on_commit(), a TestCase stores them in "
            "captureOnCommitCallbacks(execute=True) only.)"
        )
    else:
        lines.append("Messages of this task that wait:")
    lines += [
        f"  #{found.id}: {_arguments(result)}, "
        f"channel={found.channel!r}, key={found.key!r}, {found.state}, run_at={found.run_at}"
        for found, result in waiting[:SHOWN]
    ]
    if len(waiting) > SHOWN:
        lines.append(f"  … and {len(waiting) - SHOWN} more")
    return "\n".join(lines)
