"""The worker's row: its heartbeat, and its wish to be notified of new messages."""

from __future__ import annotations

import threading
from datetime import timedelta
from uuid import UUID, uuid4

from pgqueue.database.transactions import wait_at_most
from pgqueue.engine import workers
from pgqueue.engine.culprits import number_left_out
from pgqueue.engine.values import Connection
from pgqueue.engine.workers import WorkerInfo

LAST_BYTES = 0xFFFF_FFFF
LAST_DIGITS = 8
"""The digits of these bytes in the text of an id."""
PATIENCE = "2s"
"""The lock_timeout for the worker's row: leases are renewed on the same connection."""


class WorkerIds:
    """The ids that one process claims under, one after the other; they differ in the last bytes.

    So the supervisor knows all ids of a process that has died.

    Args:
        first: the start of their range; None: a random one.
    """

    def __init__(self, first: UUID | None = None) -> None:
        self.first = first or UUID(int=uuid4().int & ~LAST_BYTES)
        self.last = UUID(int=self.first.int | LAST_BYTES)
        self._count = 0

    def next(self) -> UUID:
        """Return a new id."""
        self._count += 1
        return UUID(int=self.first.int + self._count)

    def has(self, text: str) -> bool:
        """Return whether it has an id, as text, taken or not."""
        return text[:-LAST_DIGITS] == str(self.first)[:-LAST_DIGITS]

    def before(self, id: UUID) -> tuple[UUID, UUID] | None:
        """Return the range of the ids before this one; None: it was the first."""
        last = UUID(int=id.int - 1)
        return (self.first, last) if last != self.first else None


class Registration:
    """Keeps the row of one worker or consumer.

    A worker's claimer and its heartbeat share it: each call uses the caller's connection, and a
    lock keeps the two from contradicting each other.

    Args:
        notify_for: how long a wish to be notified lasts.
        ids: gives the ids; None: new ones.
    """

    def __init__(
        self,
        info: WorkerInfo,
        *,
        notify_for: timedelta,
        ids: WorkerIds | None = None,
    ) -> None:
        self._info = info
        self._notify_for = notify_for
        self._ids = ids or WorkerIds()
        self._lock = threading.Lock()
        self._id: UUID | None = None
        self._next_id: UUID | None = None
        self._wants_notice = False

    @property
    def wants_notice(self) -> bool:
        """Whether producers should notify this worker."""
        return self._wants_notice

    @property
    def former(self) -> tuple[UUID, UUID] | None:
        """The range of the worker's earlier ids; None: it had none."""
        return None if self._id is None else self._ids.before(self._id)

    def is_own(self, worker_id: str) -> bool:
        """Return whether a text is an id of this worker: its present id, or an earlier one."""
        return self._ids.has(worker_id)

    def register(self, connection: Connection) -> UUID:
        """Take a new id and return it. Each new claim connection must do this."""
        with self._lock:
            # An id whose registration failed is tried again: its row may exist, although the answer
            # was lost. No claim was made under it.
            self._next_id = self._next_id or self._ids.next()
            workers.register(connection, self._next_id, self._info, before=self._id)
            self._id, self._next_id = self._next_id, None
            self._wants_notice = False
            return self._id

    def beat(self, connection: Connection, *, busy_for: float = 0.0) -> bool:
        """Renew the heartbeat, unless another thread is doing so now; return whether it did.

        Leases are renewed on the same connection, so nothing may hold it up. It does not wait for
        the other thread, which may get no answer for long, nor long for a lock on the row.

        Args:
            busy_for: the seconds for which none of the worker's threads has been free.

        Raises:
            psycopg.errors.LockNotAvailable: another session has the row locked.
        """
        if self._lock.acquire(blocking=False):
            try:
                with connection.transaction():
                    wait_at_most(connection, PATIENCE)
                    self._beat(connection, busy_for=busy_for)
                return True
            finally:
                self._lock.release()
        return False

    def want_notice(self, connection: Connection, wanted: bool) -> None:
        """Store whether producers should notify this worker from now on."""
        with self._lock:
            self._wants_notice = wanted
            # The worker claims, so one of its threads is free.
            self._beat(connection, busy_for=0.0)

    def _beat(self, connection: Connection, *, busy_for: float) -> None:
        if self._id is None:
            return
        notify_for = self._notify_for if self._wants_notice else None
        if not workers.beat(
            connection,
            self._id,
            notify_for=notify_for,
            busy_for=busy_for,
            left_out=number_left_out(connection),
        ):
            workers.register(connection, self._id, self._info, before=None)
            workers.beat(connection, self._id, notify_for=notify_for)

    def retire(self, connection: Connection) -> None:
        """Delete the row."""
        with self._lock:
            for id in (self._id, self._next_id):
                if id is not None:
                    workers.retire(connection, id)
            self._id = self._next_id = None
