"""Run one message, and decide how it ended. Writing that down is the settler's."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from asgiref.sync import async_to_sync
from django.db import close_old_connections

from pgqueue import registry, signals
from pgqueue.conf import settings
from pgqueue.exceptions import InvalidResult, UnreadablePayload
from pgqueue.outcomes import Closed, Died, HandedBack, Outcome, Retried, Succeeded
from pgqueue.retries import Exponential, as_timedelta
from pgqueue.tasks import Task, TaskContext
from pgqueue.worker import atomic
from pgqueue.worker.errors import describe
from pgqueue.worker.held import Held
from pgqueue.worker.timeouts import Timeouts, within

logger = logging.getLogger(__name__)

UNKNOWN_FIRST = timedelta(seconds=30)
UNKNOWN_LONGEST = timedelta(minutes=10)
UNKNOWN_REPORTED_EVERY = 60.0  # seconds

# Trying again would repeat what the task did, and end the same way.
HOPELESS = (UnreadablePayload, InvalidResult)


@dataclass(frozen=True)
class Runner:
    """Turns what is held into an outcome, in the thread that calls it.

    Args:
        alias: the queue's database, which atomic tasks settle on.
        timeouts: bounds a run in time.
    """

    alias: str
    timeouts: Timeouts
    _reported: dict[str, float] = field(default_factory=dict)

    def run(self, held: Held) -> Outcome:
        """Run the task of what is held; whatever it raises is in the outcome."""
        if held.lost:
            return Closed()
        if held.cancelled:
            return HandedBack()
        try:
            declared = registry.find(held.claim.task)
        except Exception:
            # What its module raises as it is imported; another worker's may be whole.
            logger.exception("The task %s can't be imported", held.claim.task)
            declared = None
        if declared is None:
            return self._unknown(held)
        held.begin()
        try:
            return self._run(declared, held)
        finally:
            held.end()
            # As Django does after a request: by CONN_MAX_AGE, and what broke.
            close_old_connections()

    def _run(self, declared: Task[Any, Any], held: Held) -> Outcome:
        context = declared.context(held.claim, lambda: held.cancelled, self.alias)
        try:
            task = declared.for_message(held.claim.options)
        except Exception as error:
            return failed(declared, context, error)
        if not task.atomic:
            return self._attempt(task, context, held)
        try:
            return atomic.run(self.alias, held, lambda: self._attempt(task, context, held))
        except Exception as error:
            # It could not begin or commit; nothing of it was written.
            return failed(task, context, error)

    def _attempt(self, task: Task[Any, Any], context: TaskContext, held: Held) -> Outcome:
        signals.task_started.send_robust(task, context=context)
        outcome: Outcome
        try:
            outcome = Succeeded(self._call(task, context, held))
        except BaseException as error:
            # Even SystemExit: a task doesn't end its worker.
            outcome = failed(task, context, error)
            # While it is handled: receivers may look at sys.exc_info(), as Django's do.
            signals.task_finished.send_robust(task, context=context, outcome=outcome)
        else:
            signals.task_finished.send_robust(task, context=context, outcome=outcome)
        return outcome

    def _call(self, task: Task[Any, Any], context: TaskContext, held: Held) -> str | None:
        args, kwargs = task.codec.decode(held.claim.payload or b"")
        if task.takes_context:
            args = [context.argument, *args]
        if task.timeout is None:
            value = task.call(*args, **kwargs)
        elif task.is_async:
            value = async_to_sync(within(task.timeout, task.func))(*args, **kwargs)
        else:
            with self.timeouts.limit(held, task.timeout):
                value = task.call(*args, **kwargs)
        if task.atomic:
            atomic.check_unbroken(self.alias)
        return None if value is None else task.encode_result(value)

    def _unknown(self, held: Held) -> Outcome:
        """Leave it to a worker that knows the task, later each time; nothing is charged."""
        claim = held.claim
        handed_back = max(claim.attempt - claim.failures - claim.lost - 1, 0)
        delay = min(UNKNOWN_FIRST * 2 ** min(handed_back, 10), UNKNOWN_LONGEST)
        now = time.monotonic()
        if now >= self._reported.get(claim.task, 0):
            self._reported[claim.task] = now + UNKNOWN_REPORTED_EVERY
            signals.task_unknown.send_robust(
                type(self), name=claim.task, delay=delay.total_seconds()
            )
        return HandedBack(delay)


def failed(task: Task[Any, Any], context: TaskContext, error: BaseException) -> Outcome:
    """Decide whether a message that raised `error` is tried again, and when."""
    claim = context.claim
    entry = describe(error, attempt=claim.attempt, worker=str(claim.worker_id))
    failures = claim.failures + 1
    if isinstance(error, HOPELESS) or failures >= claim.max_attempts:
        return Died(error, entry)
    delay = _delay(task, context, error, failures)
    return Died(error, entry) if delay is None else Retried(error, entry, delay)


def _delay(
    task: Task[Any, Any], context: TaskContext, error: BaseException, failures: int
) -> timedelta | None:
    backoff = task.backoff or settings().backoff
    result = context.failed(failures)
    try:
        delay = backoff(error, result)
        return None if delay is None else max(as_timedelta(delay), timedelta())
    except Exception:
        logger.exception("The backoff of %s failed; waiting as by default", task.name)
        return timedelta(seconds=Exponential()(error, result))
