"""Names of Celery's module that runs tasks, for other packages. Workers do not use it."""

from typing import Any, NoReturn

from pgqueue.compat.celery import absent
from pgqueue.compat.celery.exceptions import Unsupported
from pgqueue.compat.celery.task import Task

__all__ = ["build_tracer", "task_has_custom"]


def task_has_custom(task: Any, attr: str) -> bool:
    """Say whether the class of a task has its own version of an attribute."""
    return getattr(type(task), attr, None) is not getattr(Task, attr, None)


def build_tracer(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise `Unsupported`. Packages that wrap the function find it; nothing here calls it."""
    raise Unsupported("celery.app.trace.build_tracer: `manage.py runworker` runs the tasks.")


__getattr__ = absent.names_of(__name__)
