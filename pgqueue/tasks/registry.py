"""The tasks of this process, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from pgqueue.values.discovery import import_declaring

if TYPE_CHECKING:
    from pgqueue.options.schedules import Schedule
    from pgqueue.tasks.definition import Task

_tasks: dict[str, Task[Any, Any]] = {}

adopters: list[Callable[[str], Task[Any, Any] | None]] = []
"""Each may know a task of another kind by its name. What it imports must not depend on the name."""

schedulers: list[Callable[[], Iterable[tuple[Task[Any, Any], Schedule]]]] = []
"""Each returns schedules that the project declares in another way, and their tasks."""


def add(task: Task[Any, Any]) -> None:
    """Register `task` under its name."""
    _tasks[task.name] = task


def each() -> list[Task[Any, Any]]:
    """Return the tasks that are registered so far."""
    return list(_tasks.values())


def get(name: str) -> Task[Any, Any] | None:
    """Return the task of this name, as its decorator made it, if its module was imported."""
    return _tasks.get(name)


def find(name: str) -> Task[Any, Any] | None:
    """Return the task of this name, importing the module of the project that declares it.

    Returns:
        None: no task has this name here. Nothing else that has this name is imported or called.

    Raises:
        Exception: the module's own, as it is imported.
    """
    if name not in _tasks:
        import_declaring(name)
    for adopt in adopters:
        if name not in _tasks and (adopted := adopt(name)):
            add(adopted)
    return _tasks.get(name)
