"""Celery's interface for tasks, on pgqueue: a project is moved by its imports.

    from pgqueue.compat.celery import shared_task       # from celery import shared_task

Modules have the names that they have in Celery: `schedules`, `signals`, `exceptions`, `result`,
`states` and `utils.log`. The names are Celery's; `pgqueue.task` and its engine do the work.
A name without an equivalent raises `Unsupported`, whose message names the alternative.
"""

from pgqueue.compat.celery import (  # noqa: F401
    alias,
    beat,
    builtins,
    checks,
    exceptions,
    rates,
    schedules,
    signals,
    states,
)
from pgqueue.compat.celery.app import Celery, Proxy, shared_task
from pgqueue.compat.celery.app import current_app as _current_app
from pgqueue.compat.celery.canvas import (
    chain,
    chord,
    chunks,
    group,
    xmap,
    xstarmap,
)
from pgqueue.compat.celery.request import running_task
from pgqueue.compat.celery.signatures import Signature, maybe_signature, signature
from pgqueue.compat.celery.task import Task
from pgqueue.compat.celery.utils import uuid

__version__ = "5.5.0"
"""The version of Celery whose interface this is, for packages that ask."""
VERSION = (5, 5, 0)

current_app = Proxy(_current_app)
current_task = Proxy(running_task)
subtask = signature

__all__ = [
    "Celery",
    "Signature",
    "Task",
    "chain",
    "chord",
    "chunks",
    "current_app",
    "current_task",
    "group",
    "maybe_signature",
    "shared_task",
    "signature",
    "subtask",
    "uuid",
    "xmap",
    "xstarmap",
]
