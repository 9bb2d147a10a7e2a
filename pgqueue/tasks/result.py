"""What is known of a message: where it is, and what came of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from asgiref.sync import sync_to_async
from django.db import connections

from pgqueue.engine import lookup
from pgqueue.engine.lookup import Found
from pgqueue.exceptions import TaskFailed, TaskResultDoesNotExist
from pgqueue.states import Outcome, State

if TYPE_CHECKING:
    from pgqueue.tasks.definition import Task

T = TypeVar("T")

WORDS: dict[str, State | Outcome] = {each.value: each for each in (*State, *Outcome)}


@dataclass(frozen=True, slots=True)
class TaskError:
    """One attempt that failed."""

    attempt: int
    exception_class_path: str
    message: str
    traceback: str


class TaskResult(Generic[T]):
    """A message as it was when it was last looked at; `refresh()` looks again.

    Attributes:
        task: the task it runs.
        id: its number, as text; '' until it is stored.
        status: a `State` while it lives, an `Outcome` once it has ended.
        args, kwargs: what the task is called with.
        enqueued_at: when it was stored, by the database's clock.
    """

    __slots__ = ("_found", "args", "enqueued_at", "id", "kwargs", "status", "task")

    def __init__(self, task: Task[Any, T], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self.task = task
        self.args = args
        self.kwargs = kwargs
        self.id = ""
        self.status: State | Outcome = State.READY
        self.enqueued_at: datetime | None = None
        self._found: Found | None = None

    @classmethod
    def of(cls, task: Task[Any, T], found: Found) -> TaskResult[T]:
        """Return the result of a message that was looked up."""
        result = cls(task, *task.codec.decode(found.payload))
        result.id = str(found.id)
        result.status = WORDS[found.state]
        result.enqueued_at = found.created_at
        result._found = found
        return result

    def __repr__(self) -> str:
        return f"<TaskResult {self.task.name} #{self.id} {self.status.value}>"

    @property
    def is_finished(self) -> bool:
        """Whether it has ended, or is dead until somebody replays it."""
        return isinstance(self.status, Outcome) or self.status is State.DEAD

    @property
    def return_value(self) -> T:
        """What the task returned.

        Raises:
            TaskFailed: it has not succeeded, or not yet.
        """
        if self._found is None or self.status is not Outcome.SUCCEEDED:
            raise TaskFailed(f"{self!r} has no return value.")
        value: T = self.task.codec.decode_result(self._found.result or "null")
        return value

    @property
    def errors(self) -> list[TaskError]:
        """Its failed attempts: the first, and the last nine."""
        entries = json.loads(self._found.errors) if self._found else []
        return [
            TaskError(entry["attempt"], entry["class"], entry["message"], entry["traceback"])
            for entry in entries
        ]

    @property
    def attempt(self) -> int:
        """How often a worker took it."""
        return self._found.attempt if self._found else 0

    @property
    def failures(self) -> int:
        """How often it raised an error."""
        return self._found.failures if self._found else 0

    @property
    def started_at(self) -> datetime | None:
        """When its last finished run began."""
        return self._found.started_at if self._found else None

    @property
    def finished_at(self) -> datetime | None:
        """When it ended."""
        return self._found.finished_at if self._found else None

    @property
    def metadata(self) -> dict[str, Any]:
        """What the producer wrote on it."""
        metadata: dict[str, Any] = json.loads(self._found.metadata if self._found else "{}")
        return metadata

    def refresh(self) -> None:
        """Look at the message again.

        Raises:
            TaskResultDoesNotExist: it was rolled back, or its history was purged.
        """
        fresh = fetch(self.task, self.id)
        self.status, self._found = fresh.status, fresh._found
        self.enqueued_at = fresh.enqueued_at

    async def arefresh(self) -> None:
        """Look at the message again, from async code."""
        await sync_to_async(self.refresh)()


def fetch(task: Task[Any, T], result_id: str | int) -> TaskResult[T]:
    """Look a message up by its id.

    Raises:
        TaskResultDoesNotExist: there is none.
        TaskResultMismatch: it is another task's.
    """
    if not str(result_id).isdecimal():
        raise TaskResultDoesNotExist(f"{result_id!r} is not the id of a message.")
    found = lookup.find(connections[task.alias], int(result_id))
    if found is None:
        raise TaskResultDoesNotExist(
            f"No message has the id {result_id}: it was rolled back, or its history was purged."
        )
    task.check_is_of(found.task, result_id)
    return TaskResult.of(task, found)
