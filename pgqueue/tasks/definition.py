from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from functools import cache, cached_property, partial
from itertools import chain, islice
from types import NoneType
from typing import Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, Unpack, overload

import psycopg
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connections, transaction

from pgqueue import signals
from pgqueue.calls import tracing
from pgqueue.calls.callables import fault_of
from pgqueue.calls.outcomes import Ending
from pgqueue.codec.arguments import Codec
from pgqueue.codec.encrypted import EncryptedCodec
from pgqueue.conf import settings
from pgqueue.database import guard
from pgqueue.database.migration_check import needing_tables
from pgqueue.engine import enqueue as engine
from pgqueue.engine.values import Claim, Cursors, Tuples
from pgqueue.exceptions import (
    DuplicateMessage,
    InvalidArguments,
    InvalidTask,
    OtherTransactionWarning,
    TaskResultMismatch,
    UnknownTask,
)
from pgqueue.options.retries import Backoff, declare
from pgqueue.options.schedules import Schedule
from pgqueue.states import State
from pgqueue.tasks import encryption, redacting, registry
from pgqueue.tasks import options as task_options
from pgqueue.tasks.around import running_in
from pgqueue.tasks.calls import Call, Group, mapped
from pgqueue.tasks.context import RunState, TaskContext
from pgqueue.tasks.limits import Limit
from pgqueue.tasks.options import Atomic, Options
from pgqueue.tasks.result import TaskResult, fetch
from pgqueue.values.error_words import shown
from pgqueue.values.instants import of_project
from pgqueue.values.names import as_key
from pgqueue.values.tracebacks import calls_user_code

P = ParamSpec("P")
T = TypeVar("T")

on_stored: ContextVar[Callable[[Task[Any, Any], Sequence[TaskResult[Any]]], None] | None]
on_stored = ContextVar("on_stored", default=None)
"""Called after messages of a task were stored: `pgqueue.testing` runs them there."""

BATCH = 10_000
OF_THE_DECORATOR = {"takes_context", "encrypted", "schedule", "redact"}
OF_THE_FUNCTION = ("__module__", "__name__", "__qualname__", "__doc__")
SCALARS = {int, str, float, bool, NoneType}


@dataclass(frozen=True, kw_only=True, eq=False)
class Task(Generic[P, T]):
    """A function that can be enqueued, and how its messages are treated.

    Calling the task calls the function. Frozen: `using()` returns a changed copy. Each option is
    documented at `@task`.
    """

    func: Callable[..., Any]
    channel: str | None = None
    key: str | Callable[..., str] = ""
    priority: int = 0
    run_after: datetime | timedelta | None = None
    expires_at: datetime | None = None
    ttl: timedelta | None = None
    ordered: bool = False
    dedupe_key: str | Callable[..., str | None] | None = None
    dedupe_for: timedelta | None = None
    on_conflict: str = "return"
    hold_for: timedelta | None = None
    max_attempts: int | None = None
    backoff: Backoff | None = None
    timeout: timedelta | None = None
    hard_timeout: timedelta | None = None
    atomic: Atomic = False
    metadata: Mapping[str, Any] = field(default_factory=dict)
    enqueue_on_commit: bool | str = False
    database: str | None = None
    connection: psycopg.Connection[Any] | None = None
    takes_context: bool = False
    encrypted: bool = False
    schedule: tuple[Schedule, ...] = ()
    redact: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.dedupe_for is not None and self.on_conflict == "replace":
            raise InvalidTask(
                f"{self.name}: dedupe_for remembers what was enqueued, on_conflict='replace' "
                "replaces it. Choose one."
            )
        hard, soft = self.hard_timeout, self.timeout
        if hard is not None and soft is not None and hard < soft:
            raise InvalidTask(
                f"{self.name}: hard_timeout={hard.total_seconds():g} is shorter than "
                f"timeout={soft.total_seconds():g}, after which the run is to end by itself."
            )
        if self.connection is not None and self.enqueue_on_commit:
            raise InvalidTask(
                f"{self.name}: enqueue_on_commit waits for a transaction of Django's, and not for "
                "that of a connection."
            )

        # As functools.wraps does, which can't change a frozen instance.
        vars(self).update({name: getattr(self.func, name) for name in OF_THE_FUNCTION})
        vars(self)["__wrapped__"] = self.func

    def __repr__(self) -> str:
        return f"<Task {self.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        # As a function is pickled: by its import path, and the options that using() changed.
        declared = _options(self._declared)
        own = _options(self)
        return _find, (self.name, {name: own[name] for name in own if own[name] != declared[name]})

    @overload
    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> T: ...

    @overload
    def __call__(self, context: TaskContext, /, *args: P.args, **kwargs: P.kwargs) -> T: ...

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the function, as if it were no task: no message is stored, no option has an effect.

        The function of a task with `takes_context` gets what it is given: pass a context, or an
        object with the attributes that the function uses, as the first argument.

        Returns:
            What the function returns; a coroutine, to be awaited, if it is a coroutine function.

        Raises:
            InvalidArguments: the context is missing.
        """
        if self.takes_context:
            self._require_context(args, kwargs)
        return self.func(*args, **kwargs)

    @cached_property
    def name(self) -> str:
        """The import path of the function: what a message knows its task by."""
        return f"{self.func.__module__}.{self.func.__qualname__}"

    @property
    def module_path(self) -> str:
        """The same, by the name it has in django.tasks."""
        return self.name

    @property
    def queue_name(self) -> str:
        """The channel of its messages."""
        return self.channel or settings().default_channel

    @property
    def alias(self) -> str:
        """The database that its messages are stored in."""
        return self.database or settings().database

    @property
    def codec(self) -> Codec:
        """How its arguments and its result become JSON."""
        make = _encrypted_codec if self.encrypted else _codec
        return make(self.func, skip_first=self.takes_context)

    @property
    def plain_codec(self) -> Codec:
        """The same, that encrypts nothing."""
        return _codec(self.func, skip_first=self.takes_context)

    def using(self, **options: Unpack[Options]) -> Task[P, T]:
        """Return a copy with other options: any that `@task` takes, but those of the function.

        These are takes_context, encrypted, schedule and redact.

        Raises:
            InvalidTask: an option is unknown, or has a value that can't be.
        """
        for name in OF_THE_DECORATOR & options.keys():
            raise InvalidTask(f"{name} belongs to the function: give it to @task.")
        return replace(self, **task_options.checked(options))

    def hold(self, *, for_: float | timedelta) -> Task[P, T]:
        """Return a copy whose messages are held: stored, but not run until they are committed.

        `result.commit()` lets one go and `result.abandon()` ends it, in any later transaction or
        process; one that was neither within `for_` (seconds or a timedelta) ends as expired.

        Raises:
            InvalidTask: `for_` is not longer than 0 seconds.
        """
        return self.using(hold_for=for_)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> TaskResult[T]:
        """Store a message that runs this task with these arguments.

        It is part of the transaction that is open on the queue's database: it is seen by
        workers when that commits, and vanishes with it.

        Returns:
            The message, by which its state and return value can be asked for.

        Raises:
            InvalidArguments: the arguments don't fit the function, or can't be stored.
            ChannelFull: a policy's max_size is reached.
            DuplicateMessage: its dedupe_key is taken, and on_conflict is "raise".
            NotMigrated: the database lacks our tables, or has old ones.
        """
        self._flag_other_transactions()
        return self.store([TaskResult(self, args, kwargs)])[0]

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> TaskResult[T]:
        """Store a message, from async code."""
        return await sync_to_async(self.enqueue)(*args, **kwargs)

    def enqueue_many(
        self, calls: Iterable[Sequence[Any] | Mapping[str, Any]]
    ) -> list[TaskResult[T]]:
        """Store a message for each of `calls`, 10 000 at a time by COPY: all or none.

        Args:
            calls: each a tuple or list of positional arguments, or a dict of named ones. Ordered
                ones run in this order, and may have 500 different keys.

        Raises:
            InvalidArguments: one call doesn't fit the function, or can't be stored.
            ChannelFull, DuplicateMessage: as `enqueue` does.
        """
        self._flag_other_transactions()
        with self._atomic():
            return [result for batch in self._batches(calls) for result in self.store(batch)]

    async def aenqueue_many(
        self, calls: Iterable[Sequence[Any] | Mapping[str, Any]]
    ) -> list[TaskResult[T]]:
        """Store many messages, from async code."""
        return await sync_to_async(self.enqueue_many)(calls)

    def get_result(self, result_id: str | int) -> TaskResult[T]:
        """Look up a message of this task.

        Raises:
            TaskResultDoesNotExist: there is none: it was rolled back, or is no longer kept.
            TaskResultMismatch: it is another task's.
        """
        return fetch(self, result_id)

    async def aget_result(self, result_id: str | int) -> TaskResult[T]:
        """Look up a message of this task, from async code."""
        return await sync_to_async(self.get_result)(result_id)

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call:
        """Return a call with these arguments, for `chain`, `group`, `chord` or `Call.enqueue()`.

        Nothing is stored. In a chain, what comes before gives the first argument.
        """
        return Call(self, args, kwargs)

    def map(self, values: Iterable[Any]) -> Group:
        """Return a group of calls, one with each of these values as its argument.

        `task.map(values).enqueue()` stores them, `chord(task.map(values), merge)` has another one
        wait for them.
        """
        return mapped(self, values)

    @calls_user_code
    def run_here(self, *args: Any, **kwargs: Any) -> T:
        """Run the function here and now, and a coroutine function to its end."""
        function = self._as_sync if self.is_async else self.func
        result: T = function(*args, **kwargs)
        return result

    def _require_context(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        try:
            inspect.signature(self.func).bind(*args, **kwargs)
        except TypeError as error:
            raise InvalidArguments(
                f"{self.name}: {error}. It takes a context: a direct call passes one, or an object "
                "with the same attributes, as the first argument; a worker passes it by itself."
            ) from error

    def context(self, claim: Claim, run: RunState, database: str) -> TaskContext:
        """Return what a run of this task on what was claimed is told."""
        return TaskContext(self, claim, run, database)

    def send_started(self, context: TaskContext) -> None:
        """Send the signal that a run begins."""
        signals.task_started.send_robust(self, context=context)

    def send_finished(self, context: TaskContext, ending: Ending) -> None:
        """Send the signal that a run is over."""
        signals.task_finished.send_robust(self, context=context, ending=ending)

    def is_expected(self, error: BaseException) -> bool:
        """Tell whether an error is part of the task's work: it is logged as such, in one line."""
        return False

    def encode_result(self, value: Any) -> str:
        """Return as JSON what a run returned.

        Raises:
            InvalidResult: it can't be stored.
        """
        return self.codec.encode_result(value)

    @cached_property
    def is_async(self) -> bool:
        """Whether the function is a coroutine function."""
        return inspect.iscoroutinefunction(self.func)

    @cached_property
    def _as_sync(self) -> Callable[..., Any]:
        # What the coroutine does through sync_to_async, the ORM above all, comes back to
        # the thread that runs it, and so to its connections and its transaction.
        return async_to_sync(self.func)

    @property
    def limits(self) -> tuple[Limit, ...]:
        """What bounds a run in time, in the order in which they end it."""
        return () if self.timeout is None else (Limit(self.timeout),)

    def hard_limit(self, grace: timedelta) -> timedelta | None:
        """Return after which time of a run its process is replaced; None: after none.

        Args:
            grace: how much later than its last limit that is, unless the task says otherwise.
        """
        if self.hard_timeout is not None:
            return self.hard_timeout
        final = [each.after for each in self.limits if each.is_final]
        return final[-1] + grace if final else None

    def scheduled_by(self, name: str) -> dict[str, Any]:
        """Return the options that messages of the schedule of this name have beside its own."""
        return {}

    def for_message(self, changed: bytes | None) -> Task[P, T]:
        """Return this task with the options that `using()` gave one message.

        Raises:
            UnreadablePayload: they are no options.
        """
        if not changed:
            return self
        found = task_options.received(self.name, changed)
        known = {each.name for each in fields(self)}  # `backend`, of tasks of django.tasks
        return replace(self, **{name: found[name] for name in found.keys() & known})

    def check_is_of(self, name: str, result_id: str | int) -> None:
        """Say no to a message of another task.

        Raises:
            TaskResultMismatch: it is.
        """
        if name != self.name:
            raise TaskResultMismatch(f"Message {result_id} is of {name}, not of {self.name}.")

    def _batches(
        self, calls: Iterable[Sequence[Any] | Mapping[str, Any]]
    ) -> Iterator[list[TaskResult[T]]]:
        rest = iter(calls)
        # These go out together: others are waited for in the order of all the keys.
        count = None if self.ordered or self.dedupe_key is not None else BATCH
        while batch := [self._to_be_stored(call) for call in islice(rest, count)]:
            yield batch

    def _to_be_stored(self, call: Sequence[Any] | Mapping[str, Any]) -> TaskResult[T]:
        if isinstance(call, tuple | list):
            return TaskResult(self, call, {})
        if isinstance(call, Mapping):
            return TaskResult(self, (), call)
        raise TypeError(
            f"enqueue_many() of {self.name}: {call!r} is neither a tuple of arguments nor a dict."
        )

    def store(
        self,
        results: Sequence[TaskResult[T]],
        ids: Sequence[int] | None = None,
        *,
        payloads: Sequence[str] | None = None,
        flow_id: int | None = None,
        waits: bool = False,
    ) -> Sequence[TaskResult[T]]:
        """Store messages, and note in their results where they are.

        Args:
            results: of this task, or of others that share with it what `shared` says.
            ids: reserved ones, as many as results; None: the next ones.
            payloads: their arguments, encoded; None: they are encoded here.
            flow_id: the flow that they are part of. Its other messages come next, so that nobody is
                told yet that they are stored.
            waits: they are held until others of the flow have ended.

        Raises:
            InvalidArguments, ChannelFull, DuplicateMessage: as `enqueue` does.
        """
        with tracing.sending(self.queue_name, task=self.name, count=len(results)) as sending:
            common = self._common(sending)._replace(flow_id=flow_id, waits=waits)
            self._store(results, ids, common, payloads)
            sending.stored((each.id for each in results), (each.came_of for each in results))
        return results

    def _store(
        self,
        results: Sequence[TaskResult[T]],
        ids: Sequence[int] | None,
        common: engine.Common,
        payloads: Sequence[str] | None,
    ) -> None:
        makes_keys = callable(self.key) or callable(self.dedupe_key)
        keys, dedupe_keys = guard.call(_keys, results) if makes_keys else _keys(results)
        if self.ordered and len(set(keys)) > engine.LOCKED_KEYS:
            raise InvalidTask(
                f"enqueue_many() of {self.name}: ordered messages may have {engine.LOCKED_KEYS} "
                "different keys in one call. Call it again for more."
            )
        encode = self.codec.encode
        texts = iter(payloads or (encode(result.args, result.kwargs) for result in results))
        store = partial(
            engine.enqueue,
            common=common,
            keys=keys,
            dedupe_keys=None if all(key is None for key in dedupe_keys) else dedupe_keys,
            ids=ids,
        )
        if self.enqueue_on_commit:
            self._store_on_commit(results, partial(store, payloads=list(texts)))
        else:
            # The rest is encoded as they go out; but not where that may run the user's code,
            # which may ask the same database. The first looks at the function's hints.
            ready = [next(texts)] if _are_scalars(results) else guard.call(list, texts)
            self._note(results, self._run(partial(store, payloads=chain(ready, texts))))
        if any(map(signals.task_enqueued.has_listeners, {each.task for each in results})):
            for result in results:
                signals.task_enqueued.send_robust(
                    result.task, connection=self.connection, task_result=result
                )
        if not self.enqueue_on_commit and common.flow_id is None:
            self.tell_stored(results)

    def tell_stored(self, results: Sequence[TaskResult[T]]) -> None:
        """Say that messages are stored, where somebody wants to know."""
        if (call := on_stored.get()) is not None:
            call(self, results)

    def _store_on_commit(
        self, results: Sequence[TaskResult[T]], store: Callable[..., engine.Enqueued]
    ) -> None:
        on_commit = self.enqueue_on_commit
        alias = on_commit if isinstance(on_commit, str) else self.alias
        ids: list[int] | None = None
        if not self.ordered:  # those get theirs when it is their turn
            ids = self._run(partial(engine.reserve, count=len(results)))
            for result, id in zip(results, ids or [], strict=True):
                result.id = str(id)
        for result in results:
            result.status = State.READY if self.run_after is None else State.SCHEDULED

        def enqueue() -> None:
            self._note(results, self._run(partial(store, ids=ids)))
            self.tell_stored(results)

        transaction.on_commit(enqueue, using=alias)

    @property
    def cursors(self) -> Cursors:
        """The connection that its messages are stored on."""
        return connections[self.alias] if self.connection is None else Tuples(self.connection)

    def _run(self, verb: Callable[..., Any]) -> Any:
        """Run a verb of the engine on Django's connection, as a query of Django's would."""
        with needing_tables(self.alias):
            if self.connection is not None:
                return verb(Tuples(self.connection))
            connection = connections[self.alias]
            with connection.wrap_database_errors:  # Django's cursors do, but for COPY
                return verb(connection)

    def _atomic(self) -> AbstractContextManager[Any]:
        if self.connection is not None:
            return Tuples(self.connection).atomic()
        return transaction.atomic(using=self.alias)

    def _note(self, results: Sequence[TaskResult[T]], stored: engine.Enqueued) -> None:
        """Write down what became of messages.

        Raises:
            DuplicateMessage: one was there already, and that is not to be.
        """
        for result, id, came_of in zip(results, stored.ids, stored.came_of, strict=True):
            result.id = "" if id is None else str(id)
            result.status = stored.state
            result.enqueued_at = of_project(stored.created_at)
            result.came_of = came_of
            if came_of == "existing":
                if self.on_conflict == "raise":
                    raise DuplicateMessage(
                        f"Message {id} has the dedupe key of this {self.name} already."
                    )
                result.look()

    def key_of(self, result: TaskResult[T]) -> str:
        """Return the key of a message that is to be stored."""
        if isinstance(self.key, str):
            return self.key
        return self._checked_key(self.key(*result.args, **result.kwargs))

    def dedupe_key_of(self, result: TaskResult[T]) -> str | None:
        """Return the dedupe key of a message that is to be stored, if it has one."""
        if self.dedupe_key is None or isinstance(self.dedupe_key, str):
            return self.dedupe_key
        return self._checked_dedupe_key(self.dedupe_key(*result.args, **result.kwargs))

    def _checked_key(self, key: Any) -> str:
        try:
            return as_key(key)
        except (TypeError, ValueError) as error:
            raise InvalidTask(f"The key {shown(key)} of {self.name}: {error}") from error

    def _checked_dedupe_key(self, key: Any) -> str | None:
        try:
            return task_options.checked_dedupe_key(key)
        except (TypeError, ValueError) as error:
            raise InvalidTask(f"The dedupe_key {shown(key)} of {self.name}: {error}") from error

    def _common(self, sending: tracing.Sending) -> engine.Common:
        return engine.Common(
            channel=self.queue_name,
            task=self.name,
            metadata=sending.metadata(self._metadata),
            max_attempts=self.max_attempts or settings().max_attempts,
            parent_id=None if self.connection else running_in(self.alias),
            **self._columns,
        )

    @cached_property
    def _metadata(self) -> str:
        return json.dumps(self.metadata)

    @cached_property
    def _columns(self) -> dict[str, Any]:
        """What all its messages have in common."""
        at = self.run_after
        return {
            "options": task_options.travelling(_options(self), _options(self._declared)),
            "priority": self.priority,
            "run_at": at if isinstance(at, datetime) else None,
            "run_after": at if isinstance(at, timedelta) else None,
            "expires_at": self.expires_at,
            "expires_after": self.ttl,
            "held_for": self.hold_for,
            "ordered": self.ordered,
            "dedupe_for": self.dedupe_for,
            "replaces": self.on_conflict == "replace",
        }

    @property
    def shared(self) -> tuple[Hashable, ...]:
        """What messages must have in common to be stored together: all but their keys."""
        return (
            self.func,
            self.name,
            self.queue_name,
            self.alias,
            self.connection,
            self.max_attempts,
            self.on_conflict,
            self.enqueue_on_commit,
            self._metadata,
            *self._columns.values(),
        )

    @property
    def _declared(self) -> Task[P, T]:
        """The task as its decorator made it, which is what a worker finds."""
        return registry.get(self.name) or self

    def _flag_other_transactions(self) -> None:
        """Warn where a transaction is open, but not the one that the message is part of."""
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


@overload
def task(function: Callable[P, T], /) -> Task[P, T]: ...


@overload
def task(
    *,
    takes_context: Literal[True],
    encrypted: bool = ...,
    schedule: Any = ...,
    redact: Sequence[str] = ...,
    **options: Unpack[Options],
) -> Callable[[Callable[Concatenate[TaskContext, P], T]], Task[P, T]]: ...


@overload
def task(
    *,
    takes_context: Literal[False] = ...,
    encrypted: bool = ...,
    schedule: Any = ...,
    redact: Sequence[str] = ...,
    **options: Unpack[Options],
) -> Callable[[Callable[P, T]], Task[P, T]]: ...


def task(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a function at the top of a module a task, which is called as the function is.

    Args:
        channel: the named stream its messages are in; workers serve channels.
            (`queue_name`, as django.tasks calls it, is the same.)
        key: the sub-queue inside its channel, a tenant for example, or a function of the
            call's arguments that returns it. Keys take turns, however much each has waiting.
        priority: -100 to 100; higher first within a key.
        run_after: an aware datetime, or seconds or a timedelta from when it is enqueued.
        expires_at: an aware datetime; a message that was not started by then ends as expired.
        ttl: the same as seconds or a timedelta from when it is enqueued; the earlier one holds.
        ordered: run the messages of a key one at a time, in the order their transactions commit,
            whatever their priority. Enqueueing one waits for others of its key that are not
            committed yet.
        dedupe_key: enqueue no second message with this text in the channel while the first one
            waits or runs; or a function of the call's arguments that returns it, or None.
        dedupe_for: seconds or a timedelta that a dedupe_key is remembered from when it is
            enqueued, if its message ends sooner.
        on_conflict: what enqueueing a second one does: "return" the first, "replace" the first's
            arguments and times if it was not started (so a burst runs once, after its last:
            debouncing), or "raise" DuplicateMessage.
        hold_for: as `hold()`.
        max_attempts: errors after which a message is dead.
        backoff: how long a failed message waits: `Exponential(…)`, a list of seconds or
            timedeltas, or a function of (exception, result) that returns one, or None to give up.
            One that is given by `using()` must be declared with `@backoff`.
        timeout: seconds or a timedelta after which `TaskTimeout` is raised in a run.
        hard_timeout: seconds or a timedelta after which the process of a run that has not ended is
            replaced, and the run has failed: for code that no exception reaches, such as a call
            into C. None: the worker's grace period after `timeout`; without `timeout` never.
        atomic: run and settle in one transaction on the queue's database: what the task does
            there happens exactly once. "read committed", "repeatable read" or "serializable"
            instead of True is how isolated it is. After a serialization failure or a deadlock it
            runs again at once, uncharged, ten times at most.
        metadata: a dict that travels with the message.
        enqueue_on_commit: store the message only when the transaction on the queue's database,
            or on that of the alias given, commits.
        database: the alias of the queue's database, if not the one of `PGQUEUE`.
        connection: a psycopg connection to enqueue on, in place of Django's: messages are part of
            the transaction that is open there. For `using()`.
        takes_context: pass a `TaskContext` as the first argument.
        encrypted: store arguments, result and progress encrypted by `PGQUEUE["ENCRYPTION_KEYS"]`,
            and of errors no text. Needs pgqueue[encryption].
        schedule: when it is enqueued by itself: a cron line, an interval as seconds or a timedelta,
            a `Schedule(…)`, or a list of them.
        redact: a list of arguments that nobody is shown, or of paths into them: `"card"`,
            `"user.email"`, also in each item of a list; `"return"` is what the function returns.

    Raises:
        InvalidTask: an option is unknown or can't be, or the function can't be imported by name; or
            a call of the function would not run its code, since it is a generator function, or a
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
    declared: Task[Any, Any] = Task(func=function, **task_options.checked(options))
    declare(declared.backoff)
    if declared.redact:
        redacting.check(declared)
    registry.add(declared)
    return declared


def _find(name: str, changed: Mapping[str, Any]) -> Task[Any, Any]:
    """Return the task of this name with changed options: what a pickled one was."""
    declared = registry.find(name)
    if declared is None:
        raise UnknownTask(f"No task is named {name} here. Is its app in INSTALLED_APPS?")
    return replace(declared, **changed) if changed else declared


@cache
def _codec(function: Callable[..., Any], *, skip_first: bool) -> Codec:
    # One for all copies that using() makes: it looks at signature and hints.
    return Codec(function, skip_first=skip_first, cipher=encryption)


@cache
def _encrypted_codec(function: Callable[..., Any], *, skip_first: bool) -> Codec:
    return EncryptedCodec(function, skip_first=skip_first, cipher=encryption)


def _options(task: Task[Any, Any]) -> dict[str, Any]:
    return {each.name: getattr(task, each.name) for each in fields(task)}


def _keys(results: Sequence[TaskResult[Any]]) -> tuple[list[str], list[str | None]]:
    """Return the keys of messages that are to be stored, and their dedupe keys."""
    return (
        [each.task.key_of(each) for each in results],
        [each.task.dedupe_key_of(each) for each in results],
    )


def _are_scalars(results: Sequence[TaskResult[Any]]) -> bool:
    types = set(map(type, chain.from_iterable(result.args for result in results)))
    return types <= SCALARS and not any(result.kwargs for result in results)
