"""A job queue, message queue and event log for Django, on the PostgreSQL you already have."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from pgqueue.retries import Exponential as Exponential
    from pgqueue.tasks import Task as Task
    from pgqueue.tasks import TaskContext as TaskContext
    from pgqueue.tasks import TaskResult as TaskResult
    from pgqueue.tasks import task as task

# Importing the package must need neither settings nor models: Spark's executors
# import it too. So each name is loaded when it is first used.
_HOMES = {
    "Exponential": "pgqueue.retries",
    "Task": "pgqueue.tasks",
    "TaskContext": "pgqueue.tasks",
    "TaskResult": "pgqueue.tasks",
    "task": "pgqueue.tasks",
}

__all__ = ["Exponential", "Task", "TaskContext", "TaskResult", "task"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
