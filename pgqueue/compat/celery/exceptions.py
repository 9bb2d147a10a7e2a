"""Celery's exceptions under its names, and `Unsupported` for features not taken over."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.core.exceptions import ImproperlyConfigured as ImproperlyConfigured
from django.db import OperationalError as OperationalError

from pgqueue.codec.references import referring
from pgqueue.compat.celery import absent
from pgqueue.compat.celery.absent import Unsupported as Unsupported
from pgqueue.compat.celery.absent import UnsupportedImport as UnsupportedImport
from pgqueue.exceptions import PGQueueError, TaskTimeout, UnknownTask, WaitTimeout

CeleryError = PGQueueError
NotRegistered = UnknownTask
TimeoutError = WaitTimeout


class TaskPredicate(PGQueueError):
    """The base of exceptions by which a task decides how its run ends."""


class Retry(TaskPredicate):
    """The task asked to be tried again: `Task.retry()` raises it.

    Args:
        message: the reason in words.
        exc: the error that is the reason.
        when: seconds, a timedelta, or an aware datetime; None: the task's default_retry_delay.
    """

    def __init__(
        self,
        message: str | None = None,
        exc: BaseException | None = None,
        when: float | timedelta | datetime | None = None,
    ) -> None:
        super().__init__(message or "")
        self.message = message
        self.exc = exc
        self.when = when

    def __str__(self) -> str:
        when = f" at {self.when}" if isinstance(self.when, datetime) else ""
        if isinstance(self.when, int | float):
            when = f" in {self.when}s"  # Celery's form: celery-progress reads it
        return self.message or f"Retry{when}" + (f": {self.exc!r}" if self.exc else "")


class Ignore(TaskPredicate):
    """The task ignores its message: the message ends as discarded."""


class Reject(TaskPredicate):
    """The task rejected its message.

    Args:
        reason: kept with the message.
        requeue: run the message again at once; otherwise it becomes a dead letter.
    """

    def __init__(self, reason: Any = None, requeue: bool = False) -> None:
        super().__init__(reason, requeue)
        self.reason = reason
        self.requeue = requeue


class Replaced(TaskPredicate):
    """Other messages take the place of this run.

    Attributes:
        result: the stored result: a reference to the result of another message.
    """

    def __init__(self, message_id: int) -> None:
        super().__init__(f"message {message_id} takes its place")
        self.result = referring(message_id)


class TaskError(PGQueueError):
    """A task failed."""


class ChordError(TaskError):
    """A task of the header failed, so the body of the chord has no results."""


class IncompleteStream(PGQueueError):
    """A message has not ended, so the results after it are not known yet."""


class MaxRetriesExceededError(TaskError):
    """The task asked for more retries than its max_retries."""

    def __init__(self, text: str = "", *, task_args: Any = (), task_kwargs: Any = None) -> None:
        super().__init__(text)
        self.task_args = task_args
        self.task_kwargs = task_kwargs or {}


class TaskRevokedError(PGQueueError):
    """The message was cancelled, or has expired, before its task succeeded."""


class SoftTimeLimitExceeded(TaskTimeout):
    """The task ran longer than its soft_time_limit: it may clean up, and end."""


class TimeLimitExceeded(TaskTimeout):
    """The task ran longer than its time_limit."""


__getattr__ = absent.names_of(__name__)
