"""Helpers that tasks import from Celery."""

from uuid import uuid4

from pgqueue.compat.celery import absent


def uuid() -> str:
    """Return a new task_id."""
    return str(uuid4())


__getattr__ = absent.names_of(__name__)
