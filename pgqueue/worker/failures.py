"""Decide the ending of a message whose run raised an error."""

from __future__ import annotations

import asyncio
import json
import traceback
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

import psycopg
from django.db import InterfaceError, InternalError, OperationalError

from pgqueue.calls.outcomes import (
    Cancelled,
    Died,
    Discarded,
    Ending,
    HandedBack,
    Retried,
)
from pgqueue.calls.stand_ins import stand_in
from pgqueue.conf import settings
from pgqueue.database import guard
from pgqueue.engine.errors import describe
from pgqueue.engine.values import Claim
from pgqueue.exceptions import (
    Cancel,
    Discard,
    InvalidProgress,
    InvalidResult,
    NewerPayload,
    ParentFailed,
    Retry,
    TenantUnavailable,
    UnreadablePayload,
)
from pgqueue.options.retries import Backoff, Delay, Delays, Exponential
from pgqueue.tasks import Task, TaskContext, redacting, tenants
from pgqueue.values.escaping import logger_of
from pgqueue.values.number_checks import as_timedelta

logger = logger_of(__name__)

NO_DELAY = timedelta()
HANDED_BACK = "handed_back"
"""The key in a message's metadata with the number of hand-backs in a row, and their reason."""


class Reason(NamedTuple):
    """A reason to hand messages back: its name in their metadata, and the range of delays."""

    name: str
    first: timedelta
    longest: timedelta


UNKNOWN = Reason("unknown task", timedelta(seconds=30), timedelta(minutes=10))
NEWER = Reason("newer payload", timedelta(seconds=30), timedelta(minutes=10))
UNBEGUN = Reason("could not begin", timedelta(seconds=1), timedelta(minutes=1))
MOST_HANDED_BACK = 10
"""The number of hand-backs to newer code: with the delays above, for 65 minutes."""
# A retry would repeat the task's effects, and end with the same error.
HOPELESS = (UnreadablePayload, InvalidResult, InvalidProgress)


AWAY = (
    *(OperationalError, psycopg.OperationalError),
    *(InterfaceError, psycopg.InterfaceError),
    *(InternalError, psycopg.InternalError),
)
"""Errors of a database that was away, or of a conflict with another transaction. InternalError
comes from a pooler whose server went away: the answers no longer match the queries."""


CONNECTING = "get_new_connection"
"""The method of Django's database wrappers that connects."""


class NotBegun(Exception):
    """A run could not begin, without a fault of its own.

    The database was away, or only newer code can read the arguments.
    """


def ending_after(task: Task[Any, Any], context: TaskContext, error: BaseException) -> Ending:
    """Return the ending of a message whose run raised `error`."""
    is_away = isinstance(error, TenantUnavailable) and isinstance(error.__cause__, AWAY)
    if isinstance(error, NotBegun) or is_away:
        cause = error.__cause__ or error
        if isinstance(cause, NewerPayload):
            return _left_to_newer(task, context, cause)
        logger.warning("%s #%s could not begin: %s", task.name, context.id, cause)
        return unbegun(context.claim)
    if task.durable and isinstance(error, NewerPayload):
        return _left_to_newer(task, context, error)  # of a signal or a step: steps are not repeated
    if isinstance(error, Discard):
        return Discarded(_described(context, error))
    if isinstance(error, Cancel):
        return Cancelled(_described(context, error))
    if refused := refused_connection(error, context.database):
        logger.warning("%s #%s got no connection: %s", task.name, context.id, refused)
        return unbegun(context.claim)
    if context.cancelled:
        # The cancellation decides, not the error that the run raised because of it.
        was_told = isinstance(error, asyncio.CancelledError)
        return Cancelled(None if was_told else _described(context, error))
    return failed(task, context, error)


def _left_to_newer(task: Task[Any, Any], context: TaskContext, error: NewerPayload) -> Ending:
    """Hand a message back for newer code; after about an hour it fails, and is retried."""
    if handed_back(context.claim, NEWER) >= MOST_HANDED_BACK:
        return failed(task, context, error)
    ending = left_alone(context.claim, NEWER)
    logger.warning(
        "%s #%s is left to a worker with newer code, for %d s: %s",
        task.name,
        context.id,
        ending.delay.total_seconds(),
        stand_in(error, redacting.hiding_run(context)),
    )
    return ending


def refused_connection(error: BaseException, alias: str) -> BaseException | None:
    """Return the error of a failed connect to this database, if it is in the chain of `error`.

    The role or the server may be at its connection limit, or the server does not answer. This is no
    fault of a message of the queue in that database.
    """
    found: BaseException | None = error
    seen: set[int] = set()
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        if isinstance(found, psycopg.OperationalError):
            for frame, _ in traceback.walk_tb(found.__traceback__):
                wrapper = frame.f_locals.get("self")
                if frame.f_code.co_name == CONNECTING and getattr(wrapper, "alias", None) == alias:
                    return found
        hidden = None if found.__suppress_context__ else found.__context__
        found = found.__cause__ or hidden
    return None


def unbegun(claim: Claim) -> HandedBack:
    """Hand a message back whose run could not begin. This is not charged."""
    return left_alone(claim, UNBEGUN)


def left_alone(claim: Claim, reason: Reason) -> HandedBack:
    """Hand a message back; the delay doubles each time in a row for the same reason."""
    times = handed_back(claim, reason)
    delay = min(reason.first * 2.0 ** min(times, 10), reason.longest)
    return HandedBack(delay, json.dumps({"for": reason.name, "times": times + 1}))


def handed_back(claim: Claim, reason: Reason) -> int:
    """Return the number of times in a row that a message was handed back for a reason.

    Deferrals by its task and releases do not count.
    """
    if not was_handed_back(claim):
        return 0
    match json.loads(claim.metadata).get(HANDED_BACK):
        case {"for": reason.name, "times": int(times)}:
            return max(times, 0)
    return 0


def was_handed_back(claim: Claim) -> bool:
    """Return whether a message's metadata may say that it was handed back."""
    return f'"{HANDED_BACK}"'.encode() in claim.metadata


def failed(task: Task[Any, Any], context: TaskContext, error: BaseException) -> Ending:
    """Return the ending of a failed run: a retry with its delay, or the message's death."""
    entry = _described(context, error)
    anew = context.has_progressed
    failures = (0 if anew else context.claim.failures) + 1
    is_hopeless = isinstance(error, HOPELESS) and not isinstance(error, NewerPayload)
    if is_hopeless or failures >= context.claim.max_attempts:
        return Died(error, entry, anew)
    delay = _delay(task, context, error, failures)
    return Died(error, entry, anew) if delay is None else Retried(error, entry, delay, anew)


def _delay(
    task: Task[Any, Any], context: TaskContext, error: BaseException, failures: int
) -> timedelta | None:
    if isinstance(error, Retry) and error.delay is not None:
        return max(error.delay, NO_DELAY)
    backoff = task.backoff or settings().backoff
    try:
        delay = _called(backoff, error, context, failures)
        return None if delay is None else max(as_timedelta(delay), NO_DELAY)
    except BaseException as failed:
        # Also EndOfRun and SystemExit, which have no meaning in a backoff.
        logger.error(
            "The backoff of %s failed; the default backoff applies",
            task.name,
            exc_info=stand_in(failed, redacting.hiding_run(context)),
        )
        return timedelta(seconds=Exponential()(error, context.claim._replace(failures=failures)))


def _called(backoff: Backoff, error: BaseException, context: TaskContext, failures: int) -> Delay:
    if isinstance(backoff, Exponential | Delays):  # our own: no code of the project
        return guard.call(backoff, error, context.failed(failures))
    call = partial(guard.call, backoff, error, context.failed(failures))
    return tenants.call_inside(context.claim, call)


def _described(context: TaskContext, error: BaseException) -> str:
    """Return a run's error in the form that is stored with the message."""
    claim = context.claim
    shown = stand_in(error, redacting.hiding_run(context))
    worker = str(claim.worker_id)
    return describe(shown, attempt=claim.attempt, worker=worker, parent=_parent(error))


def _parent(error: BaseException) -> int | None:
    """Return the id of the parent whose failure the error passes on; None: it is the run's own."""
    for each in (error, error.__cause__):
        if isinstance(each, ParentFailed) and each.message_id:
            return int(each.message_id)
    return None
