"""The number of wanted workers, if idle workers end."""

from __future__ import annotations

from datetime import timedelta
from math import ceil
from uuid import UUID

from pgqueue.database.connections import Session
from pgqueue.engine import workers
from pgqueue.threads.service import Service
from pgqueue.worker.config import WorkerConfig

LOOK = timedelta(seconds=1)


class Backlog(Service):
    """Counts once a second the messages that wait for a worker.

    Args:
        driver: the id of the row of the workers' driver.
        most: the maximum of workers.
    """

    def __init__(self, config: WorkerConfig, driver: UUID, *, most: int) -> None:
        super().__init__()
        self._session = Session(config.database, name="backlog")
        self._config = config
        self._driver = driver
        self._most = most
        self._waiting = 0
        self._serving = 0

    def tick(self) -> timedelta:
        """Count the workers and the waiting messages once."""
        connection = self._session.connection
        self._serving = len(workers.workers_of(connection, self._driver))
        self._waiting = workers.waiting(
            connection,
            channels=self._config.channels,
            excluded=self._config.excluded,
            limit=self._most * self._config.slots,
        )
        return LOOK

    def wanted(self, *, filled: int, empty: int) -> int:
        """Return the number of workers to start. Workers that are starting count as started.

        Args:
            filled: the number of workers that were started and have not ended.
            empty: the number of workers up to the maximum.
        """
        starting = max(filled - self._serving, 0)
        return min(max(ceil(self._waiting / self._config.slots) - starting, 0), empty)

    def finish(self) -> None:
        """Close the connection."""
        self._session.close()
