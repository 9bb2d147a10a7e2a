from __future__ import annotations

import json
from collections.abc import Sequence
from contextvars import Context
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Any, NoReturn, Protocol

from asgiref.sync import sync_to_async
from django.db import connections, transaction

from pgqueue.engine import lease
from pgqueue.engine.lookup import Found
from pgqueue.engine.values import Claim
from pgqueue.exceptions import Defer, InvalidFlow, LeaseLost, TaskTimeout
from pgqueue.states import State
from pgqueue.tasks.declaration import Declaration
from pgqueue.tasks.flow_building import Growth
from pgqueue.tasks.result import TaskResult
from pgqueue.values.number_checks import LONGEST, as_timedelta


class RunState(Protocol):
    """What the worker knows about a run that is under way."""

    @property
    def cancelled(self) -> bool:
        """Whether cancelling the message was requested."""

    @property
    def overdue(self) -> bool:
        """Whether the run exceeded its timeout, and was told so."""


@dataclass(eq=False)
class TaskContext:
    """What a task with `takes_context` is told of its run, and what it may ask for."""

    task: Declaration[Any, Any]
    claim: Claim
    """The message as it was claimed, but for what this run has noted since."""
    run: RunState
    database: str
    """The alias of the database that the message is in."""
    raised_in: Context | None = field(default=None, init=False, repr=False)
    """The context variables where an error left the function: what is logged of it is, there."""

    waited_for: Sequence[tuple[int, str]] = field(default=(), init=False, repr=False)
    """Messages that this one waited for, and their metadata as JSON; only where runs are traced."""

    growth: Growth | None = field(default=None, init=False)
    """What this run adds to its flow."""

    @property
    def flow(self) -> Growth:
        """The flow that the message is part of: what is enqueued on it is stored with the success
        of this run, or not at all.

        Raises:
            InvalidFlow: it is part of none.
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
    def argument(self) -> Any:
        """What the function gets as its first argument."""
        return self

    @property
    def id(self) -> str:
        """The message's id."""
        return str(self.claim.id)

    @property
    def attempt(self) -> int:
        """The number of this run, from 1: how often a worker took the message."""
        return self.claim.attempt

    @property
    def cancelled(self) -> bool:
        """Whether cancelling this message was requested. Heartbeats bring it."""
        return self.run.cancelled

    @property
    def body(self) -> bytes | None:
        """The bytes of a raw message, where this task is its channel's handler."""
        return self.claim.body

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """What the producer wrote on the message."""
        metadata: dict[str, Any] = json.loads(self.claim.metadata)
        return metadata

    @property
    def progress(self) -> Any:
        """What was noted last, by this run or one before; None if nothing was."""
        noted = self.claim.progress
        return None if noted is None else self.task.codec.decode_progress(noted)

    def checkpoint(
        self, data: Any, *, extend: float | timedelta | None = None, extra_attempts: int = 0
    ) -> None:
        """Note how far this run has come: the next one, after an error or a loss, goes on there.

        It is written on Django's connection of this thread. So in a transaction it is part of
        that, and vanishes with it; call it last there, since no heartbeat can renew the lease
        while the transaction has the message locked.

        Args:
            data: anything that could be an argument without a type hint, up to 64 KiB.
            extend: as `extend()` does, at the same time.
            extra_attempts: how many errors more than before this message may have. Without it,
                a checkpoint changes nothing about when the message is dead.

        Raises:
            InvalidProgress: `data` can't be stored.
            LeaseLost: the message is not this run's any more. Give up: nothing is recorded.
            TaskTimeout: the run is over its time, and was told so before.
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
        # An error is judged by what is in the database then, not by what was rolled back.
        transaction.on_commit(lambda: self._allow(max_attempts), using=self.database)

    async def acheckpoint(
        self, data: Any, *, extend: float | timedelta | None = None, extra_attempts: int = 0
    ) -> None:
        """Note how far this run has come, from async code."""
        await sync_to_async(self.checkpoint)(data, extend=extend, extra_attempts=extra_attempts)

    def extend(self, duration: float | timedelta) -> None:
        """Keep this message from other workers for so long from now, whatever happens here.

        Heartbeats do that by themselves: this is for what keeps the whole process from beating,
        a long call to C for example. If the worker dies, others wait for so long, too.

        Args:
            duration: seconds or a timedelta; a lease is never made shorter.

        Raises:
            LeaseLost: the message is not this run's any more. Give up: nothing is recorded.
            TaskTimeout: the run is over its time, and was told so before.
        """
        self._check_time()
        if not lease.prolong(connections[self.database], self.claim, _duration(duration)):
            raise self._lost()

    async def aextend(self, duration: float | timedelta) -> None:
        """Keep this message from other workers, from async code."""
        await sync_to_async(self.extend)(duration)

    def defer(self, delay: float | timedelta, progress: Any = None) -> NoReturn:
        """End this run, and have the message run again later: no failure, however often.

        Args:
            delay: seconds or a timedelta.
            progress: what the next run finds in `progress`; None: what was noted before.

        Raises:
            Defer: always; the worker takes it from there.
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
        """Return the same as a row."""
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
            result=None,
        )

    def _check_time(self) -> None:
        # Or one that ignores its timeout would keep its lease for ever.
        if self.run.overdue:
            raise TaskTimeout

    def _lost(self) -> LeaseLost:
        return LeaseLost(
            f"{self.task.name} #{self.id} is not this run's any more: its lease ran out, or it was "
            "settled elsewhere. What this run still does is not recorded."
        )

    def _allow(self, max_attempts: int) -> None:
        self.claim = self.claim._replace(max_attempts=max_attempts)


def _duration(value: float | timedelta) -> timedelta:
    return min(as_timedelta(value), LONGEST)
