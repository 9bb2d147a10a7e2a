"""`django.tasks`: Django's own from 6.0 on, the package django-tasks before that."""

from typing import TYPE_CHECKING

import django

if TYPE_CHECKING or django.VERSION >= (6, 0):
    from django.tasks import base, signals, task_backends
    from django.tasks.backends import dummy, immediate
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.exceptions import InvalidTask, InvalidTaskBackend, TaskResultDoesNotExist
    from django.utils.json import normalize_json
else:
    from django_tasks import base, signals, task_backends
    from django_tasks.backends import dummy, immediate
    from django_tasks.backends.base import BaseTaskBackend
    from django_tasks.exceptions import InvalidTaskBackendError as InvalidTaskBackend
    from django_tasks.exceptions import InvalidTaskError as InvalidTask
    from django_tasks.exceptions import TaskResultDoesNotExist
    from django_tasks.utils import normalize_json

Task = base.Task
TaskContext = base.TaskContext
TaskError = base.TaskError
TaskResult = base.TaskResult
TaskResultStatus = base.TaskResultStatus

__all__ = [
    "BaseTaskBackend",
    "InvalidTask",
    "InvalidTaskBackend",
    "Task",
    "TaskContext",
    "TaskError",
    "TaskResult",
    "TaskResultDoesNotExist",
    "TaskResultStatus",
    "base",
    "dummy",
    "immediate",
    "normalize_json",
    "signals",
    "task_backends",
]
