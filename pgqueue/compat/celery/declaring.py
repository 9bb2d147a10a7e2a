"""Make Celery's tasks of functions and classes, and register them as pgqueue's tasks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from pgqueue.calls.callables import fault_of
from pgqueue.compat.celery import current, making
from pgqueue.compat.celery.exceptions import Unsupported
from pgqueue.compat.celery.running import CeleryTask, surrounded
from pgqueue.compat.celery.task import Task
from pgqueue.exceptions import InvalidTask
from pgqueue.tasks import registry
from pgqueue.values.error_words import shown


def declare(function: Callable[..., Any], app: Any, options: Mapping[str, Any]) -> Task:
    """Make a task of a function, and register it.

    Raises:
        InvalidTask: an option is invalid, or the function is not at the top of its module.
        Unsupported: an option is not taken over.
    """
    if not inspect.isfunction(function) or "." in function.__qualname__:
        raise InvalidTask(f"{function!r} must be a function at the top of a module to be a task.")
    given = dict(options)
    base = given.pop("base", None) or _base(app or current.latest())
    if not (isinstance(base, type) and issubclass(base, Task)):
        raise InvalidTask(
            f"base={shown(base)}: it must be a subclass of pgqueue.compat.celery.Task."
        )
    is_bound = bool(given.pop("bind", False))
    run = function if is_bound else staticmethod(function)
    attributes = {name: getattr(function, name) for name in ("__module__", "__doc__")}
    attributes |= {"__wrapped__": staticmethod(function), "run": run, "abstract": False, **given}
    task = type(function.__name__, (base,), attributes)()
    declared: Task = register(task, function, app, is_bound=is_bound)
    return declared


def _base(app: Any) -> Any:
    return app.Task if app else Task


def register(task: Any, function: Callable[..., Any], app: Any, *, is_bound: bool) -> Any:
    """Complete a task, and register it for workers."""
    names = app or current.latest()
    name = task.name or _name(
        names, getattr(task, "__name__", type(task).__name__), task.__module__
    )
    vars(task).update(name=name, is_bound=is_bound, _app=app, __name__=type(task).__name__)
    vars(task)["_class"] = type(task)
    fault = fault_of(function, by_name=name.startswith("__main__."))
    if fault:
        raise InvalidTask(f"{name} is no valid task: {fault}.")
    making.check(task)
    if app is None:
        current.shared.append((name, names))
    if inspect.iscoroutinefunction(function):
        if type(task).__call__ is not Task.__call__:
            raise Unsupported(f"{name}: __call__ must not surround a coroutine function.")
        function = surrounded(task, function)
    task.function = function
    # The settings' module may import the app's module, so the settings may not be readable yet.
    current.discovery.later(lambda: registry.add(task.own))
    return task


def _name(app: Any, name: str, module: str) -> str:
    return app.gen_task_name(name, module) if app else f"{module}.{name}"


def find(name: str) -> CeleryTask | None:
    """Return the task of this name, after importing the modules that declare tasks."""
    current.discovery.import_all()
    own = registry.get(name)
    return own if isinstance(own, CeleryTask) else None


# For any name, `find` imports only modules that the project lists: a message's name is no path.
registry.adopters.append(find)
