"""Tasks that a command line names."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError
from django.utils.module_loading import autodiscover_modules

from pgqueue.exceptions import UnknownTask
from pgqueue.tasks import Task, registry, scheduling
from pgqueue.values.error_words import hint


def task_named(name: str) -> Task[Any, Any]:
    """Return the task of this name, importing its module.

    Raises:
        CommandError: no task has this name, or the import of its module fails.
    """
    try:
        return scheduling.known(name)
    except UnknownTask as error:
        if error.__cause__ is not None:  # of its module
            raise CommandError(str(error)) from error
        raise CommandError(f"{error} {_meant(name)}") from error


def _meant(name: str) -> str:
    autodiscover_modules("tasks")
    known = [each.name for each in registry.each()]
    short = [each for each in known if each.endswith(f".{name}")]
    return f"Did you mean {short[0]!r}?" if short else hint(name, known)
