"""Notice that the queue is drained. A thread of its own: the main thread waits for signals."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from time import monotonic

from pgqueue.database.connections import Session
from pgqueue.engine import flows, workers
from pgqueue.threads.service import Service
from pgqueue.worker.config import WorkerConfig

EVERY = timedelta(seconds=0.2)
COST = 10
"""The nap after a look is at least this many times what the look took."""


class Drain(Service):
    """Looks whether any message is ready, running or waiting for a retry.

    Args:
        is_busy: whether this process has work, so that the database need not be asked.
        on_drained: called when nothing is left, and after each further look.
    """

    def __init__(
        self,
        session: Session,
        config: WorkerConfig,
        *,
        is_busy: Callable[[], bool],
        on_drained: Callable[[], None],
    ) -> None:
        super().__init__()
        self._session = session
        self._config = config
        self._is_busy = is_busy
        self._on_drained = on_drained

    def tick(self) -> timedelta:
        """Look once."""
        began = monotonic()
        if not self._is_busy() and not workers.unfinished(
            self._session.connection, channels=self._config.channels, excluded=self._config.excluded
        ):
            # The duty may have no time left for it, and a report counts flows that have ended.
            while flows.end(self._session.connection):
                pass
            self._on_drained()
        return max(EVERY, timedelta(seconds=COST * (monotonic() - began)))

    def finish(self) -> None:
        """Close the connection."""
        self._session.close()
