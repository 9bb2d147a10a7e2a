"""Decide what becomes of a message whose run raised something."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import Any

import psycopg
from django.db import InterfaceError, InternalError, OperationalError

from pgqueue.conf import settings
from pgqueue.endings import Cancelled, Died, Discarded, Ending, HandedBack, Retried
from pgqueue.engine.errors import describe
from pgqueue.engine.values import Claim
from pgqueue.exceptions import (
    Cancel,
    Discard,
    InvalidProgress,
    InvalidResult,
    Retry,
    UnreadablePayload,
)
from pgqueue.quantities import as_timedelta
from pgqueue.redaction import stand_in
from pgqueue.retries import Exponential
from pgqueue.tasks import Task, TaskContext, redacting

logger = logging.getLogger(__name__)

NO_DELAY = timedelta()
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


class NotBegun(Exception):
    """A run could not begin, since the database was not there: that is no failure of its own."""


def ending_after(task: Task[Any, Any], context: TaskContext, error: BaseException) -> Ending:
    """Decide what becomes of a message whose run raised `error`."""
    if isinstance(error, NotBegun):
        logger.warning("%s #%s could not begin: %s", task.name, context.id, error.__cause__)
        return unbegun(context.claim)
    if isinstance(error, Discard):
        return Discarded(_described(context, error))
    if isinstance(error, Cancel):
        return Cancelled(_described(context, error))
    if context.cancelled:
        # As the database will have it, whatever it raised over that.
        was_told = isinstance(error, asyncio.CancelledError)
        return Cancelled(None if was_told else _described(context, error))
    return failed(task, context, error)


def unbegun(claim: Claim) -> HandedBack:
    """Hand back what could not begin, which is charged nothing."""
    return HandedBack(later_each_time(claim, UNBEGUN_FIRST, UNBEGUN_LONGEST))


def later_each_time(claim: Claim, first: timedelta, longest: timedelta) -> timedelta:
    """Return how long to leave a message alone: twice as long for each time it was handed back."""
    handed_back = max(claim.attempt - claim.failures - claim.lost - 1, 0)
    return min(first * 2.0 ** min(handed_back, 10), longest)


def failed(task: Task[Any, Any], context: TaskContext, error: BaseException) -> Ending:
    """Decide whether a message that raised `error` is tried again, and when."""
    entry = _described(context, error)
    failures = context.claim.failures + 1
    if isinstance(error, HOPELESS) or failures >= context.claim.max_attempts:
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
        delay = backoff(error, context.failed(failures))
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
    return describe(shown, attempt=claim.attempt, worker=str(claim.worker_id))
