"""Run one message. What an error makes of it is `judging`'s, writing that down the settler's."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from asgiref.sync import async_to_sync
from django.db import close_old_connections

from pgqueue import registry, signals
from pgqueue.engine.values import Claim
from pgqueue.exceptions import Defer
from pgqueue.outcomes import Closed, Deferred, HandedBack, Outcome, Succeeded
from pgqueue.tasks import Task, TaskContext
from pgqueue.worker import atomic
from pgqueue.worker.cancelling import cancellable
from pgqueue.worker.handlers import Handlers
from pgqueue.worker.held import Held
from pgqueue.worker.judging import NO_DELAY, failed, judged
from pgqueue.worker.timeouts import Timeouts, within

logger = logging.getLogger(__name__)

UNKNOWN_FIRST = timedelta(seconds=30)
UNKNOWN_LONGEST = timedelta(minutes=10)
UNKNOWN_REPORTED_EVERY = 60.0  # seconds


@dataclass(frozen=True)
class Runner:
    """Turns what is held into an outcome, in the thread that calls it.

    Args:
        alias: the queue's database, which atomic tasks settle on.
        timeouts: bounds a run in time.
        handlers: know what to do with raw messages.
    """

    alias: str
    timeouts: Timeouts
    handlers: Handlers
    _reported: dict[str, float] = field(default_factory=dict)

    def run(self, held: Held) -> Outcome:
        """Run the task of what is held; whatever it raises is in the outcome."""
        if held.lost:
            return Closed()
        if held.cancelled:
            return HandedBack()
        if not held.claim.task and not self._has_handler(held):
            return self._unknown(held)
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

    def _has_handler(self, held: Held) -> bool:
        """Make a raw message one of its channel's handler, if there is one."""
        try:
            held.claim = self.handlers.adopt(held.claim)
        except Exception:
            logger.exception("The handler of the channel %s can't be had", held.claim.channel)
        finally:
            close_old_connections()
        return bool(held.claim.task)

    def _run(self, declared: Task[Any, Any], held: Held) -> Outcome:
        context = declared.context(held.claim, held, self.alias)
        try:
            task = declared.for_message(held.claim.options)
        except Exception as error:
            return failed(declared, context, error)
        signals.task_started.send_robust(task, context=context)
        is_written = False
        try:
            outcome = self._end(task, context, held)
            is_written = bool(task.atomic)
        except BaseException as error:
            # Even SystemExit: a task doesn't end its worker. Of an atomic task, nothing is written.
            outcome = judged(task, context, error)
        announce(task, context, outcome)
        return Closed(getattr(outcome, "delay", NO_DELAY)) if is_written else outcome

    def _end(self, task: Task[Any, Any], context: TaskContext, held: Held) -> Outcome:
        if not task.atomic:
            return self._call(task, context, held)

        def call() -> Outcome:
            # What an earlier call noted was rolled back.
            context.claim = held.claim
            return self._call(task, context, held)

        return atomic.run(
            self.alias, task.atomic, held, call, lambda error: judged(task, context, error)
        )

    def _call(self, task: Task[Any, Any], context: TaskContext, held: Held) -> Outcome:
        args, kwargs = task.codec.decode(held.claim.payload or b"")
        if task.takes_context:
            args = [context.argument, *args]
        try:
            value = self._value(task, held, args, kwargs)
        except Defer as defer:
            noted = defer.progress
            progress = None if noted is None else task.codec.encode_progress(noted)
            return Deferred(max(defer.delay, NO_DELAY), progress)
        return Succeeded(None if value is None else task.encode_result(value))

    def _value(
        self, task: Task[Any, Any], held: Held, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        # A call that is made again, after a conflict, has only what is left of the time.
        over = None if task.timeout is None else held.started + task.timeout.total_seconds()
        if task.is_async:
            return async_to_sync(cancellable(held, within(over, task.func)))(*args, **kwargs)
        if over is None:
            return task.call(*args, **kwargs)
        with self.timeouts.limit(held, over):
            return task.call(*args, **kwargs)

    def _unknown(self, held: Held) -> Outcome:
        """Leave it to who knows what to do with it, later each time; nothing is charged."""
        claim = held.claim
        handed_back = max(claim.attempt - claim.failures - claim.lost - 1, 0)
        delay = min(UNKNOWN_FIRST * 2 ** min(handed_back, 10), UNKNOWN_LONGEST)
        what = claim.task or f"raw messages of {claim.channel}"
        now = time.monotonic()
        if now >= self._reported.get(what, 0):
            self._reported[what] = now + UNKNOWN_REPORTED_EVERY
            self._report(claim, delay.total_seconds())
        return HandedBack(delay)

    def _report(self, claim: Claim, delay: float) -> None:
        if claim.task:
            signals.task_unknown.send_robust(type(self), name=claim.task, delay=delay)
        else:
            signals.handler_missing.send_robust(type(self), channel=claim.channel, delay=delay)


def announce(task: Task[Any, Any], context: TaskContext, outcome: Outcome) -> None:
    """Tell how a run ended; of an atomic one, when that is in the database."""
    if outcome.error is None:
        signals.task_finished.send_robust(task, context=context, outcome=outcome)
        return
    try:
        raise outcome.error
    except BaseException:
        # While it is handled: receivers may look at sys.exc_info(), as Django's do.
        signals.task_finished.send_robust(task, context=context, outcome=outcome)
