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
    """Django's context, and what pgqueue's knows and does beside it.

    Attributes:
        metadata: what the producer wrote on the message.
        own: pgqueue's own context. None where no worker runs the task, but ImmediateBackend:
            there is nothing to extend, and nowhere to note progress.
    """

    metadata: Mapping[str, Any]
    own: TaskContext | None = None

    @property
    def cancelled(self) -> bool:
        """Whether cancelling this message was requested."""
        return self.own is not None and self.own.cancelled

    @property
    def progress(self) -> Any:
        """What was noted last, by this run or one before; None if nothing was."""
        return None if self.own is None else self.own.progress

    def checkpoint(
        self, data: Any, *, extend: float | timedelta | None = None, extra_attempts: int = 0
    ) -> None:
        """Note how far this run has come, as `pgqueue.TaskContext.checkpoint` does."""
        if self.own:
            self.own.checkpoint(data, extend=extend, extra_attempts=extra_attempts)

    async def acheckpoint(
        self, data: Any, *, extend: float | timedelta | None = None, extra_attempts: int = 0
    ) -> None:
        """Note how far this run has come, from async code."""
        await sync_to_async(self.checkpoint)(data, extend=extend, extra_attempts=extra_attempts)

    def extend(self, duration: float | timedelta) -> None:
        """Keep this message from other workers, as `pgqueue.TaskContext.extend` does."""
        if self.own:
            self.own.extend(duration)

    async def aextend(self, duration: float | timedelta) -> None:
        """Keep this message from other workers, from async code."""
        await sync_to_async(self.extend)(duration)

    def defer(self, delay: float | timedelta, progress: Any = None) -> NoReturn:
        """End this run, and have the message run again later: no failure, however often.

        Raises:
            Defer: always; the worker takes it from there.
        """
        raise Defer(delay, progress)
