"""Run a batch: one call of the function for several messages, each with its own ending."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, cast

from asgiref.sync import async_to_sync
from django.db import connections, transaction
from psycopg.errors import LockNotAvailable

from pgqueue import signals
from pgqueue.calls.outcomes import Closed, Ending
from pgqueue.conf import settings
from pgqueue.database import forking, guard
from pgqueue.database.django_connections import close_after, roll_back_open
from pgqueue.engine import lease
from pgqueue.engine.errors import is_conflict
from pgqueue.exceptions import Defer, LeaseLost
from pgqueue.tasks.batch_calls import BatchCall, BatchContext
from pgqueue.tasks.batching import BatchTask, batched
from pgqueue.tasks.current import running
from pgqueue.tasks.run_middleware import around
from pgqueue.values.tracebacks import calls_user_code
from pgqueue.worker.announcing import complain, tell_receivers
from pgqueue.worker.atomic import (
    GONE,
    AtomicRun,
    FailedUnwritten,
    check_unbroken,
    is_kept_from,
)
from pgqueue.worker.failures import NotBegun, failed, unbegun
from pgqueue.worker.leased_batch import LeasedBatch
from pgqueue.worker.leases import LeasedMessage, Run
from pgqueue.worker.runner import (
    Runner,
    ending_of_error,
    grow,
    has_grown,
    needless,
    over_at,
)
from pgqueue.worker.settler import by_kind, have_failed
from pgqueue.worker.timeouts import within

Ended = tuple[LeasedMessage, Ending]


class BatchRun(Run):
    """A batch whose run has begun. To the limits of time it looks like the first message's run.

    Attributes:
        calls: the calls that the function gets, each with the run of its message.
        ended: the endings so far. A message whose arguments are unreadable has one already.
        written: the messages whose endings are written in a transaction of the run.
    """

    calls: list[tuple[Run, BatchCall[...]]]
    ended: dict[LeasedMessage, Ending]
    written: set[LeasedMessage]

    def forget(self) -> None:
        """Forget the calls and their endings: the function is called again, or not at all."""
        self.calls, self.ended, self.written = [], {}, set()

    @property
    def declared(self) -> BatchTask[..., Any]:
        """The task, with the options of its messages."""
        return cast("BatchTask[..., Any]", self.task)

    @property
    def batch(self) -> LeasedBatch:
        """The messages."""
        return cast("LeasedBatch", self.leased)


@dataclass(frozen=True)
class BatchRunner:
    """Runs batches, in a thread by `run`, or in parts as `Runner` does for an event loop.

    Args:
        runner: runs single messages. Its limits and its quarantine hold for batches, too.
    """

    runner: Runner

    def run(self, leased: LeasedBatch) -> list[Ended]:
        """Run a batch; return the ending of each message. Never raises."""
        return guard.isolated(self._run_isolated, leased)

    def _run_isolated(self, leased: LeasedBatch) -> list[Ended]:
        batch = self.begin(leased)
        if batch is not None:
            try:
                self._run(batch)
            finally:
                self.runner.timeouts.forget(leased)
                self.runner.end(leased)
        return leased.ended

    def begin(self, leased: LeasedBatch) -> BatchRun | None:
        """Begin a run. Never raises.

        The caller must call `runner.end` for a run that has begun.

        Returns:
            None: no message must run; `leased.ended` has the endings.
        """
        try:
            return self._begin(leased)
        except BaseException:
            self.runner.end(leased)
            complain("A batch of %s could not begin", leased.claim.task)
            leased.ended = [(each, unbegun(each.claim)) for each in leased.messages]
            return None

    def _begin(self, leased: LeasedBatch) -> BatchRun | None:
        declared = batched[leased.claim.task]  # the collector has found it
        self.runner.quarantine.begin(leased)
        endings = [(each, needless(each)) for each in leased.messages]
        leased.ended = [(each, ending) for each, ending in endings if ending]
        messages = [each for each, ending in endings if not ending]
        if not messages:
            self.runner.end(leased)
            return None
        leased.begin()
        contexts = [declared.context(each.claim, each, self.runner.alias) for each in messages]
        try:
            task = declared.for_message(leased.claim.options)
        except Exception as error:
            self.runner.end(leased)
            for each, context in zip(messages, contexts, strict=True):
                leased.ended.append((each, failed(declared, context, error)))
            return None
        for context in contexts:
            if isinstance(context, BatchContext):
                context.beside = contexts
        leased.runs = [
            Run(task, context, each) for each, context in zip(messages, contexts, strict=True)
        ]
        for run in leased.runs:
            tell_receivers(task.send_started, signals.task_started, run.context)
        begun = BatchRun(task, contexts[0], leased)
        begun.forget()
        return begun

    def prepare(self, batch: BatchRun) -> None:
        """Make the calls. A message whose arguments are unreadable ends by itself."""
        batch.forget()
        for run in batch.batch.runs:
            if run.leased.lost:
                batch.ended[run.leased] = Closed()
                continue
            try:
                (context, *args), kwargs = self.runner.arguments(run)
                run.task.codec.check_fit(args, kwargs)
            except BaseException as error:
                batch.ended[run.leased] = ending_of_error(run, error)
            else:
                batch.calls.append((run, BatchCall(tuple(args), kwargs, context)))

    async def awaited(self, batch: BatchRun) -> Any:
        """Await the function within the task's limits, and return its value.

        A request to cancel one message does not cancel the coroutine: `call.context.cancelled`
        says so.

        Raises:
            TaskTimeout: it took too long.
        """
        task = batch.task
        if not task.limits:
            with self.runner.bound(batch) if task.hard_timeout else nullcontext():
                return await _awaited(batch)
        first = task.limits[0]
        over = over_at(batch, first)
        with self.runner.timeouts.outlived(batch.leased, over):
            async with within(over, first.error):
                with self.runner.bound(batch):
                    return await _awaited(batch)

    def conclude(self, batch: BatchRun, value: Callable[[], Any]) -> None:
        """Note the ending of each message of an awaited batch, and announce it. Never raises.

        Args:
            value: returns the function's return value, or raises its error.
        """
        failure: BaseException | None = None
        try:
            self._note_endings(batch, value)
        except BaseException as error:
            failure = error
        if failure is not None:
            self._fail(batch, failure)
        self._grow(batch)
        self._announce(batch)

    def _run(self, batch: BatchRun) -> None:
        # A transaction that is open here is left over: it must not become the task's transaction.
        roll_back_open()
        failure: BaseException | None = None
        try:
            if batch.task.atomic:
                call = partial(self._call, batch)
                AtomicBatch(
                    self.runner.alias,
                    batch.task.atomic,
                    batch,
                    call,
                    is_inside=self.runner.is_inside,
                    batch=batch,
                    fail=partial(self._fail, batch),
                ).ending()
            else:
                self._call(batch)
        except BaseException as error:
            if not batch.leased.given_up:  # otherwise, perhaps its connection was cut
                close_after(error)
            batch.written = set()
            failure = error
        if failure is not None:
            self._fail(batch, failure)
        if not batch.written:
            batch.leased.end()
            self._grow(batch)
        self._announce(batch)

    def _call(self, batch: BatchRun) -> Ending:
        """Call the function, and note the ending of each message.

        Raises:
            BaseException: the function's error: no message has an ending by it yet.
        """
        self.prepare(batch)
        self._note_endings(batch, lambda: guard.call(self._returned, batch))
        return Closed()

    def _returned(self, batch: BatchRun) -> Any:
        if not batch.calls:
            return None
        if batch.task.is_async:
            return async_to_sync(self.awaited)(batch)
        with _surrounded(batch), self.runner.limited(batch):
            began = forking.generation
            try:
                return _called(batch)
            finally:
                forking.leave_if_forked_since(began)

    def _note_endings(self, batch: BatchRun, value: Callable[[], Any]) -> None:
        try:
            returned = value()
        except Defer as defer:
            for run, call in batch.calls:
                batch.ended[run.leased] = self._ending(run, call, _raising(defer))
            return
        results = batch.declared.results(returned, len(batch.calls))
        for (run, call), result in zip(batch.calls, results, strict=True):
            batch.ended[run.leased] = self._ending(run, call, _returning(result))

    def _ending(self, run: Run, call: BatchCall[...] | None, value: Callable[[], Any]) -> Ending:
        """Return the ending of one message: by its own error, or else by `value`."""
        own = call.error if call else None
        try:
            return self.runner.ended(run, value if own is None else _raising(own))
        except BaseException as error:
            return ending_of_error(run, error)

    def _fail(self, batch: BatchRun, error: BaseException) -> None:
        """Note endings after an error of the function, or of the transaction.

        A call that has failed by itself ends by its own error. If the lease of one message was
        lost during the run, the others are without fault, and are handed back. Call this outside of
        an `except`: the calls' own errors have nothing to do with `error`.
        """
        calls = {run.leased: call for run, call in batch.calls}
        for run in batch.batch.runs:
            leased = run.leased
            if leased in batch.ended and leased not in calls:
                continue  # its arguments are unreadable, or its lease was lost before the call
            if isinstance(error, LeaseLost):
                batch.ended[leased] = unbegun(leased.claim)
            else:
                batch.ended[leased] = self._ending(run, calls.get(leased), _raising(error))

    def _grow(self, batch: BatchRun) -> None:
        """Write the success of each message that adds messages to its flow, with these messages."""
        for run in batch.batch.runs:
            if has_grown(run, batch.ended[run.leased]):
                try:
                    batch.ended[run.leased] = self.runner.grown(run, batch.ended[run.leased])
                    batch.written.add(run.leased)
                except FailedUnwritten as failed:
                    batch.ended[run.leased] = failed.ending
                except BaseException as error:
                    batch.ended[run.leased] = ending_of_error(run, error)

    def _announce(self, batch: BatchRun) -> None:
        for run in batch.batch.runs:
            leased = run.leased
            ending: Ending = Closed()
            if not leased.given_up:
                is_written = leased in batch.written
                ending = self.runner.announced(run, batch.ended[leased], is_written=is_written)
            batch.batch.ended.append((leased, ending))


@dataclass(frozen=True, kw_only=True)
class AtomicBatch(AtomicRun):
    """A batch whose endings are written in the run's own transaction: all of them, or none.

    Args:
        batch: the run; `call` notes its endings.
        fail: notes its endings after an error.
    """

    batch: BatchRun
    fail: Callable[[BaseException], None]

    def _run_locked(self) -> Ending:
        batch, connection = self.batch, connections[self.alias].connection
        leased = batch.batch
        batch.forget()  # an earlier call was rolled back
        claims = [run.leased.claim for run in leased.runs]
        try:
            locks = lease.lock_all(connection, claims, patience=lease.LOCKING)
        except LockNotAvailable as error:
            raise NotBegun from error
        for run in leased.runs:
            run.leased.lost = run.leased.claim.id not in locks
            run.context.claim, run.context.growth = run.leased.claim, None
        leased.lock = next(iter(locks.values()), None)
        failure: BaseException | None = None
        try:
            with transaction.atomic(using=self.alias):
                self.call()
                for run, _ in batch.calls:
                    if has_grown(run, batch.ended[run.leased]):
                        grow(run, self.alias)
                check_unbroken(self.alias)
        except BaseException as error:
            if is_conflict(error) or isinstance(error, GONE) or connection.closed:
                raise
            failure = error
        if failure is not None:
            self.fail(failure)
        leased.end()
        self._write()
        return Closed()

    def _write(self) -> None:
        """Write the endings. The settler writes failures that other transactions keep from it.

        Raises:
            LeaseLost: a lease was lost although its row was locked. Nothing of the batch stays.
        """
        ended = [
            (leased, ending)
            for leased, ending in self.batch.ended.items()
            if not isinstance(ending, Closed)
        ]
        for kind in by_kind(ended):
            if not have_failed(kind):
                self._write_kind(kind)
                continue
            try:
                with transaction.atomic(using=self.alias):
                    self._write_kind(kind)
            except Exception as error:
                if not is_kept_from(error):
                    raise
                # The function has had its say.
                self._after_commit(self._keep_lease, what="the renewal of its lease")

    def _write_kind(self, kind: Sequence[Ended]) -> None:
        if len(self._written(kind)) < len(kind):
            raise LeaseLost
        self.batch.written |= {leased for leased, _ in kind}

    def _keep_lease(self) -> bool:
        connection = connections[self.alias]
        connection.ensure_connection()
        claims = [run.leased.claim for run in self.batch.batch.runs]
        return bool(lease.extend(connection.connection, claims, lease=settings().lease))


@contextmanager
def _surrounded(batch: BatchRun) -> Iterator[None]:
    """Enter the context managers of all runs. The batch is not the run of any one message."""
    with ExitStack() as stack:
        for run, call in batch.calls:
            manager = around(run.context)
            manager.__enter__()
            stack.push(partial(_leave, manager, call))
        token = running.set(None)
        try:
            yield
        finally:
            running.reset(token)


def _leave(
    manager: AbstractContextManager[None],
    call: BatchCall[...],
    kind: type[BaseException] | None,
    error: BaseException | None,
    trace: TracebackType | None,
) -> bool:
    """Leave the context manager of a message's run, with the error of its call if it has one."""
    if call.error is not None:
        kind, error, trace = type(call.error), call.error, call.error.__traceback__
    manager.__exit__(kind, error, trace)
    return False


@calls_user_code
def _called(batch: BatchRun) -> Any:
    return batch.declared.function([call for _, call in batch.calls])


@calls_user_code
async def _awaited(batch: BatchRun) -> Any:
    if not batch.calls:
        return None
    with _surrounded(batch):
        began = forking.generation
        try:
            return await batch.declared.function([call for _, call in batch.calls])
        finally:
            forking.leave_if_forked_since(began)


def _returning(value: Any) -> Callable[[], Any]:
    return lambda: value


def _raising(error: BaseException) -> Callable[[], Any]:
    def value() -> Any:
        raise error

    return value
