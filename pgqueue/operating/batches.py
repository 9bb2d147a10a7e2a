"""Enqueue many messages in one transaction; the order of its locks excludes deadlocks of batches.

A batch takes the locks of policies first, then the locks of `tasks.storing`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from django.db import connections, transaction

from pgqueue.conf import settings
from pgqueue.database.migration_check import needing_tables
from pgqueue.engine import enqueue as engine
from pgqueue.exceptions import InvalidTask
from pgqueue.operating.channels import Channel
from pgqueue.tasks import Task, TaskResult, storing

P = ParamSpec("P")
T = TypeVar("T")


def batch(*, database: str | None = None) -> Batch:
    """Collect messages and policies, and apply all of them at the end of the `with` block.

    Use it so:

        with batch() as work:
            work.policy("mail", max_running=10)
            receipt = work.enqueue(send_receipt, order.id)
            parcel = work.enqueue(ship.hold(for_=3600), order.id)

    The batch is part of the open transaction, or a transaction of its own. After an error nothing
    is applied. Messages of a lane keep the order in which they were collected.

    Args:
        database: the alias of the queue's database, if not the one of `PGQUEUE`.
    """
    return Batch(database or settings().database)


class Batch:
    """The calls and policies that a `with` block has collected. `batch()` makes it."""

    def __init__(self, database: str) -> None:
        self._database = database
        self._policies: dict[tuple[str, str, str], Mapping[str, Any]] = {}
        self._messages: list[TaskResult[Any]] = []

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, kind: type[BaseException] | None, *raised: object) -> None:
        if kind is None:
            self.apply()

    def enqueue(self, task: Task[P, T], *args: P.args, **kwargs: P.kwargs) -> TaskResult[T]:
        """Collect a call; its result has no id until the batch is applied.

        Raises:
            InvalidTask: the task stores its messages in another database, or on commit.
        """
        if task.alias != self._database or task.connection is not None:
            raise InvalidTask(f"{task.name} is not stored on {self._database!r}, as this batch is.")
        if task.enqueue_on_commit:
            raise InvalidTask(
                f"{task.name} is stored on commit, and a batch is stored as a whole: add "
                "using(enqueue_on_commit=False), or apply the batch in an on_commit hook."
            )
        result = TaskResult(task, args, kwargs)
        self._messages.append(result)
        return result

    def enqueue_many(
        self, task: Task[Any, T], calls: Iterable[Sequence[Any] | Mapping[str, Any]]
    ) -> list[TaskResult[T]]:
        """Collect calls, each a tuple of positional arguments or a dict of named ones."""
        return [
            self.enqueue(task, **call) if isinstance(call, Mapping) else self.enqueue(task, *call)
            for call in calls
        ]

    def policy(
        self, channel: str, *, key: str | None = None, each_key: bool = False, **limits: Any
    ) -> None:
        """Collect a policy, with the arguments of `Channel.policy`; a later one replaces it."""
        scope = "each" if each_key else "channel" if key is None else "key"
        self._policies[channel, scope, key or ""] = {"key": key, "each_key": each_key, **limits}

    def apply(self) -> None:
        """Apply all collected policies and calls; the batch is empty afterwards.

        Raises:
            InvalidPolicy, InvalidArguments, ChannelFull, DuplicateMessage: nothing was applied.
            BatchTooLarge: more ordered lanes, or keys of limited size, than one batch may lock.
        """
        policies, self._policies = self._policies, {}
        messages, self._messages = self._messages, []
        with needing_tables(self._database), transaction.atomic(using=self._database):
            for (channel, _, _), limits in sorted(policies.items(), key=lambda each: each[0]):
                Channel(channel, database=self._database).policy(**limits)
            if messages:
                self._store(messages)

    def _store(self, messages: list[TaskResult[Any]]) -> None:
        connection = connections[self._database]
        storing.lock(connection, messages)
        # Messages run in the order of their ids, and are stored in the order of their dedupe keys.
        ids = dict(zip(messages, engine.reserve(connection, len(messages)), strict=True))
        for results in storing.together(messages):
            storing.store(results, [ids[each] for each in results])
