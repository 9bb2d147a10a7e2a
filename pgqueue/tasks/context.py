from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from contextvars import Context
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from asgiref.sync import sync_to_async
from django.db import connections, transaction

from pgqueue.engine import lease
from pgqueue.engine.lease import Lock
from pgqueue.engine.lookup import Found
from pgqueue.engine.values import Claim
from pgqueue.exceptions import Defer, InvalidFlow, LeaseLost, TaskTimeout
from pgqueue.states import State
from pgqueue.tasks.declaration import Declaration
from pgqueue.tasks.flow_growth import Growth
from pgqueue.tasks.redacting import RedactedColumn
from pgqueue.tasks.result import TaskResult
from pgqueue.tasks.tenants import tenant_of
from pgqueue.values.number_checks import LONGEST, as_timedelta

if TYPE_CHECKING:
    from pgqueue.tasks.run_logs import RunLines


class RunState(Protocol):
    """The worker's view of a run that is under way."""

    lock: Lock | None
    """The lock on the message's row, while the run is in a transaction that has it. A worker that
    must stop ends this transaction, and hands the message back."""

    @property
    def cancelled(self) -> bool:
        """Whether cancelling the message was requested."""

    @property
    def stopping(self) -> bool:
        """Whether the worker is about to stop: a durable run goes on elsewhere."""

    @property
    def overdue(self) -> bool:
        """Whether the run exceeded its timeout, and `TaskTimeout` was raised in it."""


Limited = Callable[[float, type[TaskTimeout]], AbstractContextManager[None]]
"""Takes a deadline by the monotonic clock, and the error that is raised in the block then."""


@dataclass(eq=False)
class TaskContext:
    """The first argument of a task with `takes_context`: its run's data and its verbs."""

    task: Declaration[Any, Any]
    claim: Claim
    """The message as it was claimed, with the progress that this run has noted since."""
    run: RunState
    database: str
    """The alias of the database that the message is in."""
    raised_in: Context | None = field(default=None, init=False, repr=False)
    """The context variables where an error left the function. The error is logged in them."""

    waited_for: Sequence[tuple[int, str]] = field(default=(), init=False, repr=False)
    """The ids and metadata (JSON) of messages that this one waited for; empty without tracing."""

    limited: Limited | None = field(default=None, init=False, repr=False)
    """Limits the time of a block: the worker's way to raise an error in this thread."""

    growth: Growth | None = field(default=None, init=False)
    """The messages that this run adds to its flow."""

    lines: RunLines | None = field(default=None, init=False, repr=False)
    """The log lines of the run; None: they are not kept."""

    @property
    def flow(self) -> Growth:
        """The flow that the message is part of.

        A message that is enqueued on it is stored with the success of this run, or not at all.

        Raises:
            InvalidFlow: the message is part of no flow.
        """
        if self.claim.flow_id is None:
            raise InvalidFlow(
                f"{self.task.name} #{self.id} is not part of a flow: use `with flow(…)`."
            )
        if self.growth is None:
            self.growth = Growth(
                self.database, flow_id=self.claim.flow_id, message_id=self.claim.id
            )
        return self.growth

    @property
    def has_progressed(self) -> bool:
        """Whether the count of failures restarts: a durable run has finished a step."""
        return False

    def stored_columns(self) -> Iterable[RedactedColumn]:
        """Return the values stored beside the message, to search them for redacted values."""
        return ()

    def completed(self) -> str | None:
        """Return the steps of a durable run that are not stored yet, as JSON: it has returned."""
        return None

    @property
    def argument(self) -> Any:
        """The first argument of the function."""
        return self

    @property
    def id(self) -> str:
        """The message's id."""
        return str(self.claim.id)

    @property
    def attempt(self) -> int:
        """The number of this run, from 1: it counts the claims of the message."""
        return self.claim.attempt

    @property
    def cancelled(self) -> bool:
        """Whether cancelling this message was requested; the worker knows it within a second.

        A worker that listens to no notifications knows it with its next heartbeat.
        """
        return self.run.cancelled

    @property
    def body(self) -> bytes | None:
        """The bytes of a raw message, where this task is its channel's handler."""
        return self.claim.body

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """The metadata that the producer gave the message."""
        metadata: dict[str, Any] = json.loads(self.claim.metadata)
        return metadata

    @property
    def tenant(self) -> str | None:
        """The tenant that the run is in; None: it is in none, or pgqueue knows no tenants."""
        return tenant_of(self.claim)

    @property
    def progress(self) -> Any:
        """The last progress that this run or an earlier one noted; None: there is none."""
        noted = self.claim.progress
        return None if noted is None else self.task.codec.decode_progress(noted)

    def checkpoint(
        self, data: Any, *, extend: float | timedelta | None = None, extra_attempts: int = 0
    ) -> None:
        """Store this run's progress: the next run, after an error or a loss, continues there.

        The progress is written on Django's connection of this thread. In an open transaction it is
        part of that transaction, and is rolled back with it. Call it last there: while the
        transaction has the message locked, no heartbeat can renew the lease.

        Args:
            data: any value that an argument without a type hint accepts, up to 64 KiB.
            extend: extends the lease at the same time, as `extend()` does.
            extra_attempts: the number of further errors that this message may have. Without it,
                a checkpoint does not change when the message becomes dead.

        Raises:
            InvalidProgress: `data` is not storable.
            LeaseLost: this run has lost the message. End the run: nothing more is recorded.
            TaskTimeout: the run exceeded its timeout, and has raised this error before.
        """
        if not isinstance(extra_attempts, int) or extra_attempts < 0:
            raise ValueError(
                f"extra_attempts={extra_attempts!r}: it must be a whole number, 0 or more."
            )
        progress = self.task.codec.encode_progress(data)
        self._check_time()
        max_attempts = lease.checkpoint(
            connections[self.database],
            self.claim,
            progress=progress,
            extend=None if extend is None else _duration(extend),
            extra_attempts=extra_attempts,
        )
        if max_attempts is None:
            raise self._lost()
        self.claim = self.claim._replace(progress=progress.encode())
        # A later error must not count on attempts that were rolled back.
        transaction.on_commit(lambda: self._allow(max_attempts), using=self.database)

    async def acheckpoint(
        self, data: Any, *, extend: float | timedelta | None = None, extra_attempts: int = 0
    ) -> None:
        """Store this run's progress, from async code."""
        await sync_to_async(self.checkpoint)(data, extend=extend, extra_attempts=extra_attempts)

    def extend(self, duration: float | timedelta) -> None:
        """Extend the lease of this message to this duration from now.

        Heartbeats renew the lease by themselves. Call this before code that stops the whole
        process from beating, for example a long call into C. If the worker dies, other workers
        wait until the extended lease ends, too.

        Args:
            duration: seconds or a timedelta; a lease is never shortened.

        Raises:
            LeaseLost: this run has lost the message. End the run: nothing more is recorded.
            TaskTimeout: the run exceeded its timeout, and has raised this error before.
        """
        self._check_time()
        if not lease.prolong(connections[self.database], self.claim, _duration(duration)):
            raise self._lost()

    async def aextend(self, duration: float | timedelta) -> None:
        """Extend the lease of this message, from async code."""
        await sync_to_async(self.extend)(duration)

    def defer(self, delay: float | timedelta, progress: Any = None) -> NoReturn:
        """End this run, and have the message run again later. This never counts as a failure.

        Args:
            delay: seconds or a timedelta.
            progress: the progress that the next run reads; None: the progress noted before.

        Raises:
            Defer: always. The worker catches it.
        """
        raise Defer(delay, progress)

    @cached_property
    def task_result(self) -> TaskResult[Any]:
        """The message as it was claimed."""
        return self.failed(self.claim.failures)

    def failed(self, failures: int) -> TaskResult[Any]:
        """Return the message as it was claimed, with this number of failures."""
        return TaskResult.of(self.task, self.found(failures))

    def found(self, failures: int) -> Found:
        """Return the message as a row, with this number of failures."""
        claim = self.claim
        return Found(
            id=claim.id,
            state=State.RUNNING,
            channel=claim.channel,
            task=claim.task,
            payload=(claim.payload or b"null").decode(),
            metadata=claim.metadata.decode(),
            options=claim.options.decode() if claim.options else None,
            priority=claim.priority,
            key=claim.key,
            run_at=claim.run_at,
            attempt=claim.attempt,
            failures=failures,
            lost=claim.lost,
            max_attempts=claim.max_attempts,
            errors="[]",
            created_at=claim.created_at,
            claimed_at=claim.claimed_at,
            started_at=None,
            finished_at=None,
            worker_id=claim.worker_id,
            progress=claim.progress.decode() if claim.progress else None,
            result=None,
        )

    def _check_time(self) -> None:
        # Otherwise a run that ignores its timeout would keep its lease for ever.
        if self.run.overdue:
            raise TaskTimeout

    def _lost(self) -> LeaseLost:
        return LeaseLost(
            f"{self.task.name} #{self.id} is not this run's any more: its lease ran out, or it was "
            "settled elsewhere. Nothing more of this run is recorded."
        )

    def _allow(self, max_attempts: int) -> None:
        self.claim = self.claim._replace(max_attempts=max_attempts)


contexts: dict[str, type[TaskContext]] = {}
"""The classes of contexts that other rooms provide: `durable`."""


def _duration(value: float | timedelta) -> timedelta:
    return min(as_timedelta(value), LONGEST)
