"""The result of a message: its state, its return value and its errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import TIMEOUT_MAX
from time import monotonic
from typing import Any, Generic, TypeAlias, TypeVar

from asgiref.sync import sync_to_async
from django.db import connections

from pgqueue.database.connections import borrow
from pgqueue.database.migration_check import needing_tables
from pgqueue.engine import cancel, held, lookup
from pgqueue.engine.errors import entries
from pgqueue.engine.lookup import Found
from pgqueue.engine.values import Cursors
from pgqueue.exceptions import (
    HoldExpired,
    InvalidStep,
    TaskFailed,
    TaskResultDoesNotExist,
    TaskResultMismatch,
    WaitInTransaction,
    WaitTimeout,
)
from pgqueue.states import Outcome, State
from pgqueue.tasks import log_lines, rerunning, signalling, waiting
from pgqueue.tasks.declaration import Declaration
from pgqueue.tasks.returned import returned
from pgqueue.values.error_words import checked_option, shown
from pgqueue.values.instants import of_project
from pgqueue.values.number_checks import as_duration, as_timedelta

T = TypeVar("T")
Call: TypeAlias = "tuple[Sequence[Any], Mapping[str, Any]]"

FOREVER = TIMEOUT_MAX / 2
WORDS: dict[str, State | Outcome] = {each.value: each for each in (*State, *Outcome)}


@dataclass(frozen=True, slots=True)
class TaskError:
    """One attempt that failed."""

    attempt: int
    exception_class_path: str
    message: str
    traceback: str


class TaskResult(log_lines.LoggedResult, Generic[T]):
    """A message as it was when it was last looked at; `refresh()` looks again.

    Attributes:
        task: the task it runs.
        id: its number, as text; '' until it is stored.
        status: a `State` while it lives, an `Outcome` after it has ended.
        enqueued_at: the time at which it was stored, by the database's clock.
        came_of: the outcome of its enqueue: stored, or existing, replaced or collected, if its
            dedupe_key was taken. dropped: its channel was full, and drops further messages.
    """

    __slots__ = ("_call", "_found", "came_of", "enqueued_at", "id", "status", "task")

    def __init__(
        self, task: Declaration[Any, T], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        self.task = task
        self._call: Call | None = (args, kwargs)
        self.id = ""
        self.status: State | Outcome = State.READY
        self.enqueued_at: datetime | None = None
        self.came_of = "stored"
        self._found: Found | None = None

    @classmethod
    def of(cls, task: Declaration[Any, T], found: Found) -> TaskResult[T]:
        """Return the result of a message that was looked up. Its arguments are not read yet."""
        result = cls(task, (), {})
        result._call = None
        result.id = str(found.id)
        result._note(found)
        return result

    def __repr__(self) -> str:
        return f"<TaskResult {self.task.name} #{self.id} {self.status.value}>"

    @property
    def args(self) -> Sequence[Any]:
        """The positional arguments. After a lookup, they are decoded at first use.

        Raises:
            UnreadablePayload: they belong to another task, or no key decrypts them.
            ObjectDoesNotExist: the row of a model instance is gone.
        """
        return (self._call or self._decoded())[0]

    @property
    def kwargs(self) -> Mapping[str, Any]:
        """The named arguments, decoded as `args` are."""
        return (self._call or self._decoded())[1]

    @property
    def stored_call(self) -> tuple[list[Any], dict[str, Any]]:
        """The arguments as plain JSON, as they are stored; empty for an encrypted message."""
        plain = json.loads(self._found.payload if self._found else "null")
        found = plain if isinstance(plain, dict) else {}
        return list(found.get("args", [])), dict(found.get("kwargs", {}))

    def _decoded(self) -> Call:
        payload = self._found.payload if self._found else "null"
        self._call = self.task.codec.decode(payload)
        return self._call

    @property
    def is_finished(self) -> bool:
        """Whether the message has ended, or is dead and runs again only after a replay."""
        return isinstance(self.status, Outcome) or self.status is State.DEAD

    @returned
    def return_value(self) -> Any:
        """The return value of the task.

        Raises:
            TaskFailed: the message has not succeeded, or not yet.
        """
        if self._found is None or self.status is not Outcome.SUCCEEDED:
            raise TaskFailed(f"{self!r} has no return value.")
        return self.task.codec.decode_result(self._found.result or "null")

    @property
    def progress(self) -> Any:
        """The progress that its runs stored last, also after its end; None: there is none.

        Raises:
            UnreadablePayload: it is not a JSON value that the task's code can read.
            DecryptionFailed: no key decrypts it.
        """
        noted = self._found.progress if self._found else None
        return None if noted is None else self.task.codec.decode_progress(noted)

    @property
    def errors(self) -> list[TaskError]:
        """Its failed attempts: the first, and the last nine."""
        return [
            TaskError(entry["attempt"], entry["class"], entry["message"], entry["traceback"])
            for entry in entries(self._found.errors if self._found else "[]")
        ]

    @property
    def attempt(self) -> int:
        """The number of times that a worker claimed the message."""
        return self._found.attempt if self._found else 0

    @property
    def failures(self) -> int:
        """The number of runs that raised an error."""
        return self._found.failures if self._found else 0

    @property
    def started_at(self) -> datetime | None:
        """The start of its last finished run."""
        return of_project(self._found.started_at) if self._found else None

    @property
    def finished_at(self) -> datetime | None:
        """The time at which it ended."""
        return of_project(self._found.finished_at) if self._found else None

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata that the producer gave the message."""
        return dict(json.loads(self._found.metadata if self._found else "{}"))

    def refresh(self) -> None:
        """Look at the message again.

        Raises:
            TaskResultDoesNotExist: it was rolled back, or its history was purged.
        """
        self._note(_find(self.task, self.id, connections[self.task.alias]))

    def look(self) -> None:
        """Look at the message on the task's connection, if it exists and belongs to this task.

        Does nothing for a role that may only enqueue: a refused query would abort its transaction.
        """
        with suppress(TaskResultDoesNotExist, TaskResultMismatch):
            if lookup.may_read(self.task.cursors):
                self._note(_find(self.task, self.id, self.task.cursors))

    async def arefresh(self) -> None:
        """Look at the message again, from async code."""
        await sync_to_async(self.refresh)()

    def wait(self, timeout: float | timedelta | None = None) -> TaskResult[T]:
        """Wait until the message has ended with any outcome, or is dead.

        A notification ends the wait. All waits of this process share one connection for it. A
        transaction may wait, but not for a message that it has enqueued itself.

        Args:
            timeout: seconds or a timedelta; None: without a limit.

        Returns:
            This result, refreshed: `status` and `return_value` are up to date.

        Raises:
            WaitTimeout: the message goes on after the timeout.
            WaitInTransaction: the transaction that enqueues it is not committed.
            TaskResultDoesNotExist: it was rolled back, or its history was purged.
        """
        seconds = _seconds(timeout)
        until = monotonic() + seconds
        if self._has_ended():
            return self
        promise = waiting.ended(self.task.alias, self._number)
        try:
            found = promise.result(until - monotonic())
        except TimeoutError as error:
            raise self._late(seconds) from error
        finally:
            promise.cancel()
        return self._as_promised(found)

    async def await_(  # with a `timeout` as in wait(): its error names the late message
        self,
        timeout: float | timedelta | None = None,  # noqa: ASYNC109
    ) -> TaskResult[T]:
        """Wait until the message has ended, or is dead, from async code; as `wait()` does."""
        seconds = _seconds(timeout)
        until = monotonic() + seconds
        if await sync_to_async(self._has_ended)():
            return self
        promise = waiting.ended(self.task.alias, self._number)
        try:
            found = await asyncio.wait_for(asyncio.wrap_future(promise), until - monotonic())
        except TimeoutError as error:
            raise self._late(seconds) from error
        return await sync_to_async(self._as_promised)(found)

    def commit(self) -> None:
        """Release a held message, at the commit of the open transaction.

        Raises:
            HoldExpired: the message was committed or abandoned before, or its hold has expired.
        """
        with borrow(self.task.alias) as connection:
            self._require_held(held.commit(connection, [self._number]))

    async def acommit(self) -> None:
        """Release a held message, from async code."""
        await sync_to_async(self.commit)()

    def abandon(self) -> None:
        """End a held message as cancelled.

        Raises:
            HoldExpired: as `commit` does.
        """
        with borrow(self.task.alias) as connection:
            self._require_held(held.abandon(connection, [self._number]))

    async def aabandon(self) -> None:
        """End a held message, from async code."""
        await sync_to_async(self.abandon)()

    def extend_hold(self, *, for_: float | timedelta) -> None:
        """Extend the hold to this time from now: seconds or a timedelta.

        Raises:
            HoldExpired: as `commit` does.
            ValueError: `for_` is not above 0 seconds, or is beyond a hundred years.
        """
        hold = checked_option(as_duration, "for_", for_)
        with borrow(self.task.alias) as connection:
            self._require_held(held.extend(connection, [self._number], hold=hold))

    async def aextend_hold(self, *, for_: float | timedelta) -> None:
        """Hold a held message for longer, from async code."""
        await sync_to_async(self.extend_hold)(for_=for_)

    def signal(
        self,
        name: str,
        payload: Any = None,
        *,
        dedupe_id: str | None = None,
        if_ended: signalling.IfEnded = "raise",
    ) -> bool:
        """Send a signal to this message of a durable task, as `pgqueue.signal` does."""
        return signalling.signal(self, name, payload, dedupe_id=dedupe_id, if_ended=if_ended)

    async def asignal(
        self,
        name: str,
        payload: Any = None,
        *,
        dedupe_id: str | None = None,
        if_ended: signalling.IfEnded = "raise",
    ) -> bool:
        """Send a signal to this message, from async code."""
        return await sync_to_async(self.signal)(
            name, payload, dedupe_id=dedupe_id, if_ended=if_ended
        )

    def cancel(self) -> bool:
        """End the message as cancelled; if it runs, ask its task to end.

        A dead message stays as it is: `Message.objects.filter(id=…).discard()` ends it for good.

        Returns:
            Whether there was anything to cancel. A message that runs may still succeed.
        """
        with borrow(self.task.alias) as connection:
            ended, asked = cancel.cancel(connection, [self._number])
        return bool(ended or asked)

    async def acancel(self) -> bool:
        """End the message as cancelled, from async code."""
        return await sync_to_async(self.cancel)()

    def rerun(
        self, *, args: Sequence[Any] | None = None, kwargs: Mapping[str, Any] | None = None
    ) -> TaskResult[T]:
        """Enqueue the message once more, whatever became of it.

        The new message has the channel, key, order, priority and options of this one, and is due
        at once. Its metadata names this message: `rerun_of`.

        Args:
            args, kwargs: other arguments; None for both: its own. One of them alone: no others.

        Returns:
            The result of the new message.

        Raises:
            InvalidArguments, InvalidArgument: the arguments do not fit the task; or its own ones
                are results of its flow, and one of them failed, is gone, or must not be stored.
            TaskResultDoesNotExist: the message was rolled back, or its history was purged.
            ChannelFull: a policy's max_size is reached.
        """
        self.refresh()
        payload = rerunning.encoded(self.task, args, kwargs)
        return self._of(rerunning.rerun(self.task, self._stored, payload))

    async def arerun(
        self, *, args: Sequence[Any] | None = None, kwargs: Mapping[str, Any] | None = None
    ) -> TaskResult[T]:
        """Enqueue the message once more, from async code."""
        return await sync_to_async(self.rerun)(args=args, kwargs=kwargs)

    def fork(
        self,
        *,
        after: str | None = None,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> TaskResult[T]:
        """Enqueue a message of a durable task that begins with the steps of this one.

        Args:
            after: the name of the last step that it begins with; None: each step that is done.
            args, kwargs: other arguments, as for `rerun`.

        Returns:
            The result of the new message.

        Raises:
            InvalidStep: this message has done no step of this name, or the task is not durable.
            InvalidArguments: as for `rerun`.
            TaskResultDoesNotExist: the message was rolled back, or its history was purged.
            ChannelFull: a policy's max_size is reached.
        """
        if not self.task.durable:
            raise InvalidStep(f"{self.task.name} is not durable, and has no steps: use rerun().")
        self.refresh()
        payload = rerunning.encoded(self.task, args, kwargs)
        return self._of(rerunning.fork(self.task, self._stored, after, payload))

    async def afork(
        self,
        *,
        after: str | None = None,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> TaskResult[T]:
        """Enqueue a message that begins with the steps of this one, from async code."""
        return await sync_to_async(self.fork)(after=after, args=args, kwargs=kwargs)

    @property
    def _stored(self) -> Found:
        if self._found is None:
            raise _not_stored(self.task)
        return self._found

    def _of(self, id: int) -> TaskResult[T]:
        other: TaskResult[T] = TaskResult(self.task, (), {})
        other._call = None
        other.id = str(id)
        other.refresh()
        return other

    @property
    def _number(self) -> int:
        """The message's id as a number.

        Raises:
            TaskResultDoesNotExist: the message is not stored.
        """
        if not self.id:
            raise _not_stored(self.task)
        return int(self.id)

    def _has_ended(self) -> bool:
        try:
            self.refresh()
        except TaskResultDoesNotExist as error:
            if self.id and any(
                each.in_atomic_block for each in connections.all(initialized_only=True)
            ):
                raise self._uncommitted() from error
            raise
        return self.is_finished

    def _as_promised(self, found: Found | None) -> TaskResult[T]:
        if found is None:
            # The message is purged (refresh() raises), or only this transaction sees it.
            self.refresh()
            raise self._uncommitted()
        self._note(found)
        return self

    def _note(self, found: Found) -> None:
        self.status = WORDS[found.state]
        self.enqueued_at = of_project(found.created_at)
        self._found = found

    def _late(self, seconds: float) -> WaitTimeout:
        return WaitTimeout(
            f"Message {self.id} of {self.task.name} did not end within {seconds:g} s. "
            "It goes on: wait() may be called again."
        )

    def _uncommitted(self) -> WaitInTransaction:
        return WaitInTransaction(
            f"Message {self.id} of {self.task.name} is not committed, so no worker can see it: "
            "wait() after the transaction that enqueues it, outside of its atomic(). "
            "(Each test of a TestCase is a transaction: call pgqueue.testing.run_all() there, and "
            "refresh().)"
        )

    def _require_held(self, done: set[int]) -> None:
        if not done:
            raise HoldExpired(
                f"{self!r} is held no more: it was committed or abandoned, or its time ran out."
            )


def fetch(task: Declaration[Any, T], result_id: str | int) -> TaskResult[T]:
    """Look a message up by its id.

    Raises:
        TaskResultDoesNotExist: no message has the id.
        TaskResultMismatch: the message belongs to another task.
    """
    return TaskResult.of(task, _find(task, result_id, connections[task.alias]))


def _find(task: Declaration[Any, Any], result_id: str | int, connection: Cursors) -> Found:
    if result_id == "":
        raise _not_stored(task)
    if (id := lookup.id_of(result_id)) is None:
        raise TaskResultDoesNotExist(f"{shown(result_id)} is not the id of a message.")
    with needing_tables(task.alias):
        found = lookup.find(connection, id)
    if found is None:
        raise TaskResultDoesNotExist(
            f"No message has the id {result_id}: it was rolled back, or its history was purged."
        )
    task.check_is_of(found.task, result_id)
    return found


def _not_stored(task: Declaration[Any, Any]) -> TaskResultDoesNotExist:
    return TaskResultDoesNotExist(
        f"This message of {task.name} is not stored, or not yet: a flow and a batch store theirs "
        "at the end of their block, and a full channel may drop one."
    )


def _seconds(timeout: float | timedelta | None) -> float:
    return FOREVER if timeout is None else min(as_timedelta(timeout).total_seconds(), FOREVER)
