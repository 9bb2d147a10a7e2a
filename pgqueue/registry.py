"""The tasks of this process, by name."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pgqueue.tasks.definition import Task

_tasks: dict[str, Task[Any, Any]] = {}

adopters: list[Callable[[str], Task[Any, Any] | None]] = []
"""Each may know a task of another kind by its name."""


def add(task: Task[Any, Any]) -> None:
    """Make `task` known by its name."""
    _tasks[task.name] = task


def each() -> list[Task[Any, Any]]:
    """Return those that were imported so far."""
    return list(_tasks.values())


def get(name: str) -> Task[Any, Any] | None:
    """Return the task of this name, as its decorator made it, if it was imported."""
    return _tasks.get(name)


def find(name: str) -> Task[Any, Any] | None:
    """Return the task of this name, importing the module that the name says; None without one.

    A module that can't be imported has no tasks: its error is the caller's to report.
    """
    if name not in _tasks:
        module, _, _ = name.rpartition(".")
        try:
            import_module(module)
        except (ImportError, ValueError):
            return None
    for adopt in adopters:
        if name not in _tasks and (adopted := adopt(name)):
            add(adopted)
    return _tasks.get(name)
