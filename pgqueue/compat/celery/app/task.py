"""The class of tasks, under the name of Celery's module."""

from pgqueue.compat.celery.request import Request as Context
from pgqueue.compat.celery.task import Task

__all__ = ["Context", "Task"]
