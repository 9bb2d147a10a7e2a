"""Functions that become messages: `@task`, what is asked of it, and what comes of it."""

from pgqueue.tasks.context import TaskContext
from pgqueue.tasks.definition import Task, task
from pgqueue.tasks.result import TaskError, TaskResult

__all__ = ["Task", "TaskContext", "TaskError", "TaskResult", "task"]
