"""Tasks whose errors are reported."""

from __future__ import annotations

import logging
from typing import Any

import django
import sentry_sdk

from pgqueue import TaskContext, task

if django.VERSION >= (6, 0):
    from django.tasks import task as django_task
else:
    from django_tasks import task as django_task

logger = logging.getLogger(__name__)


def divide(number: int, by: int) -> float:
    """Divide."""
    return number / by


@task(channel="mail", max_attempts=3, backoff=[0, 0])
def fail(number: int) -> None:
    """Fail, whatever is tried."""
    sentry_sdk.set_tag("number", number)
    logger.warning("about to divide %d", number)
    divide(number, by=0)


@task(channel="mail", max_attempts=2, backoff=[0], atomic=True)
def fail_atomically() -> None:
    """Fail, and leave nothing."""
    divide(1, by=0)


@task(channel="mail", max_attempts=2, backoff=[0])
async def fail_async(number: int) -> None:
    """Fail in a coroutine."""
    sentry_sdk.set_tag("number", number)
    divide(number, by=0)


@task(channel="mail", max_attempts=2, backoff=[0], takes_context=True)
def recover(context: TaskContext) -> None:
    """Fail once."""
    if context.attempt == 1:
        divide(1, by=0)


@django_task
def fail_as_django(**options: Any) -> None:
    """Fail, as a task of Django's."""
    divide(1, by=0)
