"""The worker's row: that it lives, and whether it waits to be told of new messages."""

from __future__ import annotations

import threading
from datetime import timedelta
from uuid import UUID, uuid4

from pgqueue.connections import wait_at_most
from pgqueue.engine import workers
from pgqueue.engine.values import Connection
from pgqueue.engine.workers import Registration

LAST_BYTES = 0xFFFF_FFFF
PATIENCE = "2s"
"""With whoever has the worker's row locked: leases are renewed on the same connection."""


class Family:
    """The ids that one process claims under, one after the other: they differ in the last bytes.

    So whoever started the process knows them all, once it is dead.
    """

    def __init__(self) -> None:
        self.first = UUID(int=uuid4().int & ~LAST_BYTES)
        self.last = UUID(int=self.first.int | LAST_BYTES)
        self._count = 0

    def next(self) -> UUID:
        """Return an id that nobody had before."""
        self._count += 1
        return UUID(int=self.first.int + self._count)

    def before(self, id: UUID) -> tuple[UUID, UUID] | None:
        """Return what the ids lie between that came before this one; None: it was the first."""
        last = UUID(int=id.int - 1)
        return (self.first, last) if last != self.first else None


class Presence:
    """Shared by the fetcher, which finds the worker idle or busy, and the heartbeat.

    A pull consumer has one to itself.

    Each call takes its caller's connection; a lock keeps the two from contradicting.

    Args:
        notify_for: how long producers are to notify it, once it asked for that.
        family: where it takes its ids from.
    """

    def __init__(
        self,
        registration: Registration,
        *,
        notify_for: timedelta,
        family: Family | None = None,
    ) -> None:
        self._registration = registration
        self._notify_for = notify_for
        self._family = family or Family()
        self._lock = threading.Lock()
        self._id: UUID | None = None
        self._next_id: UUID | None = None
        self._wants_notice = False

    @property
    def wants_notice(self) -> bool:
        """Whether producers are to notify this worker."""
        return self._wants_notice

    @property
    def former(self) -> tuple[UUID, UUID] | None:
        """What the ids lie between that it had before; None while it has none."""
        return None if self._id is None else self._family.before(self._id)

    def register(self, connection: Connection) -> UUID:
        """Take a new id, as each claim connection must; return it."""
        with self._lock:
            # One that was tried in vain is tried again: its row may be there, though nobody was
            # told; nobody has claimed under it.
            self._next_id = self._next_id or self._family.next()
            workers.register(connection, self._next_id, self._registration, before=self._id)
            self._id, self._next_id = self._next_id, None
            self._wants_notice = False
            return self._id

    def beat(self, connection: Connection) -> None:
        """Say that the worker lives, unless somebody is just saying so.

        Leases are to be renewed on this connection: neither he, who may get no answer for long, nor
        whoever has the row locked is waited for.

        Raises:
            psycopg.errors.LockNotAvailable: somebody has it locked.
        """
        if self._lock.acquire(blocking=False):
            try:
                with connection.transaction():
                    wait_at_most(connection, PATIENCE)
                    self._beat(connection)
            finally:
                self._lock.release()

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
            for id in (self._id, self._next_id):
                if id is not None:
                    workers.retire(connection, id)
            self._id = self._next_id = None
