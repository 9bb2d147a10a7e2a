"""Run one message. What an error makes of it is `judging`'s, writing that down the settler's."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

from asgiref.sync import async_to_sync

from pgqueue import registry, signals
from pgqueue.engine.values import Claim
from pgqueue.exceptions import Defer, TransactionLeftOpen
from pgqueue.outcomes import Closed, Deferred, HandedBack, Outcome, Succeeded
from pgqueue.tasks import Task, TaskContext
from pgqueue.worker import atomic
from pgqueue.worker.cancelling import cancellable
from pgqueue.worker.django_connections import (
    close_after,
    close_old_connections,
    roll_back_open,
)
from pgqueue.worker.handlers import Handlers
from pgqueue.worker.held import Held
from pgqueue.worker.judging import (
    AWAY,
    NO_DELAY,
    NotBegun,
    failed,
    judged,
    later_each_time,
    unbegun,
)
from pgqueue.worker.quarantine import Quarantine
from pgqueue.worker.timeouts import Timeouts, within

logger = logging.getLogger(__name__)

UNKNOWN_FIRST = timedelta(seconds=30)
UNKNOWN_LONGEST = timedelta(minutes=10)
UNKNOWN_REPORTED_EVERY = 60.0  # seconds


class Run(NamedTuple):
    """One that has begun."""

    task: Task[Any, Any]
    context: TaskContext
    held: Held


@dataclass(frozen=True)
class Runner:
    """Turns what is held into an outcome.

    On a thread, by `run`. An event loop calls its parts: `begin` and `awaitable` first, then
    `conclude` and `end`, outside of the loop since receivers of signals may use the database.

    Args:
        alias: the queue's database, which atomic tasks settle on.
        timeouts: bounds a run in time.
        handlers: know what to do with raw messages.
        quarantine: lets runs begin, one alone where it must be.
        is_inside: each run is part of a transaction of the caller's, as in a TestCase.
    """

    alias: str
    timeouts: Timeouts
    handlers: Handlers
    quarantine: Quarantine
    is_inside: bool = False
    _reported: dict[str, float] = field(default_factory=dict)

    def run(self, held: Held) -> Outcome:
        """Run the task of what is held; whatever it raises is in the outcome. Never raises."""
        run = self.begin(held)
        if not isinstance(run, Run):
            return run
        try:
            return self._run(run)
        finally:
            self.end(held)

    def begin(self, held: Held) -> Run | Outcome:
        """Begin a run, which is to be ended; or return the outcome, if there is nothing to run.

        Never raises.
        """
        try:
            return self._begin(held)
        except BaseException:
            self.end(held)
            _complain("%s #%s could not begin", held.claim.task, held.claim.id)
            return unbegun(held.claim)

    def _begin(self, held: Held) -> Run | Outcome:
        if needless := _needless(held):
            return needless
        if not held.claim.task and not self._has_handler(held):
            return self._unknown(held)
        try:
            declared = registry.find(held.claim.task)
        except (Exception, SystemExit):
            # What its module raises as it is imported; another worker's may be whole.
            logger.exception("The task %s can't be imported", held.claim.task)
            declared = None
        if declared is None:
            return self._unknown(held)
        self.quarantine.begin(held)
        if needless := _needless(held):  # by now: it may have had to wait
            self.end(held)
            return needless
        held.begin()
        context = declared.context(held.claim, held, self.alias)
        try:
            task = declared.for_message(held.claim.options)
        except Exception as error:
            self.end(held)
            return failed(declared, context, error)
        _tell(task.send_started, context)
        return Run(task, context, held)

    def end(self, held: Held) -> None:
        """Say that a run is over. Never raises."""
        if not held.has_ended:
            held.end()
        self.quarantine.end(held)
        close_old_connections()

    def awaitable(self, run: Run) -> Callable[[], Coroutine[Any, Any, Any]]:
        """Return what to call in an event loop, and await.

        Raises:
            UnreadablePayload: it can't be called with what the message holds.
        """
        args, kwargs = self._arguments(run)
        bounded = self._bounded(run.task, run.held)
        return partial(bounded, *args, **kwargs)

    def conclude(self, run: Run, value: Callable[[], Any]) -> Outcome:
        """Return how a run ended that was awaited, and announce it. Never raises.

        Args:
            value: returns what the task returned, or raises what it raised.
        """
        try:
            outcome = self._ended(run, value)
        except BaseException as error:
            outcome = _judged(run, error)
        announce(run.task, run.context, outcome)
        return outcome

    def _has_handler(self, held: Held) -> bool:
        """Make a raw message one of its channel's handler, if there is one."""
        try:
            held.claim = self.handlers.adopt(held.claim)
        except Exception:
            logger.exception("The handler of the channel %s can't be had", held.claim.channel)
        finally:
            close_old_connections()
        return bool(held.claim.task)

    def _run(self, run: Run) -> Outcome:
        is_written = False
        try:
            outcome = self._outcome(run)
            is_written = bool(run.task.atomic)
        except BaseException as error:
            if run.held.given_up:
                return Closed()  # its connection was cut, perhaps: it did not fail
            close_after(error)
            # Even SystemExit: a task doesn't end its worker. Of an atomic task, nothing is written.
            outcome = _judged(run, error)
        if not is_written:
            run.held.end()
        announce(run.task, run.context, outcome)
        return Closed(getattr(outcome, "delay", NO_DELAY)) if is_written else outcome

    def _outcome(self, run: Run) -> Outcome:
        task, context, held = run
        if not task.atomic:
            return self._ended(run, lambda: self._value(run))

        def call() -> Outcome:
            # What an earlier call noted was rolled back.
            context.claim = held.claim
            return self._ended(run, lambda: self._value(run))

        return atomic.run(
            self.alias,
            task.atomic,
            held,
            call,
            lambda error: judged(task, context, error),
            is_inside=self.is_inside,
        )

    def _ended(self, run: Run, value: Callable[[], Any]) -> Outcome:
        try:
            returned = value()
        except Defer as defer:
            noted = defer.progress
            progress = None if noted is None else run.task.codec.encode_progress(noted)
            return Deferred(max(defer.delay, NO_DELAY), progress)
        return Succeeded(None if returned is None else run.task.encode_result(returned))

    def _value(self, run: Run) -> Any:
        """Return what the task returned, unless it left a transaction open.

        Raises:
            TransactionLeftOpen: it did, and what it wrote there is rolled back.
        """
        atomic = self.alias if run.task.atomic else None
        try:
            returned = self._returned(run)
        except BaseException as error:
            # Here, because the callers don't see a Defer, or what an atomic task raised.
            left = roll_back_open(atomic=atomic)
            close_after(error)
            if left and isinstance(error, Defer):
                raise TransactionLeftOpen(left) from error
            raise
        if left := roll_back_open(atomic=atomic):
            raise TransactionLeftOpen(left)
        return returned

    def _returned(self, run: Run) -> Any:
        task, _, held = run
        args, kwargs = self._arguments(run)
        if task.is_async:
            return async_to_sync(self._bounded(task, held))(*args, **kwargs)
        over = _over_at(task, held)
        if over is None:
            return task.call(*args, **kwargs)
        with self.timeouts.limit(held, over):
            return task.call(*args, **kwargs)

    def _arguments(self, run: Run) -> tuple[list[Any], dict[str, Any]]:
        try:
            args, kwargs = run.task.codec.decode(run.held.claim.payload or b"")
            return [run.context.argument, *args] if run.task.takes_context else args, kwargs
        except AWAY as error:  # both may have asked the database
            raise NotBegun from error

    def _bounded(self, task: Task[Any, Any], held: Held) -> Callable[..., Coroutine[Any, Any, Any]]:
        over = _over_at(task, held)
        if over is None:
            return cancellable(held, task.func)

        async def watched(*args: Any, **kwargs: Any) -> Any:
            with self.timeouts.outlived(held, over):
                return await within(over, task.func)(*args, **kwargs)

        return cancellable(held, watched)

    def _unknown(self, held: Held) -> Outcome:
        """Leave it to who knows what to do with it, later each time; nothing is charged."""
        claim = held.claim
        delay = later_each_time(claim, UNKNOWN_FIRST, UNKNOWN_LONGEST)
        what = claim.task or f"raw messages of {claim.channel}"
        now = time.monotonic()
        if now >= self._reported.get(what, 0):
            self._reported[what] = now + UNKNOWN_REPORTED_EVERY
            self._report(claim, delay.total_seconds())
        return HandedBack(delay)

    def _report(self, claim: Claim, delay: float) -> None:
        if claim.task:
            signals.send(signals.task_unknown, type(self), name=claim.task, delay=delay)
        else:
            signals.send(signals.handler_missing, type(self), channel=claim.channel, delay=delay)


def _needless(held: Held) -> Outcome | None:
    """Return the outcome of what is not to be run any more."""
    if held.lost:
        return Closed()
    return HandedBack() if held.cancelled else None


def _over_at(task: Task[Any, Any], held: Held) -> float | None:
    # A call that is made again, after a conflict, has only what is left of the time.
    return None if task.timeout is None else held.started + task.timeout.total_seconds()


def _judged(run: Run, error: BaseException) -> Outcome:
    try:
        return judged(run.task, run.context, error)
    except BaseException:
        # There is no memory left to describe it, perhaps.
        _complain("%s #%s: what it raised can't be told", run.task.name, run.held.claim.id)
        return unbegun(run.held.claim)


def announce(task: Task[Any, Any], context: TaskContext, outcome: Outcome) -> None:
    """Tell how a run ended; of an atomic one, when that is in the database."""
    _tell(signals.log_finished, task, context, outcome)
    if outcome.error is None:
        _tell(task.send_finished, context, outcome)
        return
    try:
        raise outcome.error
    except BaseException:
        # While it is handled: receivers may look at sys.exc_info(), as Django's do.
        _tell(task.send_finished, context, outcome)


def _tell(send: Callable[..., None], *arguments: object) -> None:
    """Tell others. What they raise ends no thread: not even SystemExit, or an EndOfRun."""
    try:
        send(*arguments)
    except BaseException:
        _complain("A receiver of a signal failed")


def _complain(message: str, *arguments: object) -> None:
    """Log what is being handled, if that can be done."""
    with suppress(BaseException):
        logger.exception(message, *arguments)
