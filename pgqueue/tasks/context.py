from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pgqueue.engine.lookup import Found
from pgqueue.engine.values import Claim
from pgqueue.states import State
from pgqueue.tasks.result import TaskResult

if TYPE_CHECKING:
    from pgqueue.tasks.definition import Task


@dataclass(frozen=True)
class TaskContext:
    """What a task with `takes_context` is told of its run."""

    task: Task[Any, Any]
    claim: Claim
    is_cancelled: Callable[[], bool]
    database: str
    """The alias of the database that the message is in."""

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
        """Whether somebody asked for this message to be cancelled. Heartbeats bring it."""
        return self.is_cancelled()

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """What the producer wrote on the message."""
        metadata: dict[str, Any] = json.loads(self.claim.metadata)
        return metadata

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
