"""Run one message. `failures` decides how a run ends that raised; the settler writes the ending."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

from asgiref.sync import async_to_sync
from django.db import connections

from pgqueue import signals
from pgqueue.calls import tracing
from pgqueue.calls.callables import check_did_run
from pgqueue.calls.outcomes import (
    Closed,
    Deferred,
    Ending,
    HandedBack,
    Succeeded,
)
from pgqueue.claiming.run_counts import Tally
from pgqueue.codec.encoding import Returned
from pgqueue.codec.envelope import is_envelope
from pgqueue.database import forking, guard
from pgqueue.database.django_connections import close_after, close_old_connections, roll_back_open
from pgqueue.engine.values import Claim
from pgqueue.exceptions import Defer, NewerPayload, TaskTimeout
from pgqueue.tasks import (
    Task,
    TaskContext,
    find_task,
    flow_results,
    redacting,
)
from pgqueue.tasks.limits import TimeLimit
from pgqueue.tasks.run_middleware import around
from pgqueue.values.escaping import logger_of
from pgqueue.values.tracebacks import calls_user_code
from pgqueue.worker import atomic
from pgqueue.worker.cancelling import cancellable
from pgqueue.worker.failures import (
    AWAY,
    NO_DELAY,
    UNKNOWN,
    NotBegun,
    ending_after,
    failed,
    left_alone,
    unbegun,
)
from pgqueue.worker.handlers import Handlers
from pgqueue.worker.leases import LeasedMessage
from pgqueue.worker.quarantine import Quarantine
from pgqueue.worker.timeouts import Timeouts, stack_of, within

logger = logger_of(__name__)

UNKNOWN_REPORTED_EVERY = 60.0  # seconds


class Run(NamedTuple):
    """A run that has begun."""

    task: Task[Any, Any]
    context: TaskContext
    leased: LeasedMessage


@dataclass(frozen=True)
class Runner:
    """Turns what is leased into an ending.

    On a thread, by `run`. An event loop calls its parts: `begin` and `awaitable` first, then
    `conclude` and `end`, outside of the loop since receivers of signals may use the database.

    Args:
        alias: the queue's database, which atomic tasks settle on.
        timeouts: bounds a run in time.
        handlers: know what to do with raw messages.
        quarantine: lets runs begin, one alone where it must be.
        tally: counts atomic runs, which are settled here.
        is_inside: each run is part of a transaction of the caller's, as in a TestCase.
        grace: how much later than its timeout a run's hard timeout is, unless its task says
            otherwise; None: nobody could replace this process.
        on_overrun: is told of a run that has not ended at its hard timeout, and how it ended thus.
    """

    alias: str
    timeouts: Timeouts
    handlers: Handlers
    quarantine: Quarantine
    tally: Tally
    is_inside: bool = False
    grace: timedelta | None = None
    on_overrun: Callable[[LeasedMessage, Ending], None] = lambda leased, ending: None
    _reported: dict[str, float] = field(default_factory=dict)

    def run(self, leased: LeasedMessage) -> Ending:
        """Run the task of what is leased; whatever it raises is in the ending. Never raises.

        The run and its receivers have a context of their own.
        """
        return guard.isolated(self._run_isolated, leased)

    def _run_isolated(self, leased: LeasedMessage) -> Ending:
        run = self.begin(leased)
        if not isinstance(run, Run):
            return run
        try:
            return self._run(run)
        finally:
            self.end(leased)

    def begin(self, leased: LeasedMessage) -> Run | Ending:
        """Begin a run, which is to be ended; or return the ending, if there is nothing to run.

        Never raises.
        """
        try:
            return self._begin(leased)
        except BaseException:
            self.end(leased)
            _complain("%s #%s could not begin", leased.claim.task, leased.claim.id)
            return unbegun(leased.claim)

    def _begin(self, leased: LeasedMessage) -> Run | Ending:
        if needless := _needless(leased):
            return needless
        if not leased.claim.task and not self._has_handler(leased):
            return self._unknown(leased)
        try:
            declared = find_task(leased.claim.task)
        except (Exception, SystemExit):
            # What its module raises as it is imported; another worker's may be whole.
            logger.exception("The task %s can't be imported", leased.claim.task)
            declared = None
        if declared is None:
            return self._unknown(leased)
        self.quarantine.begin(leased)
        if needless := _needless(leased):  # by now: it may have had to wait
            self.end(leased)
            return needless
        leased.begin()
        context = declared.context(leased.claim, leased, self.alias)
        try:
            task = declared.for_message(leased.claim.options)
        except Exception as error:
            self.end(leased)
            return failed(declared, context, error)
        _tell(task.send_started, context)
        return Run(task, context, leased)

    def end(self, leased: LeasedMessage) -> None:
        """Say that a run is over. Never raises."""
        if not leased.has_ended:
            leased.end()
        self.quarantine.end(leased)
        close_old_connections()

    def awaitable(self, run: Run) -> Callable[[], Coroutine[Any, Any, Any]]:
        """Return what to call in an event loop, and await.

        Raises:
            UnreadablePayload: it can't be called with what the message holds.
        """
        args, kwargs = self._arguments(run)
        return partial(self._bounded(run), *args, **kwargs)

    def conclude(self, run: Run, value: Callable[[], Any]) -> Ending:
        """Return how a run ended that was awaited, and announce it. Never raises.

        Args:
            value: returns what the task returned, or raises what it raised.
        """
        is_written = False
        try:
            ending = self._ended(run, value)
            if has_grown(run, ending):
                ending = self._grown(run, ending)
                is_written = True
        except BaseException as error:
            ending = _ending_after(run, error)
        return self._announced(run, ending, is_written=is_written)

    def _has_handler(self, leased: LeasedMessage) -> bool:
        """Make a raw message one of its channel's handler, if there is one."""
        try:
            leased.claim = self.handlers.adopt(leased.claim)
        except Exception:
            logger.exception("The handler of the channel %s can't be had", leased.claim.channel)
        finally:
            close_old_connections()
        return bool(leased.claim.task)

    def _run(self, run: Run) -> Ending:
        # A transaction that is open here is nobody's: it must not pass for the task's.
        roll_back_open()
        is_written = False
        try:
            ending = self._ending(run)
            is_written = bool(run.task.atomic)
            if not is_written and has_grown(run, ending):
                ending = self._grown(run, ending)
                is_written = True
        except BaseException as error:
            if run.leased.given_up:
                return Closed()  # its connection was cut, perhaps: it did not fail
            close_after(error)
            # Even SystemExit: a task doesn't end its worker. Of an atomic task, nothing is written.
            ending = _ending_after(run, error)
        if not is_written:
            run.leased.end()
        return self._announced(run, ending, is_written=is_written)

    def _announced(self, run: Run, ending: Ending, *, is_written: bool) -> Ending:
        """Tell how a run ended; return what is left to be written of it."""
        if is_written:
            self.tally.add([(run.leased, ending)])
        announce(run.task, run.context, ending)
        return Closed(getattr(ending, "delay", NO_DELAY)) if is_written else ending

    def _ending(self, run: Run) -> Ending:
        task, context, leased = run
        if not task.atomic:
            return self._ended(run, lambda: guard.call(self._returned, run))

        def call() -> Ending:
            # What an earlier call noted was rolled back.
            context.claim, context.growth = leased.claim, None
            ending = self._ended(run, lambda: guard.call(self._returned, run))
            if has_grown(run, ending):
                grow(run, self.alias)
            return ending

        return atomic.run(
            self.alias,
            task.atomic,
            leased,
            call,
            lambda error: ending_after(task, context, error),
            is_inside=self.is_inside,
        )

    def _grown(self, run: Run, ending: Ending) -> Ending:
        """Write the end of a run, and what it adds to its flow, in one transaction.

        Returns:
            How it has ended: with a failure, if that could not be stored.
        """

        def call() -> Ending:
            grow(run, self.alias)
            return ending

        return atomic.run(
            self.alias,
            True,
            run.leased,
            call,
            lambda error: ending_after(run.task, run.context, error),
            is_inside=self.is_inside,
        )

    def _ended(self, run: Run, value: Callable[[], Any]) -> Ending:
        try:
            returned = value()
        except Defer as defer:
            noted = defer.progress
            encode = run.task.codec.encode_progress
            progress = None if noted is None else guard.call(encode, noted)
            return Deferred(max(defer.delay, NO_DELAY), progress)
        if returned is None:
            return Succeeded(None)
        return Succeeded(guard.call(_encoded, run.task, returned))

    def _returned(self, run: Run) -> Any:
        args, kwargs = self._arguments(run)
        if run.task.is_async:
            return async_to_sync(self._bounded(run))(*args, **kwargs)
        with around(run.context), self._limited(run):
            began = forking.generation
            try:
                return run.task.run_here(*args, **kwargs)
            finally:
                forking.leave_if_forked_since(began)

    def _bound(self, run: Run) -> AbstractContextManager[None]:
        """Give the run up, and this process, if the block has not ended at its hard timeout."""
        if self.grace is None or (hard := run.task.hard_limit(self.grace)) is None:
            return nullcontext()
        began = run.leased.started
        due = [began + each.after.total_seconds() for each in run.task.limits if each.is_final]
        return self.timeouts.bounded(
            run.leased,
            began + hard.total_seconds(),
            partial(self._overran, run, threading.get_ident()),
            due=due[-1] if due else None,
        )

    def _overran(self, run: Run, thread: int) -> None:
        stack = stack_of(thread)
        signals.send(signals.run_overran, type(self), claim=run.leased.claim, stack=stack)
        final = [each.error for each in run.task.limits if each.is_final]
        error = (final[-1] if final else TaskTimeout)("It had not ended at its hard timeout.")
        run.leased.end()
        self.on_overrun(run.leased, _ending_after(run, error))

    def _limited(self, run: Run) -> AbstractContextManager[None]:
        is_limited = run.task.limits or run.task.hard_timeout
        return self._interrupted(run) if is_limited else nullcontext()

    @contextmanager
    def _interrupted(self, run: Run) -> Iterator[None]:
        """Raise in the block what its task's limits say, each when its time is over."""
        with ExitStack() as stack:
            for limit in run.task.limits:
                over = _over_at(run, limit)
                stack.enter_context(
                    self.timeouts.limit(run.leased, over, limit.error, is_final=limit.is_final)
                )
            with self._bound(run):
                yield

    def _arguments(self, run: Run) -> tuple[list[Any], dict[str, Any]]:
        def results(ids: Collection[int]) -> Mapping[int, Returned]:
            taken = flow_results.results(self.alias, ids, since=claim.created_at)
            # Errors must not quote what is redacted of these.
            run.leased.claim = run.context.claim = claim._replace(taken=tuple(taken.items()))
            return taken

        try:
            claim = run.leased.claim
            resolve = None
            if claim.flow_id is not None:
                # Here, since the span itself begins where an event loop may be.
                tracing.prepare(run.context)
                resolve = results
            codec, payload = run.task.codec, claim.payload or b""
            args, kwargs = codec.decode(payload, resolve)
            codec.check_known(args, kwargs, is_encrypted=is_envelope(payload))
            return [run.context.argument, *args] if run.task.takes_context else args, kwargs
        except (*AWAY, NewerPayload) as error:  # both may have asked the database
            raise NotBegun from error

    def _bounded(self, run: Run) -> Callable[..., Coroutine[Any, Any, Any]]:
        task, context, leased = run

        awaited = partial(_awaited, task, context)

        async def surrounded(*args: Any, **kwargs: Any) -> Any:
            with self._bound(run):
                return await awaited(*args, **kwargs)

        if not task.limits:
            return cancellable(leased, surrounded if task.hard_timeout else awaited)
        # A coroutine is cancelled once: by the first.
        first = task.limits[0]
        over = _over_at(run, first)

        async def limited(*args: Any, **kwargs: Any) -> Any:
            with self.timeouts.outlived(leased, over):
                return await within(over, surrounded, first.error)(*args, **kwargs)

        return cancellable(leased, limited)

    def _unknown(self, leased: LeasedMessage) -> Ending:
        """Leave it to who knows what to do with it, later each time; nothing is charged."""
        claim = leased.claim
        ending = left_alone(claim, UNKNOWN)
        what = claim.task or f"raw messages of {claim.channel}"
        now = time.monotonic()
        if now >= self._reported.get(what, 0):
            self._reported[what] = now + UNKNOWN_REPORTED_EVERY
            self._report(claim, ending.delay.total_seconds())
        return ending

    def _report(self, claim: Claim, delay: float) -> None:
        if claim.task:
            signals.send(signals.task_unknown, type(self), name=claim.task, delay=delay)
        else:
            signals.send(signals.handler_missing, type(self), channel=claim.channel, delay=delay)


def _encoded(task: Task[Any, Any], returned: Any) -> str:
    """Return a result as JSON. Even to look at the type of a lazy object runs the user's code."""
    check_did_run(task.name, returned)
    return task.encode_result(returned)


def has_grown(run: Run, ending: Ending) -> bool:
    """Return whether a run that succeeded adds to its flow."""
    return bool(run.context.growth) and isinstance(ending, Succeeded)


def grow(run: Run, alias: str) -> None:
    """Store what a run adds to its flow.

    Raises:
        PGQueueError: it can't be stored.
    """
    if run.context.growth is not None:
        run.context.growth.grow(connections[alias])


@calls_user_code
async def _awaited(task: Task[Any, Any], context: TaskContext, /, *args: Any, **kwargs: Any) -> Any:
    with around(context):
        began = forking.generation
        try:
            return await task.func(*args, **kwargs)
        finally:
            forking.leave_if_forked_since(began)


def _needless(leased: LeasedMessage) -> Ending | None:
    """Return the ending of what is not to be run any more."""
    if leased.lost:
        return Closed()
    return HandedBack() if leased.cancelled else None


def _over_at(run: Run, limit: TimeLimit) -> float:
    # A call that is repeated after a conflict has only the rest of the time.
    return run.leased.started + limit.after.total_seconds()


def _ending_after(run: Run, error: BaseException) -> Ending:
    try:
        return ending_after(run.task, run.context, error)
    except BaseException:
        # There is no memory left to describe it, perhaps.
        _complain("%s #%s: what it raised can't be told", run.task.name, run.leased.claim.id)
        return unbegun(run.leased.claim)


def announce(task: Task[Any, Any], context: TaskContext, ending: Ending) -> None:
    """Tell how a run ended; of an atomic one, when that is in the database.

    A failure is told among the context variables that the function has left: its trace, its fields
    of the log, its scope of Sentry.
    """
    raised_in, context.raised_in = context.raised_in, None
    if raised_in is None:
        _announce(task, context, ending)
    else:
        raised_in.run(_announce, task, context, ending)


def _announce(task: Task[Any, Any], context: TaskContext, ending: Ending) -> None:
    _tell(tracing.finished, context, ending)
    _tell(signals.log_finished, task, context, ending, redacting.hiding)
    if ending.error is None:
        _tell(task.send_finished, context, ending)
        return
    try:
        raise ending.error
    except BaseException:
        # While it is handled: receivers may look at sys.exc_info(), as Django's do.
        _tell(task.send_finished, context, ending)


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
