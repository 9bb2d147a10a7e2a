"""Django's tasks in a worker: tasks of pgqueue's, with Django's context and signals."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar

from django.db import connections
from django.utils import timezone

from pgqueue.backend import api, results
from pgqueue.backend.context import PostgresTaskContext
from pgqueue.backend.results import PostgresTaskResult
from pgqueue.calls.outcomes import Ending, Succeeded
from pgqueue.database import guard
from pgqueue.database.guard import TransactionLost
from pgqueue.database.savepoints import savepoints
from pgqueue.engine import lookup
from pgqueue.engine.lookup import Found
from pgqueue.engine.values import Claim
from pgqueue.tasks import Task, TaskContext, registry
from pgqueue.tasks.context import RunState
from pgqueue.tasks.declaration import Declaration
from pgqueue.tasks.options import RUN_OPTIONS, RunOption, RunOptions
from pgqueue.values.discovery import imported
from pgqueue.values.escaping import logger_of

logger = logger_of(__name__)


def _alias(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.200} is no text.")
    return value


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AdoptedTask(Task[Any, Any]):
    """A task of `django.tasks` as a task of pgqueue's.

    Attributes:
        origin: Django's task.
        backend: the alias of the backend of its messages.
        sender: the backend's class. The lookup of a backend takes a lock, and threads with
            small tasks would wait for it.
    """

    run_options: ClassVar[RunOptions] = {**RUN_OPTIONS, "backend": RunOption(str, _alias)}

    origin: Any
    backend: str
    sender: type

    @property
    def declared(self) -> Declaration[Any, Any]:
        """The task as declared in this process."""
        return registry.find(self.name) or self

    def context(self, claim: Claim, run: RunState, database: str) -> TaskContext:
        """Return the context of a run of this task."""
        return AdoptedContext(self, claim, run, database)

    def send_started(self, context: TaskContext) -> None:
        """Also send Django's signal."""
        super().send_started(context)
        if isinstance(context, AdoptedContext):
            _announce("task_started", logging.INFO, context, lambda: context.result)

    def send_finished(self, context: TaskContext, ending: Ending) -> None:
        """Also send Django's signal, unless the message is retried or deferred."""
        super().send_finished(context, ending)
        if not isinstance(context, AdoptedContext) or not isinstance(ending, results.FINAL):
            return

        def result() -> PostgresTaskResult:
            results.finish(context.result, ending, context.task.codec, at=timezone.now())
            return context.result

        level = logging.INFO if isinstance(ending, Succeeded) else logging.ERROR
        _announce("task_finished", level, context, result)

    def encode_result(self, value: Any) -> str:
        """Return a run's return value as Django's JSON.

        Raises:
            InvalidResult: the value has no JSON form.
        """
        return super().encode_result(results.as_json(value))

    def origin_of(self, message: Found) -> Any:
        """Return Django's task as it was at the enqueueing of this message."""
        was_delayed = message.run_at > message.created_at and not message.attempt
        return variant(
            self.origin,
            backend=self.backend_of(message.options),
            queue_name=message.channel,
            priority=message.priority,
            run_after=message.run_at if was_delayed else None,
        )

    def sender_of(self, options: bytes | str | None) -> type:
        """Return the class of a message's backend."""
        backend = self.backend_of(options)
        return self.sender if backend == self.backend else type(api.task_backends[backend])

    def backend_of(self, options: bytes | str | None) -> str:
        """Return the alias of a message's backend; the task's backend if that alias is gone."""
        if not options:
            return self.backend
        found = json.loads(options)
        named = found.get("backend") if isinstance(found, dict) else None
        if isinstance(named, str) and named in api.task_backends.settings:
            return named
        return self.backend


@dataclass(eq=False)
class AdoptedContext(TaskContext):
    """The run of a task of `django.tasks`."""

    @property
    def argument(self) -> PostgresTaskContext:
        """Django's context, as the function's argument."""
        return PostgresTaskContext(task_result=self.result, metadata=self.metadata, own=self)

    @cached_property
    def result(self) -> PostgresTaskResult:
        """The message as Django sees it."""
        task: Any = self.task
        claim = self.claim
        message = self.found(claim.failures)
        if claim.failures or claim.lost:
            # A claim contains no errors of earlier attempts. Its task must stay: the task of
            # a raw message is its handler.
            stored = lookup.find(connections[self.database], claim.id) or message
            message = stored._replace(task=message.task, payload=message.payload)
        return results.found(task.origin_of(message), message, task.codec)


def variant(task: Any, **changes: Any) -> Any:
    """Return a copy of a Django task, without validation.

    A stored message keeps its options, even if the settings refuse them now.
    """
    if all(getattr(task, name) == value for name, value in changes.items()):
        return task
    copy = object.__new__(type(task))
    for each in fields(task):
        object.__setattr__(copy, each.name, changes.get(each.name, getattr(task, each.name)))
    return copy


def _announce(
    name: str, level: int, context: AdoptedContext, result: Callable[[], PostgresTaskResult]
) -> None:
    """Send one of Django's signals if it has receivers; Django logs it at this level.

    Making a result takes longer than the rest of a small run. Each send takes the signal's
    lock, and threads with small tasks would wait for it. So if no other receiver is
    connected, Django's own receiver is called without the signal.
    """
    signal, log = getattr(api.signals, name), getattr(api.signals, f"log_{name}")
    receivers = [key[0] for key, *_ in signal.receivers]
    is_only_logged = receivers == [id(log)]
    if not receivers or (is_only_logged and not api.signals.logger.isEnabledFor(level)):
        return
    task: Any = context.task
    tell = log if is_only_logged else signal.send
    try:
        with savepoints():
            sender = task.sender_of(context.claim.options)
            guard.call(tell, sender=sender, task_result=result())
    except TransactionLost:
        raise
    except Exception:
        # As with pgqueue's signals, the error of a receiver ends no run.
        logger.exception("A receiver of %s failed", name)


def adopt(name: str) -> Task[Any, Any] | None:
    """Return pgqueue's task for the Django task of this name; None: there is none.

    A task on a backend of another kind belongs to the first backend of pgqueue's. The module of the
    task is imported before this call, if the settings allow that.
    """
    found = imported(name)
    if not isinstance(found, api.Task):
        return None
    for alias in [found.backend, *api.task_backends]:
        backend: Any = api.task_backends[alias]
        if hasattr(backend, "adopt"):
            adopted: AdoptedTask = backend.adopt(variant(found, backend=alias))
            return adopted
    return None


registry.adopters.append(adopt)
