"""Run one message. `failures` decides the ending after an error; the settler writes the ending."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

from asgiref.sync import async_to_sync
from django.db import connections

from pgqueue import signals
from pgqueue.calls import tracing
from pgqueue.calls.callables import check_did_run
from pgqueue.calls.outcomes import (
    Closed,
    Completed,
    Continued,
    Deferred,
    Ending,
    HandedBack,
    Succeeded,
)
from pgqueue.calls.rate_limits import RateLimited
from pgqueue.claiming.run_counts import Tally
from pgqueue.codec.encoding import Returned
from pgqueue.database import forking, guard
from pgqueue.database.django_connections import close_after, close_old_connections, roll_back_open
from pgqueue.durable.step_context import StepContext
from pgqueue.engine.values import Claim
from pgqueue.exceptions import (
    Defer,
    InvalidMessage,
    NewerPayload,
    Suspend,
    TaskTimeout,
)
from pgqueue.tasks import (
    Task,
    TaskContext,
    find_task,
    flow_results,
    tenants,
)
from pgqueue.tasks.limits import TimeLimit
from pgqueue.tasks.run_middleware import around
from pgqueue.values.escaping import logger_of
from pgqueue.values.tracebacks import calls_user_code
from pgqueue.worker.announcing import announce, complain, tell_receivers
from pgqueue.worker.atomic import AtomicRun, FailedUnwritten
from pgqueue.worker.cancelling import Cancellable
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
from pgqueue.worker.leased_batch import runs_of
from pgqueue.worker.leases import LeasedMessage, Run
from pgqueue.worker.quarantine import Quarantine
from pgqueue.worker.run_logs import RunLogs
from pgqueue.worker.shutdown import Shutdown
from pgqueue.worker.step_recorder import StepRecorder
from pgqueue.worker.timeouts import Timeouts, stack_of, within

logger = logger_of(__name__)

UNKNOWN_REPORTED_EVERY = 60.0  # seconds
UNLIMITED: AbstractContextManager[None] = nullcontext()

Arguments = tuple[list[Any], dict[str, Any]]
"""The arguments of a call of the task's function, by position and by name."""


@dataclass(frozen=True)
class Runner:
    """Runs a leased message, and returns its ending.

    A thread calls `run`. An event loop calls the parts: `begin` and `arguments`, then `awaited` in
    the loop, then `conclude` and `end`. All but `awaited` run outside of the loop, since they may
    use the database.

    Args:
        alias: the queue's database, which atomic tasks settle on.
        timeouts: limits the time of a run.
        handlers: finds the tasks of raw messages.
        quarantine: lets runs begin, and lets a suspect run alone.
        tally: counts atomic runs, which are settled here.
        is_inside: whether each run is part of the caller's transaction, as in a TestCase.
        grace: the time from a run's timeout to its hard timeout, unless its task declares one.
            None: no supervisor can replace this process.
        logs: keeps the log lines of runs whose tasks ask for it. None: none are kept.
        steps: stores the steps of durable runs. None: each run stores its own.
        shutdown: ends this process after a run that exceeded its hard timeout; only with `grace`.
    """

    alias: str
    timeouts: Timeouts
    handlers: Handlers
    quarantine: Quarantine
    tally: Tally
    is_inside: bool = False
    grace: timedelta | None = None
    shutdown: Shutdown | None = None
    logs: RunLogs | None = None
    steps: StepRecorder | None = None
    _reported: dict[str, float] = field(default_factory=dict)

    def run(self, leased: LeasedMessage) -> Ending:
        """Run the task of a leased message. Never raises: an error becomes part of the ending.

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
            self.timeouts.forget(leased)
            self.end(leased)

    def begin(self, leased: LeasedMessage) -> Run | Ending:
        """Begin a run, or return the ending if there is nothing to run. Never raises.

        The caller must call `end` for a run that has begun.
        """
        try:
            return self._begin(leased)
        except BaseException:
            self.end(leased)
            complain("%s #%s could not begin", leased.claim.task, leased.claim.id)
            return unbegun(leased.claim)

    def _begin(self, leased: LeasedMessage) -> Run | Ending:
        if nothing := needless(leased):
            return nothing
        if not leased.claim.task and not self._has_handler(leased):
            return self._unknown(leased)
        try:
            declared = find_task(leased.claim.task)
        except (Exception, SystemExit):
            # The import of its module failed; another worker's version may be intact.
            logger.exception("The task %s can't be imported", leased.claim.task)
            declared = None
        if declared is None:
            return self._unknown(leased)
        self.quarantine.begin(leased)
        if nothing := needless(leased):  # again: the quarantine may have taken a while
            self.end(leased)
            return nothing
        leased.begin()
        context = declared.context(leased.claim, leased, self.alias)
        if declared.durable:
            context.limited = partial(self.timeouts.limit, leased, is_final=False)
            if self.steps is not None and isinstance(context, StepContext):
                self.steps.ensure_started()
                context.records.share = self.steps.store
        try:
            task = declared.for_message(leased.claim.options)
        except Exception as error:
            self.end(leased)
            return failed(declared, context, error)
        if self.logs is not None and (level := task.log_level) is not None:
            self.logs.begin(context, level)
            leased.lines = context.lines
        tell_receivers(task.send_started, signals.task_started, context)
        return Run(task, context, leased)

    def end(self, leased: LeasedMessage) -> None:
        """Note that a run is over. Never raises."""
        if not leased.has_ended:
            leased.end()
        if leased.lines is not None and self.logs is not None:
            self.logs.end(leased.lines)
        self.quarantine.end(leased)
        close_old_connections()

    def arguments(self, run: Run) -> Arguments:
        """Decode the arguments of a message.

        Raises:
            UnreadablePayload: they do not fit the task.
            NotBegun: the database was away, or only newer code can read them.
        """
        try:
            claim = run.leased.claim
            resolve = None
            if claim.flow_id is not None:
                # Here, since this may query the database; the span may begin in an event loop.
                tracing.prepare(run.context)
                resolve = partial(self._results, run)
            codec, payload = run.task.codec, claim.payload or b""
            args, kwargs = codec.decode(payload, resolve)
            codec.check_known(args, kwargs, payload)
            if run.task.takes_context:
                args = [run.context.argument, *args]
            return args, kwargs
        except (*AWAY, NewerPayload) as error:  # decoding may query the database
            raise NotBegun from error

    def _results(self, run: Run, ids: Collection[int]) -> Mapping[int, Returned]:
        """Return results of other messages of the flow, and note them with the claim."""
        claim = run.leased.claim
        taken = flow_results.results(self.alias, ids, since=claim.created_at)
        # Errors must not quote redacted values of the results.
        run.leased.claim = run.context.claim = claim._replace(taken=tuple(taken.items()))
        return taken

    async def awaited(self, run: Run, arguments: Arguments) -> Any:
        """Await the task's function within the task's limits, and return its value.

        Raises:
            TaskTimeout: it took too long.
            asyncio.CancelledError: the message was cancelled.
        """
        task, context, leased = run
        args, kwargs = arguments
        with Cancellable(leased):
            if not task.limits:
                with self.bound(run) if task.hard_timeout else UNLIMITED:
                    return await _awaited(task, context, *args, **kwargs)
            # A coroutine is cancelled only once, by the first limit. The final one ends the lease.
            first, final = task.limits[0], task.final_limit
            with self.timeouts.outlived(leased, over_at(run, final)) if final else UNLIMITED:
                async with within(over_at(run, first), first.error):
                    with self.bound(run):
                        return await _awaited(task, context, *args, **kwargs)

    def conclude(self, run: Run, value: Callable[[], Any]) -> Ending:
        """Return the ending of an awaited run, and announce it. Never raises.

        Args:
            value: returns the task's return value, or raises the task's error.
        """
        is_written = False
        try:
            ending = self.ended(run, value)
            if has_grown(run, ending):
                ending = self.grown(run, ending)
                is_written = True
        except FailedUnwritten as failed:
            ending = failed.ending
        except BaseException as error:
            ending = ending_of_error(run, error)
        return self.announced(run, ending, is_written=is_written)

    def _has_handler(self, leased: LeasedMessage) -> bool:
        """Turn a raw message into a call of its channel's handler; return whether there is one."""
        try:
            leased.claim = self.handlers.adopt(leased.claim)
        except Exception:
            logger.exception("The handler of the channel %s can't be read", leased.claim.channel)
        finally:
            close_old_connections()
        return bool(leased.claim.task)

    def _run(self, run: Run) -> Ending:
        # A transaction that is open here is left over: it must not become the task's transaction.
        roll_back_open()
        is_written = False
        try:
            ending = self._ending(run)
            is_written = bool(run.task.atomic)
            if not is_written and has_grown(run, ending):
                ending = self.grown(run, ending)
                is_written = True
        except FailedUnwritten as failed:
            ending = failed.ending
        except BaseException as error:
            if run.leased.given_up:
                return Closed()  # perhaps its connection was cut: this is no failure
            close_after(error)
            # Even SystemExit: a task does not end its worker. An atomic task has written nothing.
            ending = ending_of_error(run, error)
        if not is_written:
            run.leased.end()
            if run.leased.given_up:
                # Its message was handed back, or has failed at the hard timeout.
                return Closed()
        return self.announced(run, ending, is_written=is_written)

    def announced(self, run: Run, ending: Ending, *, is_written: bool) -> Ending:
        """Announce the ending of a run; return the ending that the settler must write."""
        if is_written:
            self.tally.add([(run.leased, ending)])
        announce(run.task, run.context, ending)
        return Closed(getattr(ending, "delay", NO_DELAY), ending) if is_written else ending

    def _ending(self, run: Run) -> Ending:
        task, context, leased = run
        value = partial(guard.call, self._returned, run)
        if not task.atomic:
            with tenants.around(context.claim):
                return self.ended(run, value)

        def call() -> Ending:
            # The notes of an earlier call were rolled back.
            context.claim, context.growth = leased.claim, None
            ending = self.ended(run, value)
            if has_grown(run, ending):
                grow(run, self.alias)
            return ending

        return AtomicRun(self.alias, task.atomic, run, call, is_inside=self.is_inside).ending()

    def grown(self, run: Run, ending: Ending) -> Ending:
        """Write the ending of a run, and its additions to its flow, in one transaction.

        Returns:
            The ending. It is a failure if the additions could not be stored.
        """

        def call() -> Ending:
            grow(run, self.alias)
            return ending

        inside = self.is_inside
        return AtomicRun(self.alias, True, run, call, is_inside=inside, has_run=True).ending()

    def ended(self, run: Run, value: Callable[[], Any]) -> Ending:
        """Return the ending of a run after its function.

        Args:
            value: returns the function's return value, or raises its error.

        Raises:
            BaseException: the function's error.
        """
        try:
            returned = value()
        except Suspend as suspend:
            ending: Ending = suspend.ending
            return ending
        except Defer as defer:
            noted = defer.progress
            encode = run.task.codec.encode_progress
            progress = None if noted is None else guard.call(encode, noted)
            return Deferred(max(defer.delay, NO_DELAY), progress, _paused_by(run, defer))
        result = None if returned is None else guard.call(_encoded, run.task, returned)
        if run.task.durable:
            return Completed(result, run.context.completed())
        return Succeeded(result)

    def _returned(self, run: Run) -> Any:
        arguments = self.arguments(run)
        if run.task.is_async:
            return async_to_sync(self.awaited)(run, arguments)
        args, kwargs = arguments
        with around(run.context), self.limited(run):
            began = forking.generation
            try:
                return run.task.run_here(*args, **kwargs)
            finally:
                forking.leave_if_forked_since(began)

    def bound(self, run: Run) -> AbstractContextManager[None]:
        """Fail the run and end this process if the block exceeds its hard timeout."""
        if self.grace is None or (hard := run.task.hard_limit(self.grace)) is None:
            return UNLIMITED
        final = run.task.final_limit
        return self.timeouts.bounded(
            run.leased,
            run.leased.started + hard.total_seconds(),
            partial(self._overran, run, threading.get_ident()),
            due=None if final is None else over_at(run, final),
        )

    def _overran(self, run: Run, thread: int) -> None:
        stack = stack_of(thread)
        signals.send(signals.run_overran, type(self), claim=run.leased.claim, stack=stack)
        final = run.task.final_limit
        error = (final.error if final else TaskTimeout)("It had not ended at its hard timeout.")
        run.leased.end()
        if self.shutdown:
            for each in runs_of(run):
                self.shutdown.end_overrun(each.leased, ending_of_error(each, error))

    def limited(self, run: Run) -> AbstractContextManager[None]:
        """Raise the error of each of the task's limits in the block when its time is over."""
        is_limited = run.task.limits or run.task.hard_timeout
        return self._interrupted(run) if is_limited else UNLIMITED

    @contextmanager
    def _interrupted(self, run: Run) -> Iterator[None]:
        """Raise the error of each of the task's limits in the block when its time is over."""
        with ExitStack() as stack:
            for limit in run.task.limits:
                over = over_at(run, limit)
                stack.enter_context(
                    self.timeouts.limit(run.leased, over, limit.error, is_final=limit.is_final)
                )
            with self.bound(run):
                yield

    def _unknown(self, leased: LeasedMessage) -> Ending:
        """Hand the message back to a worker that knows its task. Nothing is charged."""
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


def _paused_by(run: Run, defer: Defer) -> str:
    """Return the scope that the end of a run pauses; "": none.

    Raises:
        InvalidMessage: the scope is the key or the task, and the message has none.
    """
    if not isinstance(defer, RateLimited) or not defer.delay:
        return ""
    claim = run.leased.claim
    if defer.scope == "key" and not claim.key:
        raise InvalidMessage(
            f"RateLimited(scope='key'): the message #{claim.id} has no key. Enqueue it with "
            "using(key=…), or pause the channel with scope='channel'."
        )
    if defer.scope == "task" and not claim.task:
        raise InvalidMessage(
            f"RateLimited(scope='task'): the raw message #{claim.id} has no task. Pause the "
            "channel with scope='channel'."
        )
    return defer.scope


def _encoded(task: Task[Any, Any], returned: Any) -> str:
    """Return a result as JSON. Even the type check of a lazy object runs the user's code."""
    check_did_run(task.name, returned)
    return task.encode_result(returned)


def has_grown(run: Run, ending: Ending) -> bool:
    """Return whether a run has ended without an error and has added messages to its flow."""
    return bool(run.context.growth) and isinstance(ending, Succeeded | Completed | Continued)


def grow(run: Run, alias: str) -> None:
    """Store the messages that a run adds to its flow.

    Raises:
        PGQueueError: the messages are refused.
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


def needless(leased: LeasedMessage) -> Ending | None:
    """Return the ending of a message that must not run; None: it must run."""
    if leased.lost:
        return Closed()
    return HandedBack() if leased.cancelled else None


def over_at(run: Run, limit: TimeLimit) -> float:
    """Return the end of a time limit of a run, by the monotonic clock."""
    # A call that is repeated after a conflict has only the remaining time.
    return run.leased.started + limit.after.total_seconds()


def ending_of_error(run: Run, error: BaseException) -> Ending:
    """Return the ending of a run that raised `error`. Never raises."""
    try:
        return ending_after(run.task, run.context, error)
    except BaseException:
        # Perhaps there is no memory left to describe the error.
        complain("%s #%s: its error can't be described", run.task.name, run.leased.claim.id)
        return unbegun(run.leased.claim)
