"""The worker's view of its driver: a row in the database."""

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
    """Checks once a second for the driver's request to stop.

    A driver that has been silent for a whole lease is gone, which counts as a request to stop.

    Args:
        id: the id of the driver's row.
        lease: the lease of messages.
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
        """Read the driver's row once."""
        # During an outage of the database the driver cannot write heartbeats, so a silence counts
        # only from this worker's first look at it.
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
        """Clear the request's signal from the file descriptor."""
        self._wakeup.wait(0)

    def say(self, message: bytes) -> bool:
        """Send nothing: the driver sees the worker's row, and the end of its job."""
        return False

    def close(self) -> None:
        """Close the file descriptor, after the worker has ended."""
        self._wakeup.close()

    def finish(self) -> None:
        """Close the connection."""
        self._session.close()
