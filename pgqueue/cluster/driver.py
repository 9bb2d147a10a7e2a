"""The driver of a cluster, as its workers see it: a row in the database."""

from __future__ import annotations

import random
from datetime import timedelta
from time import monotonic
from uuid import UUID

from pgqueue.database.connections import Session
from pgqueue.engine import workers
from pgqueue.threads.service import Service
from pgqueue.threads.wakeup import Wakeup

LOOK = timedelta(seconds=1)


class Driver(Service):
    """Reads once a second whether this worker is to stop.

    A driver that has been silent for a whole lease is gone: that counts as a request to stop.

    Args:
        id: of the driver's row.
        lease: of messages here.
    """

    longest_backoff = timedelta(seconds=2)

    def __init__(self, alias: str, id: UUID, *, lease: timedelta) -> None:
        super().__init__()
        self._session = Session(alias, name="driver")
        self._id = id
        self._lease = lease
        self._silent_since: float | None = None
        self._wakeup = Wakeup()
        self.requests = 0
        self.is_gone = False

    def tick(self) -> timedelta:
        """Look once."""
        # While the database is away nobody can write that he is there.
        before, self._silent_since = self._silent_since, None
        row = workers.requests_of(self._session.connection, self._id)
        asked, silent_for = row or (0, self._lease)
        if silent_for >= self._lease:
            self._silent_since = before or monotonic()
            is_gone = monotonic() - self._silent_since >= self._lease.total_seconds()
            asked = max(asked, int(is_gone))
        if asked > self.requests:
            self.requests = asked
            self._wakeup.set()
        return LOOK * random.uniform(0.9, 1)  # noqa: S311

    def fileno(self) -> int:
        """Return the file descriptor that becomes readable with a request."""
        return self._wakeup.fileno()

    def listen(self) -> None:
        """Clear what made the file descriptor readable."""
        self._wakeup.wait(0)

    def say(self, message: bytes) -> bool:
        """Say nothing: the driver sees the worker's row, and how its job ends."""
        return False

    def close(self) -> None:
        """Hear no more requests, after the worker has ended."""
        self._wakeup.close()

    def finish(self) -> None:
        """Close the connection."""
        self._session.close()
