"""Take their messages away from processes that died, on a thread of its own.

So whoever passes on signals, and replaces processes, waits for no database.
"""

from __future__ import annotations

from datetime import timedelta
from time import monotonic

from pgqueue import signals
from pgqueue.claiming.presence import Family
from pgqueue.conf import settings
from pgqueue.connections import Session
from pgqueue.engine import lease, workers
from pgqueue.service import Service

AGAIN_AFTER = 1.0
"""Seconds: what a process had sent last may have been carried out after it died."""
UNTIL_WOKEN = timedelta(hours=1)


class Rescuer(Service):
    """Knows the dead; tries again where the database is away.

    Args:
        alias: the queue's database.
    """

    def __init__(self, alias: str) -> None:
        super().__init__()
        self._session = Session(alias, name="rescuer")
        self._orphaned: list[tuple[Family, float]] = []

    def rescue_from(self, family: Family) -> None:
        """Take everything away from a process that is dead, at once and again after a second."""
        now = monotonic()
        self._orphaned += [(family, now), (family, now + AGAIN_AFTER)]
        self.wake()

    def tick(self) -> timedelta:
        """Rescue what is due."""
        for each in [each for each in self._orphaned if each[1] <= monotonic()]:
            self.note_progress()
            self._rescue_from(each[0])
            self._orphaned.remove(each)
        due = [at - monotonic() for _, at in self._orphaned]
        return timedelta(seconds=max(min(due), 0)) if due else UNTIL_WOKEN

    def _rescue_from(self, family: Family) -> None:
        connection = self._session.connection
        workers.bury(connection, family.first, family.last)
        max_lost = settings().max_lost
        while rescued := lease.rescue_from(
            connection, family.first, family.last, max_lost=max_lost
        ):
            for each in rescued:
                signals.message_rescued.send_robust(type(self), rescued=each)

    def finish(self) -> None:
        """Rescue from those who died last, if that can be, and close the connection."""
        try:
            for family in {family for family, _ in self._orphaned}:
                self._rescue_from(family)
        except Exception as error:
            # The leases run out instead.
            signals.service_failed.send_robust(type(self), service=self.name, error=error)
        finally:
            self._session.close()
