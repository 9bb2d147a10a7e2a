"""The tasks by their names, under the name of Celery's module."""

from typing import Any


def __getattr__(name: str) -> Any:
    """Return the tasks of the current app, as `tasks`."""
    if name == "tasks":
        from pgqueue.compat.celery.app import current_app

        return current_app().tasks
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
