"""A job queue, message queue and event log for Django, on the PostgreSQL you already have."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from pgqueue.batches import Batch as Batch
    from pgqueue.batches import batch as batch
    from pgqueue.channels import Channel as Channel
    from pgqueue.exceptions import Cancel as Cancel
    from pgqueue.exceptions import Defer as Defer
    from pgqueue.exceptions import Discard as Discard
    from pgqueue.exceptions import Retry as Retry
    from pgqueue.retries import Exponential as Exponential
    from pgqueue.schedules import Schedule as Schedule
    from pgqueue.tasks import Delivery as Delivery
    from pgqueue.tasks import Notice as Notice
    from pgqueue.tasks import Task as Task
    from pgqueue.tasks import TaskContext as TaskContext
    from pgqueue.tasks import TaskResult as TaskResult
    from pgqueue.tasks import areceive as areceive
    from pgqueue.tasks import asend as asend
    from pgqueue.tasks import asend_many as asend_many
    from pgqueue.tasks import receive as receive
    from pgqueue.tasks import send as send
    from pgqueue.tasks import send_many as send_many
    from pgqueue.tasks import task as task
    from pgqueue.tasks import watch as watch

# Importing the package must need neither settings nor models: Spark's executors
# import it too. So each name is loaded when it is first used.
_HOMES = {
    "Batch": "pgqueue.batches",
    "Cancel": "pgqueue.exceptions",
    "Channel": "pgqueue.channels",
    "Defer": "pgqueue.exceptions",
    "Delivery": "pgqueue.tasks",
    "Discard": "pgqueue.exceptions",
    "Exponential": "pgqueue.retries",
    "Notice": "pgqueue.tasks",
    "Retry": "pgqueue.exceptions",
    "Schedule": "pgqueue.schedules",
    "Task": "pgqueue.tasks",
    "TaskContext": "pgqueue.tasks",
    "TaskResult": "pgqueue.tasks",
    "areceive": "pgqueue.tasks",
    "asend": "pgqueue.tasks",
    "asend_many": "pgqueue.tasks",
    "batch": "pgqueue.batches",
    "receive": "pgqueue.tasks",
    "send": "pgqueue.tasks",
    "send_many": "pgqueue.tasks",
    "task": "pgqueue.tasks",
    "watch": "pgqueue.tasks",
}

__all__ = [
    "Batch",
    "Cancel",
    "Channel",
    "Defer",
    "Delivery",
    "Discard",
    "Exponential",
    "Notice",
    "Retry",
    "Schedule",
    "Task",
    "TaskContext",
    "TaskResult",
    "areceive",
    "asend",
    "asend_many",
    "batch",
    "receive",
    "send",
    "send_many",
    "task",
    "watch",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
