"""Announce runs by Celery's signals, and by the handlers of a task's class."""

from __future__ import annotations

import sys
import traceback as tracebacks
from functools import cache
from types import TracebackType
from typing import Any

from pgqueue.calls.outcomes import (
    Cancelled,
    Deferred,
    Died,
    Discarded,
    Ending,
    Retried,
    Succeeded,
)
from pgqueue.compat.celery import signals, states
from pgqueue.compat.celery.exceptions import Reject, Retry
from pgqueue.compat.celery.joining import has_failed_before
from pgqueue.compat.celery.request import CeleryContext, Request, requesting
from pgqueue.database import guard
from pgqueue.database.guard import TransactionLost
from pgqueue.database.savepoints import savepoints
from pgqueue.values.escaping import logger_of

logger = logger_of(__name__)

STATES: dict[type[Any], str] = {
    Succeeded: states.SUCCESS,
    Died: states.FAILURE,
    Retried: states.RETRY,
    Cancelled: states.REVOKED,
    Discarded: states.IGNORED,
    Deferred: states.REJECTED,
}

OF_ENDINGS = (
    signals.task_postrun,
    signals.task_success,
    signals.task_failure,
    signals.task_retry,
    signals.task_revoked,
)


class ExceptionInfo:
    """An error, and its traceback as text."""

    def __init__(self, error: BaseException) -> None:
        self.exception = error
        self.type = type(error)
        self.tb: TracebackType | None = error.__traceback__
        self.traceback = "".join(tracebacks.format_exception(error))

    def __str__(self) -> str:
        return self.traceback


def info_of(error: BaseException) -> ExceptionInfo:
    """Return an error's ExceptionInfo, as a subclass of billiard's if billiard is imported."""
    theirs = getattr(sys.modules.get("billiard.einfo"), "ExceptionInfo", None)
    return (_for(theirs) if theirs else ExceptionInfo)(error)


@cache
def _for(theirs: type[Any]) -> type[ExceptionInfo]:
    return type("ExceptionInfo", (ExceptionInfo, theirs), {})


def started(task: Any, context: CeleryContext) -> None:
    """Send task_prerun."""
    if not signals.task_prerun.receivers or has_failed_before(context):
        return
    request = context.request
    with requesting(task, request):
        signals.task_prerun.send(
            task, task_id=request.id, task=task, args=request.args, kwargs=request.kwargs
        )


def finished(task: Any, context: CeleryContext, ending: Ending) -> None:
    """Send the signals of an ending, and call the handlers, if Celery announces it."""
    state = STATES.get(type(ending))
    if state == states.FAILURE and isinstance(ending.error, Reject):
        state = states.REJECTED  # as in Celery, handlers are not called
    if state is None or context.untold or not is_heard(task):
        return
    value = context.returned if isinstance(ending, Succeeded) else ending.error
    request = context.request
    with requesting(task, request):
        tell(task, request, state, value)


def is_heard(task: Any) -> bool:
    """Say whether a handler or a receiver listens to the ends of this task's runs."""
    return bool(task.handlers) or any(each.receivers for each in OF_ENDINGS)


def tell(task: Any, request: Request, state: str, value: Any) -> None:
    """Send the signals of an ending, and call the handlers.

    Args:
        value: the run's return value, or its error.
    """
    einfo = info_of(value) if isinstance(value, BaseException) else None
    about = {"task_id": request.id, "args": request.args, "kwargs": request.kwargs}
    if state == states.SUCCESS:
        signals.task_success.send(task, result=value)
        call_handler(task, "on_success", value, *about.values())
    elif state in (states.FAILURE, states.REJECTED):
        if einfo is not None:
            how = {"exception": value, "traceback": value.__traceback__, "einfo": einfo}
            signals.task_failure.send(task, **about, **how)
        if state == states.FAILURE:
            call_handler(task, "on_failure", value, *about.values(), einfo)
    elif state == states.RETRY:
        reason = value.exc if isinstance(value, Retry) else value
        signals.task_retry.send(task, request=request, reason=value, einfo=einfo)
        call_handler(task, "on_retry", reason, *about.values(), einfo)
    elif state == states.REVOKED:
        how = {"terminated": True, "signum": None, "expired": False}
        signals.task_revoked.send(task, request=request, **how)
    if state in states.READY_STATES:
        call_handler(task, "after_return", state, value, *about.values(), einfo)
    signals.task_postrun.send(task, task=task, **about, retval=value, state=state)


def call_handler(task: Any, name: str, *arguments: Any) -> None:
    """Call a handler, if the task's class defines it; log its errors."""
    if name not in task.handlers:
        return
    try:
        with savepoints():
            guard.call(getattr(task, name), *arguments)
    except TransactionLost:
        raise
    except Exception:
        logger.exception("%s.%s failed", task.name, name)
