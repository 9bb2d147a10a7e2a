"""The check-ins of a process: what a schedule's run tells, and who is told."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from pgqueue import signals
from pgqueue.calls.outcomes import Cancelled, Completed, Died, Discarded, Ending, Succeeded
from pgqueue.conf import settings
from pgqueue.options.schedules import Schedule
from pgqueue.tasks import Task, TaskContext
from pgqueue.values.escaping import logger_of

Status = Literal["started", "succeeded", "failed"]

SUCCESSES = (Succeeded, Completed)
FAILURES = (Died, Discarded, Cancelled)
"""The endings after which the message is not tried again."""

logger = logger_of(__name__)


@dataclass(frozen=True, kw_only=True)
class CheckIn:
    """The first run of a schedule's message has begun, or the message has ended.

    Attributes:
        name: the schedule's name.
        status: a run that fails and is tried again has no check-in of its own.
        message_id: the id of the message.
        database: the alias of the database that the message is in.
        seconds: how long the last run took; None: it has only begun.
        schedule: the schedule as code declares it; None: it was added in the admin.
    """

    name: str
    status: Status
    message_id: str
    database: str
    seconds: float | None = None
    schedule: Schedule | None = None


Reporter: TypeAlias = Callable[[CheckIn], object]


def report_schedules(*reporters: Reporter) -> None:
    """Have the runs of schedules that end in this process told to each reporter.

    Call it once in each process, in `AppConfig.ready()`; a later call replaces the reporters. They
    are called in the thread of the run, and have to return at once. An error of one is logged.

    Args:
        reporters: `URLs(…)`, `SentryCrons(…)`, or functions that take a `CheckIn`.
    """
    _reporters[:] = reporters
    signals.task_started.connect(_started, dispatch_uid=__name__)
    signals.task_finished.connect(_finished, dispatch_uid=__name__)


def stop_reporting() -> None:
    """End what `report_schedules()` began."""
    _reporters.clear()
    signals.task_started.disconnect(dispatch_uid=__name__)
    signals.task_finished.disconnect(dispatch_uid=__name__)


_reporters: list[Reporter] = []
_BEGAN = "_checked_in_at"


def _started(sender: Task[Any, Any], context: TaskContext, **_: Any) -> None:
    name = context.metadata.get("schedule")
    if not isinstance(name, str):
        return
    vars(context)[_BEGAN] = time.monotonic()
    if context.attempt == 1:
        _report(sender, context, name, "started", None)


def _finished(sender: Task[Any, Any], context: TaskContext, ending: Ending, **_: Any) -> None:
    name = context.metadata.get("schedule")
    if not isinstance(name, str) or not isinstance(ending, SUCCESSES + FAILURES):
        return
    seconds = time.monotonic() - vars(context).get(_BEGAN, time.monotonic())
    _report(
        sender, context, name, "succeeded" if isinstance(ending, SUCCESSES) else "failed", seconds
    )


def _report(
    task: Task[Any, Any], context: TaskContext, name: str, status: Status, seconds: float | None
) -> None:
    check_in = CheckIn(
        name=name,
        status=status,
        message_id=context.id,
        database=context.database,
        seconds=seconds,
        schedule=_declared(task, name),
    )
    for each in list(_reporters):
        try:
            each(check_in)
        except Exception:
            logger.exception("A check-in of the schedule %s was not reported", name)


def _declared(task: Task[Any, Any], name: str) -> Schedule | None:
    """Return the schedule of this name that code declares; None: none does."""
    if entry := settings().schedules.get(name):
        return entry.schedule
    return next((each for each in task.schedule if (each.name or task.name) == name), None)
