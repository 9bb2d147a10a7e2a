"""The driver's row in the database, with its heartbeats and its request to stop."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

from pgqueue.database.connections import Session
from pgqueue.engine import workers
from pgqueue.engine.workers import WorkerInfo
from pgqueue.threads.service import Service


class Presence(Service):
    """Keeps the row of a driver, which its workers read.

    Args:
        id: the id of the row.
        every: the interval of heartbeats.
        on_told: called with the ids of the driver's workers after the row has the request to stop.
    """

    longest_backoff = timedelta(seconds=2)

    def __init__(
        self,
        alias: str,
        id: UUID,
        info: WorkerInfo,
        *,
        every: timedelta,
        on_told: Callable[[Collection[UUID]], None] = lambda ids: None,
    ) -> None:
        super().__init__()
        self._session = Session(alias, name="presence")
        self._id = id
        self._info = info
        self._every = every
        self._on_told = on_told
        self._asked = 0

    def ask_to_stop(self, times: int) -> None:
        """Ask all workers to stop: 1: gently, 2: at once. Any thread may call it."""
        if times > self._asked:
            self._asked = times
            self.try_again()

    def tick(self) -> timedelta:
        """Write a heartbeat, and the request to stop if there is one."""
        connection = self._session.connection
        asked = self._asked
        if not workers.beat(connection, self._id, notify_for=None):
            info = replace(self._info, info={**self._info.info, "stop": asked})
            workers.register(connection, self._id, info, before=None)
        elif asked:
            workers.ask_to_stop(connection, self._id, asked)
        if asked:
            self._on_told(workers.workers_of(connection, self._id))
        return self._every * random.uniform(0.9, 1)  # noqa: S311

    def finish(self) -> None:
        """Delete the row; if that fails, a duty deletes it later."""
        try:
            workers.retire(self._session.connection, self._id)
        finally:
            self._session.close()
