"""The queues that a project on django.tasks may name: ours and others'."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from django.db import transaction

from tests.benchmarks.harness import draining, messages, worker


@dataclass(frozen=True)
class Peer:
    """One of the others: its tasks are rows of a model, which it never moves.

    Args:
        task: the name of the one that does nothing on its backend, in `harness.tasks`.
        model: the import path of its rows' model.
        command: what runs its worker.
    """

    task: str
    model: str
    command: tuple[str, ...]

    @property
    def rows(self) -> Any:
        """What it knows of its tasks."""
        module, _, name = self.model.rpartition(".")
        return getattr(import_module(module), name).objects

    def enqueue(self, count: int) -> float:
        """Return how many `enqueue()` a second it stores, each in its own transaction."""
        self.rows.all().delete()
        return _enqueue(_task(self.task), count)

    def drain(self, count: int) -> float:
        """Return how many a second its worker runs."""
        self.rows.all().delete()
        with transaction.atomic():
            for _ in range(count):
                _task(self.task).enqueue()
        with worker.running(*self.command) as running:
            running.wait_until(
                lambda: self.rows.filter(finished_at=None).count() == 0,
                every=0.2,
                patience=worker.PATIENCE + count / 10,
            )
        times = self.rows.values_list("started_at", "finished_at")
        began, ended = (sorted(each) for each in zip(*times, strict=True))
        return count / (ended[-1] - began[0]).total_seconds()


TASKS_DB = Peer(
    "nothing_on_tasks_db",
    "django_tasks_db.models.DBTaskResult",
    ("db_worker", "--backend", "tasks_db", "--interval", "0.01", "--no-startup-delay"),
)
OX = Peer(
    "nothing_on_ox",
    "django_ox.models.OxTask",
    ("ox_worker", "--backend", "ox", "--concurrency", "8", "--interval", "0.01"),
)


def others() -> dict[str, Peer]:
    """Return those that are installed, by their names in figures."""
    return {"tasks_db": TASKS_DB, **({"ox": OX} if find_spec("django_ox") else {})}


def enqueue_ours(count: int) -> float:
    """Return how many `enqueue()` a second our backend stores."""
    messages.empty()
    return _enqueue(_task("nothing_on_ours"), count)


def drain_ours(count: int, *, task: str = "nothing_on_ours") -> float:
    """Return how many a second our worker runs of the task of this name, in `harness.tasks`."""
    messages.store(count, task=_task(task).module_path)
    return draining.drain(count).per_s


@contextmanager
def told(**environment: str) -> Iterator[None]:
    """Have workers find this in their environment, which `harness.settings` reads."""
    os.environ.update(environment)
    try:
        yield
    finally:
        for name in environment:
            del os.environ[name]


def _task(name: str) -> Any:
    return getattr(import_module("tests.benchmarks.harness.tasks"), name)


def _enqueue(task: Any, count: int) -> float:
    began = time.monotonic()
    for _ in range(count):
        task.enqueue()
    return count / (time.monotonic() - began)
