from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar, Unpack, cast, overload

from asgiref.sync import sync_to_async
from django.db import connections

from pgqueue import signals
from pgqueue.calls.callables import fault_of
from pgqueue.calls.outcomes import Ending
from pgqueue.engine.values import Claim
from pgqueue.exceptions import InvalidArguments, InvalidTask, OtherTransactionWarning, UnknownTask
from pgqueue.options.retries import declare
from pgqueue.tasks import options as task_options
from pgqueue.tasks import redacting, registry, storing
from pgqueue.tasks.batch_calls import BatchCall
from pgqueue.tasks.canvas import Call, ChainedCall, Group, mapped
from pgqueue.tasks.context import RunState, TaskContext, contexts
from pgqueue.tasks.declaration import Declaration
from pgqueue.tasks.options import Options
from pgqueue.tasks.result import TaskResult, fetch

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound=TaskContext)
Q = ParamSpec("Q")

BATCH = 10_000


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Task(Declaration[P, T]):
    """A function that can be enqueued, and how its messages are treated.

    Calling the task calls the function. Frozen: `using()` returns a changed copy. Each option is
    documented at `@task`.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickled by import path, as a function is, with the options that using() changed.
        declared = self.declared.options
        own = self.options
        return _find, (self.name, {name: own[name] for name in own if own[name] != declared[name]})

    @overload
    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> T: ...

    @overload
    def __call__(self, context: TaskContext, /, *args: P.args, **kwargs: P.kwargs) -> T: ...

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself: no message is stored, no option has an effect.

        If the task has `takes_context`, pass a context as the first argument, or an object with
        the attributes that the function uses.

        Returns:
            The function's return value; a coroutine, if it is a coroutine function.

        Raises:
            InvalidArguments: the context is missing.
        """
        if self.takes_context:
            self._require_context(args, kwargs)
        return self.func(*args, **kwargs)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> TaskResult[T]:
        """Store a message that runs this task with these arguments.

        The message is part of the transaction that is open on the queue's database. Workers see it
        after the commit, and a rollback removes it.

        Returns:
            The message's result: it gives the message's state and return value.

        Raises:
            InvalidArguments: the arguments do not fit the function, or are not storable.
            ChannelFull: a policy's max_size is reached.
            DuplicateMessage: its dedupe_key is taken, and on_conflict is "raise".
            NotMigrated: the database lacks pgqueue's tables, or has old ones.
        """
        self._flag_other_transactions()
        return storing.store([TaskResult(self, args, kwargs)])[0]

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> TaskResult[T]:
        """Store a message, from async code."""
        return await sync_to_async(self.enqueue)(*args, **kwargs)

    def enqueue_many(
        self, calls: Iterable[Sequence[Any] | Mapping[str, Any] | Call[T]]
    ) -> list[TaskResult[T]]:
        """Store a message for each of `calls`, 10 000 at a time by COPY: all or none.

        Args:
            calls: each a tuple or list of positional arguments, or a dict of named ones; or a
                `call()` of this task, whose arguments type checkers compare with the function.
                Ordered messages run in this order, and may have 500 different keys.

        Raises:
            InvalidArguments: a call does not fit the function, or is not storable.
            ChannelFull, DuplicateMessage: as `enqueue` does.
        """
        self._flag_other_transactions()
        with storing.atomic(self):
            return [result for batch in self._batches(calls) for result in storing.store(batch)]

    async def aenqueue_many(
        self, calls: Iterable[Sequence[Any] | Mapping[str, Any] | Call[T]]
    ) -> list[TaskResult[T]]:
        """Store many messages, from async code."""
        return await sync_to_async(self.enqueue_many)(calls)

    def get_result(self, result_id: str | int) -> TaskResult[T]:
        """Look up a message of this task.

        Raises:
            TaskResultDoesNotExist: the message was rolled back, or is no longer kept.
            TaskResultMismatch: the message belongs to another task.
        """
        return fetch(self, result_id)

    async def aget_result(self, result_id: str | int) -> TaskResult[T]:
        """Look up a message of this task, from async code."""
        return await sync_to_async(self.get_result)(result_id)

    @overload
    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[T]: ...

    @overload
    def call(
        self: Task[Concatenate[Any, Q], T], *args: Q.args, **kwargs: Q.kwargs
    ) -> ChainedCall[T]: ...

    def call(self, *args: Any, **kwargs: Any) -> Call[T]:
        """Return a call with these arguments, for `chain`, `group`, `chord` or `Call.enqueue()`.

        Nothing is stored. In a chain, the result of the previous step is the first argument.
        """
        return Call(self, args, kwargs)

    def map(self, values: Iterable[Any]) -> Group:
        """Return a group with one call per value, which is the call's argument.

        `task.map(values).enqueue()` stores the calls. `chord(task.map(values), merge)` runs
        `merge` after all of them.
        """
        return mapped(self, values)

    def _require_context(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        try:
            inspect.signature(self.func).bind(*args, **kwargs)
        except TypeError as error:
            raise InvalidArguments(
                f"{self.name}: {error}. It takes a context: a direct call passes one, or an object "
                "with the same attributes, as the first argument; a worker passes it by itself."
            ) from error

    def context(self, claim: Claim, run: RunState, database: str) -> TaskContext:
        """Return the context of a run of this task for a claimed message."""
        kind = contexts["durable"] if self.durable else TaskContext
        return kind(self, claim, run, database)

    def send_started(self, context: TaskContext) -> None:
        """Send the signal that a run begins."""
        signals.task_started.send_robust(self, context=context)

    def send_finished(self, context: TaskContext, ending: Ending) -> None:
        """Send the signal that a run is over."""
        signals.task_finished.send_robust(self, context=context, ending=ending)

    def _batches(
        self, calls: Iterable[Sequence[Any] | Mapping[str, Any] | Call[T]]
    ) -> Iterator[list[TaskResult[T]]]:
        rest = iter(calls)
        # These go out together, so that locks are taken in the order of all keys. Each batch that
        # waits for a commit has a hook and a transaction of its own, so there is one batch.
        is_whole = self.ordered or self.dedupe_key is not None or self.enqueue_on_commit
        count = None if is_whole else BATCH
        while batch := [self._to_be_stored(call) for call in islice(rest, count)]:
            yield batch

    def _to_be_stored(self, call: Sequence[Any] | Mapping[str, Any] | Call[T]) -> TaskResult[T]:
        if isinstance(call, tuple | list):
            return TaskResult(self, call, {})
        if isinstance(call, Mapping):
            return TaskResult(self, (), call)
        if isinstance(call, Call):
            if call.task is not self:
                raise InvalidArguments(
                    f"enqueue_many() of {self.name}: one call is of {call.task.name}, or has other "
                    "options. Make it by call() of the same task."
                )
            return TaskResult(self, call.args, call.kwargs)
        raise TypeError(
            f"enqueue_many() of {self.name}: {call!r} is neither a tuple of arguments nor a dict, "
            "nor a call()."
        )

    def _flag_other_transactions(self) -> None:
        """Warn where a transaction is open, but none on the message's database."""
        if self.enqueue_on_commit or self.connection is not None:
            return
        if connections[self.alias].in_atomic_block:
            return
        for other in connections.all(initialized_only=True):
            if other.in_atomic_block:
                warnings.warn(
                    f"{self.name} was enqueued on the database {self.alias!r} inside a "
                    f"transaction on {other.alias!r}: the message stays even if that rolls back. "
                    f"Use using(enqueue_on_commit={other.alias!r}), or open a transaction on "
                    f"{self.alias!r}.",
                    OtherTransactionWarning,
                    stacklevel=3,
                )


class BatchDecorator(Protocol):
    """Makes a batch task of a function. The task's parameters are the arguments of its calls."""

    @overload
    def __call__(self, function: Callable[[list[BatchCall[P]]], None], /) -> Task[P, None]: ...

    @overload
    def __call__(
        self, function: Callable[[list[BatchCall[P]]], Sequence[T] | None], /
    ) -> Task[P, T]: ...

    @overload
    def __call__(
        self, function: Callable[[list[BatchCall[P]]], Coroutine[Any, Any, None]], /
    ) -> Task[P, Coroutine[Any, Any, None]]: ...

    @overload
    def __call__(
        self, function: Callable[[list[BatchCall[P]]], Coroutine[Any, Any, Sequence[T] | None]], /
    ) -> Task[P, Coroutine[Any, Any, T]]: ...


@overload
def task(function: Callable[P, T], /) -> Task[P, T]: ...


@overload
def task(
    *,
    batch: int,
    batch_wait: timedelta | float = ...,
    batch_by: Literal["key"] | None = ...,
    encrypted: bool = ...,
    schedule: Any = ...,
    redact: Sequence[str] = ...,
    aliases: Sequence[str] = ...,
    **options: Unpack[Options],
) -> BatchDecorator: ...


@overload
def task(
    *,
    durable: Literal[True],
    keeps_lane: bool = ...,
    encrypted: bool = ...,
    schedule: Any = ...,
    redact: Sequence[str] = ...,
    logs: str | None = ...,
    aliases: Sequence[str] = ...,
    **options: Unpack[Options],
) -> Callable[[Callable[Concatenate[C, P], T]], Task[P, T]]: ...


@overload
def task(
    *,
    takes_context: Literal[True],
    encrypted: bool = ...,
    schedule: Any = ...,
    redact: Sequence[str] = ...,
    logs: str | None = ...,
    aliases: Sequence[str] = ...,
    **options: Unpack[Options],
) -> Callable[[Callable[Concatenate[TaskContext, P], T]], Task[P, T]]: ...


@overload
def task(
    *,
    takes_context: Literal[False] = ...,
    encrypted: bool = ...,
    schedule: Any = ...,
    redact: Sequence[str] = ...,
    logs: str | None = ...,
    aliases: Sequence[str] = ...,
    **options: Unpack[Options],
) -> Callable[[Callable[P, T]], Task[P, T]]: ...


def task(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a function at the top of a module a task. The task is called as the function is.

    Args:
        channel: the named stream its messages are in; workers serve channels.
            (`queue_name`, as django.tasks calls it, is the same.)
        key: the sub-queue inside its channel, a tenant for example; or a function of the call's
            arguments that returns it. Keys take turns, however many messages wait in each.
        priority: -100 to 100. Higher first within a key.
        weight: 1 to 100, for how many messages it counts in the limits of its channel and its key,
            `max_running` and `rate`. If a limit is lower, the message counts for the whole limit.
        run_after: an aware datetime, or seconds or a timedelta from when the message is enqueued.
        expires_at: an aware datetime. A message that has not started by then ends as expired.
        ttl: the same as seconds or a timedelta from the enqueue. The earlier limit applies.
        ordered: run the messages of a key one at a time, in the order their transactions commit,
            regardless of priority. An enqueue waits for uncommitted messages of the same key.
        dedupe_key: a text, or a function of the call's arguments that returns a text or None.
            While a message with this text waits or runs, the channel accepts no second one.
        dedupe_for: seconds or a timedelta from the enqueue. The dedupe_key is remembered for this
            time even if its message ends sooner.
        on_conflict: the reaction to a second message with the same dedupe_key. "return": the first
            message is returned. "replace": the arguments and times of the first are replaced, if it
            has not started (debouncing: many calls run once). "collect": the same, but the items of
            the second list are added to the first, for a function whose one parameter is a list.
            "raise": raises DuplicateMessage.
        longest_wait: seconds or a timedelta, with on_conflict="replace" or "collect". A message
            that changes again and again is due this long after the first enqueue at the latest.
        hold_for: as `hold()`.
        max_attempts: the number of errors after which a message is dead.
        backoff: the wait before a retry: `Exponential(…)`, a list of seconds or timedeltas, or a
            function of (exception, result) that returns a delay, or None to give up. A function
            given by `using()` must be declared with `@backoff`.
        timeout: seconds or a timedelta after which `TaskTimeout` is raised in a run.
        hard_timeout: seconds or a timedelta after which the process of an unfinished run is
            replaced, and the run has failed. For code that no exception reaches, such as a call
            into C. None: the worker's grace period after `timeout`; without `timeout` never.
        atomic: run and settle in one transaction on the queue's database, so that the task's
            changes there happen exactly once. True, or the isolation level: "read committed",
            "repeatable read" or "serializable". After a serialization failure or a deadlock the
            task runs again at once, uncharged, at most ten times.
        metadata: a dict that travels with the message.
        tags: a list of words by which people find the message, such as ["import"]. 20 at most, of
            100 bytes at most. They are stored in the metadata as "tags".
        enqueue_on_commit: store the message only when the transaction on the queue's database
            commits. An alias: when the transaction on that database commits.
        database: the alias of the queue's database, if not the one of `PGQUEUE`.
        connection: a psycopg connection to enqueue on, in place of Django's. Messages are part of
            the transaction that is open there. For `using()`.
        takes_context: pass a `TaskContext` as the first argument.
        durable: pass a `DurableContext` as the first argument, and repeat no finished step.
        keeps_lane: whether an ordered durable task keeps its lane while it waits.
        aliases: earlier import paths of the function. Messages with one of them run this task.
        encrypted: store arguments, result and progress encrypted by `PGQUEUE["ENCRYPTION_KEYS"]`,
            and errors without their texts. Needs pgqueue[encryption].
        schedule: the times at which pgqueue enqueues the task: a cron line, an interval as seconds
            or a timedelta, a `Schedule(…)`, or a list of schedules.
        redact: a list of arguments to hide from people, or of paths into them. Examples: `"card"`,
            `"user.email"`, also in each item of a list. `"return"` is the return value.
        batch: the maximum number of messages of one run, 1 to 1000. The function takes a list of
            `BatchCall`, one for each message, and returns None, or a list with a result for each.
        batch_wait: seconds or a timedelta that a message waits at most for others, until the batch
            is full. 0: a batch has the messages that a worker has claimed at once.
        batch_by: "key": only messages of one key are in a batch. None: of any keys.
        logs: the least level of the log lines to keep with each run, such as `"INFO"`. None: none.
            The default is the setting RUN_LOGS.

    Raises:
        InvalidTask: an option is unknown or invalid, or the function is not importable by name.
            Also where a call would not run the function's code: a generator function, or a
            coroutine function under a wrapper that is not async.
    """
    if function is None:
        return partial(_declare, options=options)
    return _declare(function, options)


def _declare(function: Callable[..., Any], options: Mapping[str, Any]) -> Task[Any, Any]:
    if not inspect.isfunction(function) or "." in function.__qualname__:
        raise InvalidTask(f"{function!r} must be a function at the top of a module to be a task.")
    if fault := fault_of(function):
        raise InvalidTask(f"{function!r} can't be a task: {fault}.")
    given = task_options.checked(options)
    if given.get("durable"):
        given["takes_context"] = True
    declared = _made(function, given)
    declare(declared.backoff)
    if declared.redact:
        redacting.check(declared)
    registry.add(declared)
    return declared


def _made(function: Callable[..., Any], given: Mapping[str, Any]) -> Task[Any, Any]:
    if "batch" in given:
        return kinds["batch"](function, given)
    for name in ("batch_wait", "batch_by"):
        if name in given:
            raise InvalidTask(f"{function.__qualname__}: {name} needs a batch: @task(batch=100).")
    return Task(func=function, **given)


kinds: dict[str, Callable[[Callable[..., Any], Mapping[str, Any]], Task[Any, Any]]] = {}
"""Functions that make tasks of other kinds, by the option that asks for one."""


def _find(name: str, changed: Mapping[str, Any]) -> Task[Any, Any]:
    """Return the task of this name with changed options, for unpickling."""
    declared = find_task(name)
    if declared is None:
        raise UnknownTask(f"No task is named {name} here. Is its app in INSTALLED_APPS?")
    return replace(declared, **changed) if changed else declared


def find_task(name: str) -> Task[Any, Any] | None:
    """Return the task of this name, as `registry.find()` does."""
    return cast("Task[Any, Any] | None", registry.find(name))
