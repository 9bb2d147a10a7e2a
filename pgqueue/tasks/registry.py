"""The tasks of this process, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pgqueue.exceptions import InvalidTask
from pgqueue.options.schedules import Schedule
from pgqueue.tasks import encryption
from pgqueue.tasks.declaration import Declaration, tasks
from pgqueue.values.discovery import import_declaring

adopters: list[Callable[[str], Declaration[Any, Any] | None]] = []
"""Functions that find tasks of other kinds. Their imports must not depend on the given name."""

schedulers: list[Callable[[], Iterable[tuple[Declaration[Any, Any], Schedule]]]] = []
"""Functions that return tasks with schedules which the project declares in another way."""


def add(task: Declaration[Any, Any]) -> None:
    """Register `task` under its name, and under the names that it had before.

    Raises:
        InvalidTask: another task has one of the names.
    """
    tasks[task.name] = task
    for name in task.aliases:
        if (other := tasks.setdefault(name, task)).name == name or (other.name != task.name):
            raise InvalidTask(f"aliases of {task.name}: {name!r} is the name of another task.")
        tasks[name] = task
    if task.aliases:
        encryption.names.update(dict.fromkeys(task.names, task.names))


def each() -> list[Declaration[Any, Any]]:
    """Return the tasks that are registered so far."""
    return list(dict.fromkeys(tasks.values()))


def get(name: str) -> Declaration[Any, Any] | None:
    """Return the task of this name, as its decorator made it, if its module was imported."""
    return tasks.get(name)


def of_package(name: str) -> Declaration[Any, Any]:
    """Return a task of the package itself, whose module `pgqueue.tasks` imports."""
    return tasks[name]


def find(name: str) -> Declaration[Any, Any] | None:
    """Return the task of this name, importing the module of the project that declares it.

    Returns:
        None: no task has this name here. Another object of this name is neither imported nor
        called.

    Raises:
        Exception: the module's own error at its import.
    """
    if found := tasks.get(name):  # as nearly always
        return found
    import_declaring(name)
    for adopt in adopters:
        if name not in tasks and (adopted := adopt(name)):
            add(adopted)
    return tasks.get(name)
