"""The backends for the setting TASKS of a project."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

from django.apps import apps
from django.core.checks import CheckMessage, Error
from django.db import connections

from pgqueue import exceptions
from pgqueue.backend import api, results
from pgqueue.backend.results import PostgresTaskResult
from pgqueue.backend.running import AdoptedTask
from pgqueue.backend.tasks import OPTIONS, PostgresTask, djangos_errors
from pgqueue.calls.callables import fault_of
from pgqueue.conf import settings
from pgqueue.database.migration_check import needing_tables
from pgqueue.engine import lookup
from pgqueue.options.retries import declare
from pgqueue.tasks import TaskResult, registry
from pgqueue.tasks.options import checked

_fault_of = lru_cache(maxsize=10_000)(fault_of)  # called at each enqueue, too


class PostgresBackend(api.BaseTaskBackend):
    """Stores messages in the caller's transaction; `manage.py runworker` runs them.

    `queue_name` is the channel. OPTIONS, in upper case, hold for every task that doesn't set
    its own: KEY, MAX_ATTEMPTS (1 by default, as code for django.tasks expects), BACKOFF,
    TIMEOUT, ATOMIC, METADATA, ENQUEUE_ON_COMMIT, and DATABASE, the alias of the queue's
    database.
    """

    task_class = PostgresTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self.params = params

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """The options of tasks that don't set their own.

        Raises:
            InvalidTaskBackend: OPTIONS have an unknown name, or an invalid value.
        """
        known = {name.upper(): name for name in (*OPTIONS, "database")}
        for name in self.options:
            if name not in known:
                raise api.InvalidTaskBackend(
                    f"TASKS[{self.alias!r}]: OPTIONS has no {name!r}, only {', '.join(known)}."
                )
        try:
            given = checked({known[name]: value for name, value in self.options.items()})
        except exceptions.InvalidTask as error:
            raise api.InvalidTaskBackend(f"TASKS[{self.alias!r}]: OPTIONS: {error}") from error
        declare(given.get("backoff"))
        return {"max_attempts": 1, **given}

    def validate_task(self, task: Any) -> None:
        """Refuse a task that is invalid for this backend.

        Raises:
            InvalidTask: the task is invalid.
        """
        super().validate_task(task)
        with djangos_errors():
            checked({"channel": task.queue_name})
            if fault := _fault_of(task.func):
                raise exceptions.InvalidTask(f"{task.func!r} is no valid task: {fault}.")

    def adopt(self, task: Any) -> AdoptedTask:
        """Return pgqueue's task for a Django task: it stores and runs the messages."""
        return AdoptedTask(
            func=task.func,
            channel=task.queue_name,
            priority=int(task.priority),
            run_after=task.run_after,
            takes_context=task.takes_context,
            origin=task,
            backend=self.alias,
            sender=type(self),
            **{**self.defaults, **getattr(task, "options", {})},
        )

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Store a message, in the open transaction of the queue's database.

        Raises:
            InvalidTask: the task is invalid for this backend.
            InvalidArguments: (a TypeError) the arguments don't fit the function, or have no JSON
                form.
        """
        self.validate_task(task)
        with djangos_errors():
            stored = self._adopted(task).enqueue(*results.as_json(args), **results.as_json(kwargs))
        return self._announced(task, stored)

    def enqueue_many(
        self, task: Any, calls: Iterable[Sequence[Any] | Mapping[str, Any]]
    ) -> list[Any]:
        """Store one message for each tuple or dict of arguments in `calls`: all or none.

        Raises:
            InvalidTask, InvalidArguments: as `enqueue` does.
        """
        self.validate_task(task)
        with djangos_errors():
            stored = self._adopted(task).enqueue_many(results.as_json(call) for call in calls)
        return [self._announced(task, each) for each in stored]

    def get_result(self, result_id: str) -> Any:
        """Return the result of a message.

        Raises:
            TaskResultDoesNotExist: the message does not exist, or belongs to another backend.
        """
        message = declared = None
        if (id := lookup.id_of(result_id)) is not None:
            with needing_tables(self._database):
                message = lookup.find(connections[self._database], id)
        if message:
            declared = registry.find(message.task)
        if not message or not isinstance(declared, AdoptedTask):
            raise api.TaskResultDoesNotExist(result_id)
        if declared.backend_of(message.options) != self.alias:
            raise api.TaskResultDoesNotExist(result_id)
        return results.found(declared.origin_of(message), message, declared.codec)

    def check(self, **kwargs: Any) -> list[CheckMessage]:
        """Return the faults of its settings, without asking the database."""
        try:
            self.defaults  # noqa: B018
        except api.InvalidTaskBackend as error:
            return [Error(str(error), id="pgqueue.E005")]
        if not apps.is_installed("pgqueue"):
            return [
                Error(
                    f"TASKS[{self.alias!r}] uses pgqueue, which is not installed.",
                    hint="Add 'pgqueue' to INSTALLED_APPS.",
                    id="pgqueue.E006",
                )
            ]
        if self._database not in connections:
            return [
                Error(
                    f"TASKS[{self.alias!r}]: DATABASES has no {self._database!r}.",
                    hint=f"It has {', '.join(map(repr, connections))}.",
                    id="pgqueue.E007",
                )
            ]
        return []

    def _adopted(self, task: Any) -> AdoptedTask:
        if isinstance(task, PostgresTask) and task.backend == self.alias:
            return task.adopted
        return self.adopt(task)

    def _announced(self, task: Any, stored: TaskResult[Any]) -> PostgresTaskResult:
        result = results.enqueued(task, stored, self.alias)
        api.signals.task_enqueued.send(type(self), task_result=result)
        return result

    @property
    def _database(self) -> str:
        return self.defaults.get("database") or settings().database


class _Double(api.BaseTaskBackend):
    """A backend for tests that accepts tasks with pgqueue's options."""

    task_class = PostgresTask

    def enqueue_many(
        self, task: Any, calls: Iterable[Sequence[Any] | Mapping[str, Any]]
    ) -> list[Any]:
        """Enqueue one message for each tuple or dict of arguments in `calls`."""
        return [
            self.enqueue(task, [], dict(call))
            if isinstance(call, Mapping)
            else self.enqueue(task, list(call), {})
            for call in calls
        ]


class ImmediateBackend(_Double, api.immediate.ImmediateBackend):
    """Runs each task once, at its enqueueing."""


class DummyBackend(_Double, api.dummy.DummyBackend):
    """Runs no task, and keeps a list of the enqueued ones."""
