"""Decide what becomes of a message whose run raised something."""

from __future__ import annotations

import asyncio
import traceback
from datetime import timedelta
from typing import Any

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
    UnreadablePayload,
)
from pgqueue.options.retries import Exponential
from pgqueue.redaction import stand_in
from pgqueue.tasks import Task, TaskContext, redacting
from pgqueue.values.escaping import logger_of
from pgqueue.values.number_checks import as_timedelta

logger = logger_of(__name__)

NO_DELAY = timedelta()
UNKNOWN_FIRST = timedelta(seconds=30)
UNKNOWN_LONGEST = timedelta(minutes=10)
MOST_HANDED_BACK = 10
"""How often newer code is waited for: with the delays above, for 65 minutes."""
UNBEGUN_FIRST = timedelta(seconds=1)
UNBEGUN_LONGEST = timedelta(minutes=1)
# Trying again would repeat what the task did, and end the same way.
HOPELESS = (UnreadablePayload, InvalidResult, InvalidProgress)


AWAY = (
    *(OperationalError, psycopg.OperationalError),
    *(InterfaceError, psycopg.InterfaceError),
    *(InternalError, psycopg.InternalError),
)
"""What tells that the database was not there, or that another transaction was in the way; the last
pair where a pooler's server went away, and nothing fits its question any more."""


CONNECTING = "get_new_connection"
"""The method of Django's database wrappers that connects."""


class NotBegun(Exception):
    """A run could not begin, and that is no failure of its own.

    The database was not there, or only newer code can read the arguments.
    """


def ending_after(task: Task[Any, Any], context: TaskContext, error: BaseException) -> Ending:
    """Decide what becomes of a message whose run raised `error`."""
    if isinstance(error, NotBegun):
        cause = error.__cause__ or error
        if isinstance(cause, NewerPayload):
            return _left_to_newer(task, context, cause)
        logger.warning("%s #%s could not begin: %s", task.name, context.id, cause)
        return unbegun(context.claim)
    if isinstance(error, Discard):
        return Discarded(_described(context, error))
    if isinstance(error, Cancel):
        return Cancelled(_described(context, error))
    if refused := refused_connection(error, context.database):
        logger.warning("%s #%s got no connection: %s", task.name, context.id, refused)
        return unbegun(context.claim)
    if context.cancelled:
        # As the database will have it, whatever it raised over that.
        was_told = isinstance(error, asyncio.CancelledError)
        return Cancelled(None if was_told else _described(context, error))
    return failed(task, context, error)


def _left_to_newer(task: Task[Any, Any], context: TaskContext, error: NewerPayload) -> Ending:
    """Hand back what newer code may read; after about an hour it fails, and is tried again."""
    if handed_back(context.claim) >= MOST_HANDED_BACK:
        return failed(task, context, error)
    delay = later_each_time(context.claim, UNKNOWN_FIRST, UNKNOWN_LONGEST)
    logger.warning(
        "%s #%s is left to a worker with newer code, for %d s: %s",
        task.name,
        context.id,
        delay.total_seconds(),
        stand_in(error, redacting.hiding(context.claim)),
    )
    return HandedBack(delay)


def refused_connection(error: BaseException, alias: str) -> BaseException | None:
    """Return the error with which Django could not connect to a database, if a run raised it.

    The role may be at its connection limit, or the server; or the server does not answer. A message
    of the queue that is in that database is not to blame.
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
    """Hand back what could not begin, which is charged nothing."""
    return HandedBack(later_each_time(claim, UNBEGUN_FIRST, UNBEGUN_LONGEST))


def later_each_time(claim: Claim, first: timedelta, longest: timedelta) -> timedelta:
    """Return how long to leave a message alone: twice as long for each time it was handed back."""
    return min(first * 2.0 ** min(handed_back(claim), 10), longest)


def handed_back(claim: Claim) -> int:
    """Return how often a worker took a message, and gave it back without a failure."""
    return max(claim.attempt - claim.failures - claim.lost - 1, 0)


def failed(task: Task[Any, Any], context: TaskContext, error: BaseException) -> Ending:
    """Decide whether a message that raised `error` is tried again, and when."""
    entry = _described(context, error)
    failures = context.claim.failures + 1
    is_hopeless = isinstance(error, HOPELESS) and not isinstance(error, NewerPayload)
    if is_hopeless or failures >= context.claim.max_attempts:
        return Died(error, entry)
    delay = _delay(task, context, error, failures)
    return Died(error, entry) if delay is None else Retried(error, entry, delay)


def _delay(
    task: Task[Any, Any], context: TaskContext, error: BaseException, failures: int
) -> timedelta | None:
    if isinstance(error, Retry) and error.delay is not None:
        return max(error.delay, NO_DELAY)
    backoff = task.backoff or settings().backoff
    try:
        delay = guard.call(backoff, error, context.failed(failures))
        return None if delay is None else max(as_timedelta(delay), NO_DELAY)
    except BaseException as failed:
        # Also an EndOfRun, or SystemExit, which mean nothing here.
        logger.error(
            "The backoff of %s failed; waiting as by default",
            task.name,
            exc_info=stand_in(failed, redacting.hiding(context.claim)),
        )
        return timedelta(seconds=Exponential()(error, context.claim._replace(failures=failures)))


def _described(context: TaskContext, error: BaseException) -> str:
    """Return an error of a run as it is kept with the message."""
    claim = context.claim
    shown = stand_in(error, redacting.hiding(claim))
    worker = str(claim.worker_id)
    return describe(shown, attempt=claim.attempt, worker=worker, parent=_parent(error))


def _parent(error: BaseException) -> int | None:
    """Return the message whose failure an error passes on; None: the error is the run's own."""
    for each in (error, error.__cause__):
        if isinstance(each, ParentFailed) and each.message_id:
            return int(each.message_id)
    return None
