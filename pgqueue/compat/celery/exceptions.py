"""Celery's exceptions, by its names; and `Unsupported`, for what is not taken over."""

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
    """What a task raises to say how its run is to end."""


class Retry(TaskPredicate):
    """The task asked to be tried again: `Task.retry()` raises it.

    Args:
        message: why, in words.
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
            when = f" in {self.when}s"  # as Celery has it: celery-progress reads it
        return self.message or f"Retry{when}" + (f": {self.exc!r}" if self.exc else "")


class Ignore(TaskPredicate):
    """The task decided that its message need not run: it ends as discarded."""


class Reject(TaskPredicate):
    """The task rejected its message.

    Args:
        reason: kept with the message.
        requeue: run it again at once; otherwise it is a dead letter.
    """

    def __init__(self, reason: Any = None, requeue: bool = False) -> None:
        super().__init__(reason, requeue)
        self.reason = reason
        self.requeue = requeue


class Replaced(TaskPredicate):
    """Others take the place of this run.

    Attributes:
        result: what is stored as its result: that it is that of another message.
    """

    def __init__(self, message_id: int) -> None:
        super().__init__(f"message {message_id} takes its place")
        self.result = referring(message_id)


class TaskError(PGQueueError):
    """A task failed."""


class ChordError(TaskError):
    """A task failed that this one was to get the result of."""


class IncompleteStream(PGQueueError):
    """Not all that follow a result are known, since one of them has not ended."""


class MaxRetriesExceededError(TaskError):
    """The task asked for more retries than its max_retries."""

    def __init__(self, text: str = "", *, task_args: Any = (), task_kwargs: Any = None) -> None:
        super().__init__(text)
        self.task_args = task_args
        self.task_kwargs = task_kwargs or {}


class TaskRevokedError(PGQueueError):
    """The message was cancelled, or its time was over, before its task succeeded."""


class SoftTimeLimitExceeded(TaskTimeout):
    """The task ran longer than its soft_time_limit: it may clean up, and end."""


class TimeLimitExceeded(TaskTimeout):
    """The task ran longer than its time_limit."""


__getattr__ = absent.names_of(__name__)
