"""A task as it is declared: its function, its options, and how its arguments are stored."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from functools import cache, cached_property
from typing import Any, ClassVar, Generic, ParamSpec, Self, TypeVar, Unpack

import psycopg
from asgiref.sync import async_to_sync
from django.db import connections

from pgqueue.codec.arguments import Codec
from pgqueue.codec.encrypted import EncryptedCodec
from pgqueue.conf import settings
from pgqueue.engine.values import Cursors, Tuples
from pgqueue.exceptions import InvalidTask, TaskResultMismatch
from pgqueue.options.retries import Backoff
from pgqueue.options.schedules import Schedule
from pgqueue.tasks import collecting, encryption, tenants
from pgqueue.tasks import options as task_options
from pgqueue.tasks.limits import TimeLimit
from pgqueue.tasks.options import RUN_OPTIONS, Atomic, Options, RunOptions
from pgqueue.values.error_words import shown
from pgqueue.values.names import as_key
from pgqueue.values.tracebacks import calls_user_code

P = ParamSpec("P")
T = TypeVar("T")

OF_THE_DECORATOR = {
    "takes_context",
    "durable",
    "keeps_lane",
    "aliases",
    "encrypted",
    "schedule",
    "redact",
    "batch",
    "batch_wait",
    "batch_by",
    "logs",
}
OF_THE_FUNCTION = ("__module__", "__name__", "__qualname__", "__doc__")

tasks: dict[str, Declaration[Any, Any]] = {}
"""The tasks that this process has imported, by name. `registry` fills it."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Declaration(Generic[P, T]):
    """A function that is a task, and how its messages are stored and run.

    Frozen: `using()` returns a changed copy. Each option is documented at `@task`.
    """

    run_options: ClassVar[RunOptions] = RUN_OPTIONS
    """The options that travel with a message to its worker. A kind of tasks may add its own."""

    func: Callable[..., Any]
    channel: str | None = None
    key: str | Callable[..., str] = ""
    priority: int = 0
    weight: int = 1
    run_after: datetime | timedelta | None = None
    expires_at: datetime | None = None
    ttl: timedelta | None = None
    ordered: bool = False
    dedupe_key: str | Callable[..., str | None] | None = None
    dedupe_for: timedelta | None = None
    on_conflict: str = "return"
    longest_wait: timedelta | None = None
    hold_for: timedelta | None = None
    max_attempts: int | None = None
    backoff: Backoff | None = None
    timeout: timedelta | None = None
    hard_timeout: timedelta | None = None
    atomic: Atomic = False
    metadata: Mapping[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    enqueue_on_commit: bool | str = False
    database: str | None = None
    connection: psycopg.Connection[Any] | None = None
    takes_context: bool = False
    durable: bool = False
    keeps_lane: bool = True
    encrypted: bool = False
    schedule: tuple[Schedule, ...] = ()
    redact: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    logs: str | None = task_options.AS_CONFIGURED

    def __post_init__(self) -> None:
        if self.on_conflict == task_options.COLLECT:
            collecting.parameter_of(self.func, skip_first=self.takes_context)
        try:
            task_options.check_replacing(
                on_conflict=self.on_conflict,
                dedupe_for=self.dedupe_for,
                longest_wait=self.longest_wait,
                run_after=self.run_after,
                hold_for=self.hold_for,
            )
        except ValueError as error:
            raise InvalidTask(f"{self.name}: {error}") from error
        if self.durable and self.atomic:
            raise InvalidTask(
                f"{self.name}: a durable task is not one transaction: make its steps atomic, "
                "run.step(…, atomic=True)."
            )
        hard, soft = self.hard_timeout, self.timeout
        if hard is not None and soft is not None and hard < soft:
            raise InvalidTask(
                f"{self.name}: hard_timeout={hard.total_seconds():g} is shorter than "
                f"timeout={soft.total_seconds():g}, after which the run should end by itself."
            )
        if self.tags and task_options.TAGS in self.metadata:
            raise InvalidTask(
                f"{self.name}: tags are stored in the metadata as {task_options.TAGS!r}: give them "
                "by the option, or in the metadata."
            )
        if self.connection is not None and self.enqueue_on_commit:
            raise InvalidTask(
                f"{self.name}: enqueue_on_commit waits for a transaction of Django's, and not for "
                "one of a given connection."
            )

        # As functools.wraps, which cannot change a frozen instance.
        vars(self).update({name: getattr(self.func, name) for name in OF_THE_FUNCTION})
        vars(self)["__wrapped__"] = self.func

    def __repr__(self) -> str:
        return f"<Task {self.name}>"

    @cached_property
    def name(self) -> str:
        """The import path of the function. A message stores it as the name of its task."""
        return f"{self.func.__module__}.{self.func.__qualname__}"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of tasks whose messages are its own: its name and its aliases."""
        return (self.name, *self.aliases)

    @property
    def module_path(self) -> str:
        """The name of the task, as django.tasks calls it."""
        return self.name

    @property
    def queue_name(self) -> str:
        """The channel of its messages."""
        return self.channel or settings().default_channel

    @property
    def changes_waiting(self) -> bool:
        """Whether a second message with the same dedupe key changes the first, while it waits."""
        return self.on_conflict in task_options.REPLACING

    @property
    def alias(self) -> str:
        """The database that its messages are stored in."""
        return self.database or settings().database

    @property
    def codec(self) -> Codec:
        """The codec that turns its arguments and its result into JSON."""
        make = _encrypted_codec if self.encrypted else _codec
        return make(self.func, skip_first=self.takes_context)

    @property
    def join(self) -> collecting.Join:
        """The value that joins the arguments of its messages, with on_conflict="collect"."""
        return collecting.Join(
            name=self.name,
            aliases=self.aliases,
            codec=self.codec,
            parameter=collecting.parameter_of(self.func, skip_first=self.takes_context),
            is_encrypted=self.encrypted,
        )

    @property
    def plain_codec(self) -> Codec:
        """The codec of the task without encryption."""
        return _codec(self.func, skip_first=self.takes_context)

    def using(self, **options: Unpack[Options]) -> Self:
        """Return a copy with other options.

        takes_context, durable, keeps_lane, aliases, encrypted, schedule, redact, logs and the
        options of a batch belong to the function, and are refused here.

        Raises:
            InvalidTask: an option is unknown, or its value is invalid.
        """
        for name in OF_THE_DECORATOR & options.keys():
            raise InvalidTask(f"{name} belongs to the function: give it to @task.")
        return replace(self, **task_options.checked(options))

    def hold(self, *, for_: float | timedelta) -> Self:
        """Return a copy whose messages are held: stored, but not run until they are committed.

        `result.commit()` releases a message and `result.abandon()` cancels it, in any later
        transaction or process. A message that is neither committed nor abandoned within `for_`
        (seconds or a timedelta) ends as expired.

        Raises:
            InvalidTask: `for_` is not longer than 0 seconds.
        """
        return self.using(hold_for=for_)

    @cached_property
    def is_async(self) -> bool:
        """Whether the function is a coroutine function."""
        return inspect.iscoroutinefunction(self.func)

    @cached_property
    def _as_sync(self) -> Callable[..., Any]:
        # The coroutine's calls of sync_to_async (above all the ORM's) return to the thread that
        # runs it. So they use this thread's connections and its transaction.
        return async_to_sync(self.func)

    @calls_user_code
    def run_here(self, *args: Any, **kwargs: Any) -> T:
        """Run the function now in this thread; a coroutine function runs to its end."""
        function = self._as_sync if self.is_async else self.func
        result: T = function(*args, **kwargs)
        return result

    def is_expected(self, error: BaseException) -> bool:
        """Return whether an error is part of the task's work, and is logged in one line."""
        return False

    def encode_result(self, value: Any) -> str:
        """Return a run's return value as JSON.

        Raises:
            InvalidResult: the value is not storable.
        """
        return self.codec.encode_result(value)

    @property
    def log_level(self) -> str | None:
        """The least level of the log lines that are kept with a run; None: none are kept."""
        return settings().run_logs if self.logs == task_options.AS_CONFIGURED else self.logs

    @property
    def limits(self) -> tuple[TimeLimit, ...]:
        """The time limits of a run, in the order in which a run reaches them."""
        return () if self.timeout is None else (TimeLimit(self.timeout),)

    @property
    def final_limit(self) -> TimeLimit | None:
        """The limit at which a run gives its lease up; None: no limit does that."""
        return next((each for each in self.limits if each.is_final), None)

    def hard_limit(self, grace: timedelta) -> timedelta | None:
        """Return the duration of a run after which its process is replaced; None: never.

        Args:
            grace: the time after the last limit, where the task declares no hard_timeout.
        """
        if self.hard_timeout is not None:
            return self.hard_timeout
        final = self.final_limit
        return None if final is None else final.after + grace

    def scheduled_by(self, name: str) -> dict[str, Any]:
        """Return further options for messages of the schedule of this name."""
        return {}

    def for_message(self, changed: bytes | None) -> Self:
        """Return this task with the options that `using()` gave one message.

        Options of the task that were declared since, and contradict these, are left out. A durable
        task leaves out the message's `atomic`.

        Raises:
            UnreadablePayload: the stored options are invalid.
        """
        if not changed:
            return self
        given = task_options.received(self.name, changed, self.run_options)
        if self.durable:
            given.pop("atomic", None)
        hard, soft = (given.get(name, getattr(self, name)) for name in ("hard_timeout", "timeout"))
        if hard is not None and soft is not None and hard < soft:
            given |= dict.fromkeys({"hard_timeout", "timeout"} - given.keys())
        return replace(self, **given)

    def check_is_of(self, name: str, result_id: str | int) -> None:
        """Check that a message belongs to this task.

        Raises:
            TaskResultMismatch: the message belongs to another task.
        """
        if name not in self.names:
            raise TaskResultMismatch(f"Message {result_id} is of {name}, not of {self.name}.")

    @property
    def cursors(self) -> Cursors:
        """The connection on which its messages are stored."""
        return connections[self.alias] if self.connection is None else Tuples(self.connection)

    def key_of(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """Return the key of a message with these arguments.

        Raises:
            InvalidTask: the task's function of a key returned an invalid one.
        """
        if isinstance(self.key, str):
            return self.key
        key = self.key(*args, **kwargs)
        try:
            return as_key(key)
        except (TypeError, ValueError) as error:
            raise InvalidTask(f"The key {shown(key)} of {self.name}: {error}") from error

    def dedupe_key_of(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
        """Return the dedupe key of a message with these arguments; None: there is none.

        Raises:
            InvalidTask: the task's function of a dedupe key returned an invalid one, or the key is
                too long with the name of the tenant.
            InvalidTenant: the message's tenant has no name.
        """
        if self.dedupe_key is None:
            return None
        key = self.dedupe_key(*args, **kwargs) if callable(self.dedupe_key) else self.dedupe_key
        own = tenants.own_key(key, self.metadata)
        try:
            return task_options.checked_dedupe_key(own)
        except (TypeError, ValueError) as error:
            raise InvalidTask(f"The dedupe_key {shown(key)} of {self.name}: {error}") from error

    @cached_property
    def metadata_json(self) -> str:
        """The metadata as JSON, with the tags."""
        if not self.tags:
            return json.dumps(self.metadata)
        return json.dumps({**self.metadata, task_options.TAGS: self.tags})

    @property
    def declared(self) -> Declaration[Any, Any]:
        """The task as its decorator made it. The worker finds the task in this form."""
        return tasks.get(self.name) or self

    @cached_property
    def columns(self) -> dict[str, Any]:
        """The columns that all messages of the task have in common."""
        at = self.run_after
        return {
            "options": task_options.travelling(
                self.options, self.declared.options, self.run_options
            ),
            "priority": self.priority,
            "run_at": at if isinstance(at, datetime) else None,
            "run_after": at if isinstance(at, timedelta) else None,
            "expires_at": self.expires_at,
            "expires_after": self.ttl,
            "held_for": self.hold_for,
            "ordered": self.ordered,
            "dedupe_for": self.dedupe_for,
            "replaces": self.changes_waiting,
            "longest_wait": self.longest_wait,
        }

    @property
    def shared(self) -> tuple[Hashable, ...]:
        """The values that messages must share to be stored together: all except their keys."""
        return (
            self.func,
            self.name,
            self.queue_name,
            self.alias,
            self.connection,
            self.max_attempts,
            self.on_conflict,
            self.enqueue_on_commit,
            self.metadata_json,
            *self.columns.values(),
        )

    @property
    def options(self) -> dict[str, Any]:
        """The value of each option, by name."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


@cache
def _codec(function: Callable[..., Any], *, skip_first: bool) -> Codec:
    # All copies that using() makes share one codec: it inspects signature and hints.
    return Codec(function, skip_first=skip_first, cipher=encryption)


@cache
def _encrypted_codec(function: Callable[..., Any], *, skip_first: bool) -> Codec:
    return EncryptedCodec(function, skip_first=skip_first, cipher=encryption)
