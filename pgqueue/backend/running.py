"""Tasks of `django.tasks` in a worker: as pgqueue's own, with Django's context and signals."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.db import connections
from django.dispatch import receiver
from django.utils import timezone
from django.utils.module_loading import import_string

from pgqueue import registry, signals
from pgqueue.backend import api, results
from pgqueue.backend.results import PostgresTaskResult
from pgqueue.engine import lookup
from pgqueue.engine.values import Claim
from pgqueue.outcomes import Died, Outcome, Succeeded
from pgqueue.tasks import Task, TaskContext


@dataclass(frozen=True, kw_only=True, eq=False)
class AdoptedTask(Task[Any, Any]):
    """A task of `django.tasks` as one of pgqueue's own.

    Attributes:
        origin: Django's task.
        backend: the alias of the backend that its messages come by.
    """

    origin: Any
    backend: str

    def context(self, claim: Claim, is_cancelled: Callable[[], bool]) -> TaskContext:
        """Return the context of a run of this task."""
        return AdoptedContext(self, claim, is_cancelled)

    def origin_on(self, backend: str) -> Any:
        """Return Django's task, on this backend."""
        return self.origin if self.origin.backend == backend else self.origin.using(backend=backend)

    def backend_of(self, options: bytes | str | None) -> str:
        """Return the alias of the backend that a message came by."""
        named: str = json.loads(options or "{}").get("backend", self.backend)
        return named


@dataclass(frozen=True, eq=False)
class AdoptedContext(TaskContext):
    """The run of a task of `django.tasks`."""

    @property
    def argument(self) -> PostgresTaskContext:
        """What the function gets."""
        return PostgresTaskContext(task_result=self.result, run=self)

    @cached_property
    def result(self) -> PostgresTaskResult:
        """The message as Django sees it."""
        task: Any = self.task
        claim = self.claim
        message = self.found(claim.failures)
        if claim.failures or claim.lost:
            # The errors of earlier attempts don't come with a claim.
            message = lookup.find(connections[task.alias], claim.id) or message
        origin = task.origin_on(task.backend_of(claim.options))
        return results.found(origin, message, task.codec)


@dataclass(frozen=True, kw_only=True)
class PostgresTaskContext(api.TaskContext):  # type: ignore[misc, type-arg]
    """Django's context, and what pgqueue's knows beside it."""

    run: AdoptedContext

    @property
    def metadata(self) -> dict[str, Any]:
        """What the producer wrote on the message."""
        return self.run.metadata

    @property
    def cancelled(self) -> bool:
        """Whether somebody asked for this message to be cancelled."""
        return self.run.cancelled


@receiver(signals.task_started, dispatch_uid="pgqueue.backend")
def _started(sender: Any, context: TaskContext, **kwargs: Any) -> None:
    if isinstance(context, AdoptedContext):
        backend = context.result.task.get_backend()
        api.task_started.send(type(backend), task_result=context.result)


@receiver(signals.task_finished, dispatch_uid="pgqueue.backend")
def _finished(sender: Any, context: TaskContext, outcome: Outcome, **kwargs: Any) -> None:
    # One that is to be tried again is not finished.
    if isinstance(context, AdoptedContext) and isinstance(outcome, Succeeded | Died):
        results.finish(context.result, outcome, context.task.codec, at=timezone.now())
        backend = context.result.task.get_backend()
        api.task_finished.send(type(backend), task_result=context.result)


def adopt(name: str) -> Task[Any, Any] | None:
    """Return the task of pgqueue's own for a Django task that was declared on another backend."""
    try:
        found = import_string(name)
    except ImportError:
        return None
    if not isinstance(found, api.Task):
        return None
    for alias in api.task_backends:
        backend: Any = api.task_backends[alias]
        if hasattr(backend, "adopt"):
            adopted: AdoptedTask = backend.adopt(found.using(backend=alias))
            return adopted
    return None


registry.adopters.append(adopt)
