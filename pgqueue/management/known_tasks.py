"""Tasks that a command line names."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError
from django.utils.module_loading import autodiscover_modules

from pgqueue.tasks import Task, find_task, registry
from pgqueue.values.error_words import hint, shown


def task_named(name: str) -> Task[Any, Any]:
    """Return the task of this name, importing its module.

    Raises:
        CommandError: no task has this name, or the import of its module fails.
    """
    try:
        task = find_task(name)
    except Exception as error:  # the module's own
        raise CommandError(f"{shown(name)}: {type(error).__name__}: {error}") from error
    if task is None:
        autodiscover_modules("tasks")
        known = [each.name for each in registry.each()]
        short = [each for each in known if each.endswith(f".{name}")]
        meant = f"Did you mean {short[0]!r}?" if short else hint(name, known)
        raise CommandError(f"No task is named {shown(name)} here. {meant}")
    return task
