"""Make pgqueue's tasks of Celery's tasks, by the current settings."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from pgqueue.compat.celery import routes
from pgqueue.compat.celery.calling import options_of, priority_of
from pgqueue.compat.celery.exceptions import Unsupported
from pgqueue.compat.celery.retrying import Retrying, retrying_of
from pgqueue.compat.celery.running import CeleryTask
from pgqueue.compat.celery.utils.rate_limits import rate_of
from pgqueue.exceptions import InvalidTask
from pgqueue.tasks import redacting, registry
from pgqueue.tasks.options import checked

HANDLERS = "use the signals, or handlers such as on_failure()"
STRATEGY = "the worker has no strategies: use the signals, or before_start()"
REFUSED: Mapping[str, str] = {
    "pydantic": "give type hints: dataclasses keep their types",
    "backend": "results are rows of the database",
    "exchange": "there are no exchanges: give queue=…",
    "routing_key": "there are no exchanges: give queue=…",
    "Request": f"the worker has no such class: {HANDLERS}",
    "Strategy": STRATEGY,
    "start_strategy": STRATEGY,
    "AsyncResult": "the worker has no such class",
    "shadow_name": "the log has the task's name",
    "on_bound": "a task is bound to no app: it finds its app when it runs",
    "from_config": "set the attributes, or CELERY_TASK_ANNOTATIONS",
    "annotate": "set CELERY_TASK_ANNOTATIONS",
    "add_around": "define __call__ in the class of the task",
    "request_stack": "self.request belongs to the current run",
    "push_request": "self.request belongs to the current run",
    "pop_request": "self.request belongs to the current run",
    "signature_from_request": "retry() tries the same message again",
    "subtask_from_request": "retry() tries the same message again",
}
"""Refused options and class attributes of tasks, each with the alternative."""


def made(task: Any) -> CeleryTask:
    """Return a task of Celery's kind as a task of pgqueue's, by the current settings.

    Raises:
        InvalidTask: an option is invalid.
    """
    _annotate(task)
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


def check(task: Any) -> None:
    for option, instead in REFUSED.items():
        given = inspect.getattr_static(task, option, None)
        if given and given is not inspect.getattr_static(task._plain, option, None):
            raise Unsupported(f"{option} of {task.name}: {instead}.")
    options_of(task, {"serializer": task.serializer})
    rate_of(task.rate_limit)
    _retrying(task)


def _retrying(task: Any) -> Retrying:
    try:
        return retrying_of(task)
    except (TypeError, ValueError) as error:
        raise InvalidTask(f"{task.name}: {error}") from error


def option(task: Any, name: str, default: Any) -> Any:
    """Return an option of a task, or the default from the settings."""
    return _first(getattr(task, name), default)


def _annotate(task: Any) -> None:
    """Give a task a subclass of its class with the current task_annotations as attributes.

    Raises:
        Unsupported: an annotation is not taken over.
    """
    given = task.conf.task_annotations or []
    several = given if isinstance(given, list | tuple) else [given]
    attributes: dict[str, Any] = {}
    for pattern, annotation in (pair for each in several for pair in each.items()):
        if fnmatchcase(task.name, pattern):  # the first one wins
            attributes = {**annotation, **attributes}
    declared = task._class
    if not attributes and type(task) is declared:
        return
    for known in ("handlers", "body"):
        vars(task).pop(known, None)
    made = type(declared.__name__, (declared,), {"__module__": declared.__module__, **attributes})
    task.__class__ = made if attributes else declared
    check(task)


def _first(*values: Any) -> Any:
    return next((each for each in values if each is not None), None)
