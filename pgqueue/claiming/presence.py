"""The worker's row: that it lives, and whether it waits to be told of new messages."""

from __future__ import annotations

import threading
from datetime import timedelta
from uuid import UUID, uuid4

from pgqueue.engine import workers
from pgqueue.engine.values import Connection
from pgqueue.engine.workers import Registration


class Presence:
    """Shared by the fetcher, which finds the worker idle or busy, and the heartbeat.

    A pull consumer has one to itself.

    Each call takes its caller's connection; a lock keeps the two from contradicting.
    """

    def __init__(self, registration: Registration, *, notify_for: timedelta) -> None:
        self._registration = registration
        self._notify_for = notify_for
        self._lock = threading.Lock()
        self._id: UUID | None = None
        self._wants_notice = False

    @property
    def wants_notice(self) -> bool:
        """Whether producers are to notify this worker."""
        return self._wants_notice

    def register(self, connection: Connection) -> UUID:
        """Take a new id, as each claim connection must; return it."""
        with self._lock:
            before, self._id = self._id, uuid4()
            workers.register(connection, self._id, self._registration, before=before)
            self._wants_notice = False
            return self._id

    def beat(self, connection: Connection) -> None:
        """Say that the worker lives."""
        with self._lock:
            self._beat(connection)

    def want_notice(self, connection: Connection, wanted: bool) -> None:
        """Say whether producers are to notify it from now on."""
        with self._lock:
            self._wants_notice = wanted
            self._beat(connection)

    def _beat(self, connection: Connection) -> None:
        if self._id is None:
            return
        notify_for = self._notify_for if self._wants_notice else None
        if not workers.beat(connection, self._id, notify_for=notify_for):
            workers.register(connection, self._id, self._registration, before=None)
            workers.beat(connection, self._id, notify_for=notify_for)

    def retire(self, connection: Connection) -> None:
        """Remove the row."""
        with self._lock:
            if self._id is not None:
                workers.retire(connection, self._id)
                self._id = None
