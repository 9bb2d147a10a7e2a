from datetime import timedelta
from time import monotonic

from pgqueue import signals
from pgqueue.engine import lease, workers
from pgqueue.engine.values import Connection

EVERY = timedelta(seconds=1)
COST = 10
"""It pauses for so many times as long as it took: dead rows that can't be vacuumed make it slow."""


class Rescue:
    """Take messages away from workers that were silent for a whole lease."""

    name = "rescue"

    def __init__(self, *, lease: timedelta, max_lost: int) -> None:
        self._lease = lease
        self._max_lost = max_lost
        self.did = {"rescued": 0}

    def may_run(self, answered_for: timedelta) -> bool:
        """Only after a lease of answers: after an outage all are over, and their workers alive."""
        return answered_for >= self._lease

    def run(self, connection: Connection) -> timedelta:
        """Rescue a batch."""
        began = monotonic()
        rescued = lease.rescue(connection, max_lost=self._max_lost)
        workers.correct(connection)
        self.did = {"rescued": len(rescued)}
        for each in rescued:
            signals.send(signals.message_rescued, type(self), rescued=each)
        if len(rescued) >= lease.BATCH:
            return timedelta()
        return max(EVERY, timedelta(seconds=COST * (monotonic() - began)))
