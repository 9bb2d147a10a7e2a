from datetime import timedelta
from time import monotonic

from pgqueue.engine import expire
from pgqueue.engine.values import Connection

EVERY = timedelta(seconds=1)
COST = 20
"""Times what it takes: it reads all that is held."""


class Expire:
    """End what was held or waited beyond its time, and forget dedupe keys after theirs."""

    name = "expire"

    def may_run(self, connected_for: timedelta) -> bool:
        """Anyone may."""
        return True

    def run(self, connection: Connection) -> timedelta:
        """Do a batch of each."""
        began = monotonic()
        most = max(expire.expire(connection), expire.forget(connection))
        if most >= expire.BATCH:
            return timedelta()
        return max(EVERY, timedelta(seconds=COST * (monotonic() - began)))
