from __future__ import annotations

from datetime import timedelta
from time import monotonic

from pgqueue import signals
from pgqueue.connections import Contact, in_short
from pgqueue.engine import expire, promote
from pgqueue.engine import lease as leases
from pgqueue.engine.values import Connection

LATEST = 1.0  # seconds
SOONEST = 0.005
BESIDE_A_LOCK = 0.1
"""When what is due is locked by somebody else."""


class Upkeep:
    """What workers do as their duties, for where there are none.

    Makes ready what is due, ends what has expired, and takes messages away from whoever was
    silent for a lease.

    Args:
        lease: only who had answers for so long may rescue: after an outage of the database every
            lease is over, and everyone alive.
        max_lost: leases that may run out before a message is dead.
    """

    def __init__(self, *, lease: timedelta, max_lost: int) -> None:
        self._lease = lease
        self._max_lost = max_lost
        self._contact = Contact(lease=lease)
        self._look_at = 0.0

    @property
    def due_in(self) -> float:
        """Seconds until it is worth looking again."""
        return self._look_at - monotonic()

    def look(self, connection: Connection) -> None:
        """Do what is due, unless that was looked at just now."""
        now = monotonic()
        if now < self._look_at:
            return
        promoted = promote.promote(connection)
        expire.expire(connection)
        expire.forget(connection)
        for rescued in self._rescue(connection):
            signals.message_rescued.send_robust(type(self), rescued=rescued)
        self._look_at = now + self._pause(promote.next_due(connection), promoted)

    def _rescue(self, connection: Connection) -> list[leases.Rescued]:
        with in_short(connection):
            # Asked now: what came before may have waited for the database to come back.
            if self._contact.lasting(connection) < self._lease:
                return []
            return leases.rescue(connection, max_lost=self._max_lost)

    def _pause(self, due_in: timedelta | None, promoted: int) -> float:
        if due_in is None:
            return LATEST
        if due_in <= timedelta() and not promoted:
            return BESIDE_A_LOCK
        return min(max(due_in.total_seconds(), SOONEST), LATEST)
