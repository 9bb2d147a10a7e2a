"""Make tasks of functions and classes, and pgqueue's own tasks of these."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from pgqueue import registry
from pgqueue.compat.celery import current, routes
from pgqueue.compat.celery.calling import options_of, priority_of
from pgqueue.compat.celery.exceptions import Unsupported
from pgqueue.compat.celery.retrying import Retrying, retrying_of
from pgqueue.compat.celery.running import CeleryTask, surrounded
from pgqueue.exceptions import InvalidTask, UnknownTask
from pgqueue.spelling import shown
from pgqueue.tasks import redacting
from pgqueue.tasks.options import checked

if TYPE_CHECKING:
    from pgqueue.compat.celery.task import Task

REFUSED: Mapping[str, str] = {
    "pydantic": "give type hints: dataclasses come back as what they were",
    "backend": "results are rows of the database",
    "exchange": "there are no exchanges: give queue=…",
    "routing_key": "there are no exchanges: give queue=…",
    "Request": "the worker has no such class: use the signals, or handlers such as on_failure()",
    "Strategy": "the worker has no such class",
    "AsyncResult": "the worker has no such class",
}
RATE = re.compile(r"(\d+(?:\.\d+)?)(?:/([smh]))?")
PER = {"s": 1.0, "m": 60.0, "h": 3600.0}


def declare(function: Callable[..., Any], app: Any, options: Mapping[str, Any]) -> Task:
    """Make a task of a function, and register it.

    Raises:
        InvalidTask: an option can't be, or the function can't be found by name.
        Unsupported: an option is not taken over.
    """
    from pgqueue.compat.celery.task import Task

    if not inspect.isfunction(function) or "." in function.__qualname__:
        raise InvalidTask(f"{function!r} must be a function at the top of a module to be a task.")
    given = dict(options)
    base = given.pop("base", None) or (app.task_class if app else None) or Task
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


def register(task: Any, function: Callable[..., Any], app: Any, *, is_bound: bool) -> Any:
    """Complete a task, and have workers find it."""
    from pgqueue.compat.celery.task import Task

    name = task.name or _name(app, getattr(task, "__name__", type(task).__name__), task.__module__)
    vars(task).update(name=name, is_bound=is_bound, _app=app, __name__=type(task).__name__)
    _check(task)
    if inspect.iscoroutinefunction(function):
        if type(task).__call__ is not Task.__call__:
            raise Unsupported(f"{name}: __call__ can't surround a coroutine function.")
        function = surrounded(task, function)
    task.function = function
    # An app's module is imported by that of the settings, which can't be read until it is.
    current.discovery.later(lambda: registry.add(task.own))
    return task


def _name(app: Any, name: str, module: str) -> str:
    return app.gen_task_name(name, module) if app else f"{module}.{name}"


def _check(task: Any) -> None:
    for option, instead in REFUSED.items():
        if vars(type(task)).get(option):
            raise Unsupported(f"{option} of {task.name}: {instead}.")
    options_of(task, {"serializer": task.serializer})
    rate_of(task.rate_limit)
    _retrying(task)


def made(task: Task) -> CeleryTask:
    """Return the task as one of pgqueue's own, by the settings of this moment.

    Raises:
        InvalidTask: an option can't be.
    """
    conf = task.conf
    static = routes.static(conf.task_routes, task.name)
    priority = _first(task.priority, static.get("priority"), conf.task_default_priority, 0)
    retrying = _retrying(task)
    expires = task.expires
    options: dict[str, Any] = {
        "channel": _first(task.queue, static.get("queue"), conf.task_default_queue),
        "priority": priority_of(priority),
        "key": task.name if option(task, "rate_limit", conf.task_default_rate_limit) else "",
        "max_attempts": retrying.max_attempts,
        "backoff": retrying,
        "timeout": option(task, "time_limit", conf.task_time_limit),
        "takes_context": task.is_bound,
        "redact": task.redact,
        **(options_of(task, {"expires": expires}) if expires else {}),
    }
    soft = checked({"timeout": option(task, "soft_time_limit", conf.task_soft_time_limit)})
    ignores = option(task, "ignore_result", conf.task_ignore_result)
    own = CeleryTask(
        func=task.function,
        origin=task,
        named=task.name,
        soft_timeout=soft["timeout"],
        ignore_result=bool(ignores),
        **checked(options),
    )
    if own.redact:
        redacting.check(own)
    if registry.get(own.name) is not None:
        registry.add(own)
    return own


def _retrying(task: Task) -> Retrying:
    try:
        return retrying_of(task)
    except (TypeError, ValueError) as error:
        raise InvalidTask(f"{task.name}: {error}") from error


def option(task: Task, name: str, default: Any) -> Any:
    """Return an option of a task: what task_annotations say, its own, or that of the settings."""
    found = [annotation[name] for annotation in _annotations(task) if name in annotation]
    return _first(*found, getattr(task, name), default)


def _annotations(task: Task) -> list[Mapping[str, Any]]:
    given = task.conf.task_annotations
    several = given if isinstance(given, list | tuple) else [given] if given else []
    if not all(isinstance(each, Mapping) for each in several):
        raise Unsupported("task_annotations: give dicts of options by the names of tasks.")
    return [
        options
        for each in several
        for pattern, options in each.items()
        if fnmatchcase(task.name, pattern)
    ]


def _first(*values: Any) -> Any:
    return next((each for each in values if each is not None), None)


def rate_of(limit: Any) -> tuple[float, float] | None:
    """Return how many messages may start in how many seconds; None: any number.

    Raises:
        InvalidTask: this is no rate limit.
    """
    if limit is None or limit == 0 or limit == "":
        return None
    found = RATE.fullmatch(str(limit)) if not isinstance(limit, bool) else None
    if found is None or not float(found[1]):
        raise InvalidTask(
            f'rate_limit={shown(limit)}: it must be such as "10/s", "10/m" or "10/h".'
        )
    return float(found[1]), PER[found[2] or "s"]


def find(name: str) -> CeleryTask | None:
    """Return the task of this name, after importing what declares tasks."""
    current.discovery.import_all()
    own = registry.get(name)
    return own if isinstance(own, CeleryTask) else None


def found(name: str) -> Any:
    """Return the task of this name, as the project sees it.

    Raises:
        UnknownTask: there is none.
    """
    own = registry.find(name)
    if not isinstance(own, CeleryTask):
        raise UnknownTask(f"No task is named {name} here. Is its app in INSTALLED_APPS?")
    return own.origin


# It imports what the project lists, whatever the name: a name can't have other modules imported.
registry.adopters.append(find)
