"""The tasks of this process, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pgqueue.options.schedules import Schedule
from pgqueue.tasks.declaration import Declaration, tasks
from pgqueue.values.discovery import import_declaring

adopters: list[Callable[[str], Declaration[Any, Any] | None]] = []
"""Each may know a task of another kind by its name. What it imports must not depend on the name."""

schedulers: list[Callable[[], Iterable[tuple[Declaration[Any, Any], Schedule]]]] = []
"""Each returns schedules that the project declares in another way, and their tasks."""


def add(task: Declaration[Any, Any]) -> None:
    """Register `task` under its name."""
    tasks[task.name] = task


def each() -> list[Declaration[Any, Any]]:
    """Return the tasks that are registered so far."""
    return list(tasks.values())


def get(name: str) -> Declaration[Any, Any] | None:
    """Return the task of this name, as its decorator made it, if its module was imported."""
    return tasks.get(name)


def of_package(name: str) -> Declaration[Any, Any]:
    """Return a task of the package itself, whose module `pgqueue.tasks` imports."""
    return tasks[name]


def find(name: str) -> Declaration[Any, Any] | None:
    """Return the task of this name, importing the module of the project that declares it.

    Returns:
        None: no task has this name here. Nothing else that has this name is imported or called.

    Raises:
        Exception: the module's own, as it is imported.
    """
    if name not in tasks:
        import_declaring(name)
    for adopt in adopters:
        if name not in tasks and (adopted := adopt(name)):
            add(adopted)
    return tasks.get(name)
