"""The current app and the running task, under the names of Celery's module."""

from pgqueue.compat.celery import absent, current_app, current_task
from pgqueue.compat.celery.app import app_or_default
from pgqueue.compat.celery.app import current_app as get_current_app
from pgqueue.compat.celery.request import running_task as get_current_task

__all__ = [
    "app_or_default",
    "current_app",
    "current_task",
    "get_current_app",
    "get_current_task",
    "get_current_worker_task",
]

get_current_worker_task = get_current_task


__getattr__ = absent.names_of(__name__)
