from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NoReturn

from asgiref.sync import sync_to_async

from pgqueue.backend import api
from pgqueue.exceptions import Defer
from pgqueue.tasks import TaskContext


@dataclass(frozen=True, kw_only=True)
class PostgresTaskContext(api.TaskContext):  # type: ignore[misc, type-arg]
    """Django's context, with the values and methods of pgqueue's context.

    Attributes:
        metadata: the message's metadata, from its producer.
        own: pgqueue's context; None under ImmediateBackend, which has no lease to extend and
            stores no progress.
    """

    metadata: Mapping[str, Any]
    own: TaskContext | None = None

    @property
    def cancelled(self) -> bool:
        """Whether a request to cancel this message exists."""
        return self.own is not None and self.own.cancelled

    @property
    def progress(self) -> Any:
        """The last checkpoint of this run or an earlier one; None: there is none."""
        return None if self.own is None else self.own.progress

    def checkpoint(
        self, data: Any, *, extend: float | timedelta | None = None, extra_attempts: int = 0
    ) -> None:
        """Store the progress of this run, as `pgqueue.TaskContext.checkpoint` does."""
        if self.own:
            self.own.checkpoint(data, extend=extend, extra_attempts=extra_attempts)

    async def acheckpoint(
        self, data: Any, *, extend: float | timedelta | None = None, extra_attempts: int = 0
    ) -> None:
        """Store the progress of this run, from async code."""
        await sync_to_async(self.checkpoint)(data, extend=extend, extra_attempts=extra_attempts)

    def extend(self, duration: float | timedelta) -> None:
        """Extend the lease of this message, as `pgqueue.TaskContext.extend` does."""
        if self.own:
            self.own.extend(duration)

    async def aextend(self, duration: float | timedelta) -> None:
        """Extend the lease of this message, from async code."""
        await sync_to_async(self.extend)(duration)

    def defer(self, delay: float | timedelta, progress: Any = None) -> NoReturn:
        """End this run, and run the message again later. It never counts as a failure.

        Raises:
            Defer: always. The worker catches it.
        """
        raise Defer(delay, progress)
