"""Take messages away from processes that died, on a thread of its own.

So the main thread, which passes on signals and replaces processes, never waits for the database.

The thread also does the duty `rescue`. A process may do this duty only after the database has
answered it for a whole lease. A process that is recycled may live shorter than a lease.
"""

from __future__ import annotations

from datetime import timedelta
from time import monotonic

from pgqueue import signals
from pgqueue.claiming.registration import WorkerIds
from pgqueue.conf import settings
from pgqueue.database.connections import Session
from pgqueue.duties.inline import InlineDuties
from pgqueue.duties.rescue import Rescue
from pgqueue.engine import lease, workers
from pgqueue.threads.service import Service

AGAIN_AFTER = 1.0
"""Seconds: the server may execute the last statement of a process after it died."""
LONGEST_PAUSE = 10.0
UNTIL_WOKEN = timedelta(hours=1)


class Dead:
    """A dead process, and the time of the next rescue of its messages."""

    def __init__(self, ids: WorkerIds) -> None:
        self.ids = ids
        self.due_at = monotonic()
        self.pause = 0.0

    def wait(self) -> None:
        """Make it due again, after twice the last pause."""
        self.pause = min(max(2 * self.pause, AGAIN_AFTER), LONGEST_PAUSE)
        self.due_at = monotonic() + self.pause


class Rescuer(Service):
    """Rescues the messages of dead processes, and retries until it has succeeded.

    A rescue fails while the database is away. It also fails while a message is locked by its task's
    transaction, which the server ends only after its current statement.

    Args:
        alias: the queue's database.
        duties: whether it also rescues the messages of other workers whose leases have ended.
    """

    def __init__(self, alias: str, *, duties: bool = False) -> None:
        super().__init__()
        self._session = Session(alias, name="rescuer")
        self._dead: list[Dead] = []
        options = settings()
        self._duties = (
            InlineDuties(
                [Rescue(lease=options.lease, max_lost=options.max_lost)], lease=options.lease
            )
            if duties
            else None
        )

    def rescue_from(self, ids: WorkerIds) -> None:
        """Rescue the messages of a dead process: at once, after a second, and so on."""
        self._dead.append(Dead(ids))
        self.wake()

    def tick(self) -> timedelta:
        """Rescue the messages that are due; return the time until the next ones are due."""
        naps = [UNTIL_WOKEN.total_seconds()]
        for each in [each for each in self._dead if each.due_at <= monotonic()]:
            self.note_progress()
            self._rescue_from(each.ids)
            # The remaining messages are locked. Look for them until none is left: at the latest,
            # the duty `rescue` takes them when their leases have ended.
            if each.pause and not self._has_left_any(each.ids):
                self._dead.remove(each)
            else:
                each.wait()
        naps += [each.due_at - monotonic() for each in self._dead]
        if self._duties:
            self.note_progress()
            self._duties.look(self._session.connection)
            naps.append(self._duties.due_in)
        return timedelta(seconds=max(min(naps), 0))

    def _rescue_from(self, ids: WorkerIds) -> None:
        connection = self._session.connection
        workers.bury(connection, ids.first, ids.last)
        max_lost = settings().max_lost
        while rescued := lease.rescue_from(connection, ids.first, ids.last, max_lost=max_lost):
            for each in rescued:
                signals.send(signals.message_rescued, type(self), rescued=each)

    def _has_left_any(self, ids: WorkerIds) -> bool:
        return lease.are_any_of(self._session.connection, ids.first, ids.last)

    def finish(self) -> None:
        """Rescue the messages of the last dead processes, if possible; close the connection."""
        try:
            for each in self._dead:
                self._rescue_from(each.ids)
        except Exception as error:
            # The messages are rescued when their leases have ended.
            signals.send(signals.service_failed, type(self), service=self.name, error=error)
        finally:
            self._session.close()
