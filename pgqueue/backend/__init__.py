"""pgqueue as a backend of `django.tasks`.

TASKS = {"default": {"BACKEND": "pgqueue.backend.PostgresBackend"}}
"""

from pgqueue.backend.backends import DummyBackend, ImmediateBackend, PostgresBackend
from pgqueue.backend.tasks import PostgresTask, task

__all__ = ["DummyBackend", "ImmediateBackend", "PostgresBackend", "PostgresTask", "task"]
