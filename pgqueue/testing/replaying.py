"""Call the function of a durable message again, with its stored steps: for a debugger."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from asgiref.sync import async_to_sync
from django.db import connections, transaction
from django.utils import timezone

from pgqueue.codec.encoding import Returned
from pgqueue.conf import settings
from pgqueue.database.paths import own_path
from pgqueue.durable import DurableContext
from pgqueue.durable.records import Records
from pgqueue.engine import lookup, steps
from pgqueue.engine.lease import Lock
from pgqueue.engine.lookup import Found
from pgqueue.engine.steps import Kind, StoredStep
from pgqueue.engine.values import Claim
from pgqueue.exceptions import EndOfRun, InvalidStep, TaskResultDoesNotExist, UnknownTask
from pgqueue.tasks import flow_results, registry, tenants

NOBODY = UUID(int=0)


@dataclass(frozen=True)
class Replayed:
    """The outcome of a replay.

    Attributes:
        value: the return value of the function; None: it did not return.
        stopped_at: the name of the undone step where the replay stopped; None: the function ended.
        visited, unvisited: the names of the done steps that the function came by, and of others.
    """

    value: Any
    stopped_at: str | None
    visited: list[str]
    unvisited: list[str]


def replay(id: int | str, *, database: str | None = None) -> Replayed:
    """Call the function of a durable message again in this thread, with its stored steps.

    The message may be live or ended. Set a breakpoint in the function first. Done steps return
    their stored results, and no step is called: the replay stops in front of the first step that is
    not done. Nothing of it is stored, and writes of the code between steps to the queue's database
    are rolled back. Other effects of that code happen again.

    Args:
        id: the message's id.
        database: the alias of the queue's database, if it is not the one of `PGQUEUE`.

    Raises:
        TaskResultDoesNotExist: there is no such message.
        UnknownTask: no task of its name is known here.
        InvalidStep: its task is not durable.
        Exception: the error that the function raises.
    """
    alias = database or settings().database
    found = lookup.find(connections[alias], int(id))
    if found is None:
        raise TaskResultDoesNotExist(f"There is no message {id}.")
    task = registry.find(found.task)
    if task is None:
        raise UnknownTask(f"Message {id} is of {found.task!r}, which is not known here.")
    if not task.durable:
        raise InvalidStep(f"{task.name} is not durable, and has no steps.")

    def results(ids: Collection[int]) -> Mapping[int, Returned]:
        return flow_results.results(alias, ids, since=found.created_at)

    claim = _claim(found)
    stored = steps.load_kept(connections[alias], claim.id)
    value = stopped_at = None
    with transaction.atomic(using=alias), own_path(), tenants.around(claim):
        run = _ReplayedRun(task, claim, _Idle(), alias)
        records = run.records = _StoredRecords(alias, claim, stored, is_encrypted=task.encrypted)
        try:
            args, kwargs = task.codec.decode(claim.payload or b"", results)
            call = async_to_sync(task.func) if task.is_async else task.func
            value = call(run, *args, **kwargs)
        except _ReplayStopped as stopped:
            stopped_at = stopped.step
        except EndOfRun:
            pass
        finally:
            transaction.set_rollback(True, using=alias)
    done = [each.name for each in stored if each.state in ("done", "failed")]
    visited = [name for name in records.visited if name in done]
    return Replayed(value, stopped_at, visited, [each for each in done if each not in visited])


class _ReplayStopped(EndOfRun):
    """The replay has come to a step that is not done."""

    def __init__(self, step: str) -> None:
        super().__init__(step)
        self.step = step


@dataclass
class _Idle:
    """The state of a run that nobody stops."""

    lock: Lock | None = None
    cancelled: bool = False
    stopping: bool = False
    overdue: bool = False


@dataclass(eq=False)
class _ReplayedRun(DurableContext):
    """A context that stores nothing."""

    def checkpoint(
        self, data: Any, *, extend: float | timedelta | None = None, extra_attempts: int = 0
    ) -> None:
        progress = self.task.codec.encode_progress(data).encode()
        self.claim = self.claim._replace(progress=progress)

    def extend(self, duration: float | timedelta) -> None:
        pass


class _StoredRecords(Records):
    """The stored steps of a message. A step that is not done ends the replay."""

    def __init__(
        self, alias: str, claim: Claim, stored: list[StoredStep], *, is_encrypted: bool
    ) -> None:
        super().__init__(alias, claim, is_encrypted=is_encrypted)
        self.preset(stored)
        self.visited: list[str] = []

    def next_name(self, base: str) -> str:
        name = super().next_name(base)
        self.visited.append(name)
        return name

    def find(self, name: str) -> StoredStep | None:
        found = super().find(name)
        if found is not None and found.state not in ("done", "failed"):
            raise _ReplayStopped(name)
        return found

    def new(self, name: str, kind: Kind, **columns: Any) -> StoredStep:
        if kind != "value":
            raise _ReplayStopped(name)
        return super().new(name, kind, **columns)


def _claim(found: Found) -> Claim:
    """Return a message as if claimed. Its lease does not hold, so nothing can be stored by it."""
    moment: datetime = found.claimed_at or timezone.now()
    return Claim(
        id=found.id,
        channel=found.channel,
        key=found.key,
        task=found.task,
        payload=found.payload.encode(),
        body=None,
        metadata=found.metadata.encode(),
        options=found.options.encode() if found.options else None,
        priority=found.priority,
        run_at=found.run_at,
        attempt=found.attempt,
        failures=found.failures,
        lost=found.lost,
        max_attempts=found.max_attempts,
        progress=None,
        ordered=False,
        flow_id=None,
        created_at=found.created_at,
        claimed_at=moment,
        worker_id=NOBODY,
    )
