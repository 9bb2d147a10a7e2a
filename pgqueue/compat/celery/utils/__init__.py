"""Helpers that tasks import from Celery."""

from uuid import uuid4


def uuid() -> str:
    """Return a new task_id."""
    return str(uuid4())
