from datetime import timedelta

from pgqueue.engine import partitions
from pgqueue.engine.values import Connection
from pgqueue.retention import Retention

EVERY = timedelta(hours=1)


class Partitions:
    """Make the partitions of the next days of history, and drop those of days that are over.

    PostgreSQL detaches no partition within a transaction. After some were dropped it is due again
    at once: there may be more, and a year of them takes longer than a duty may be overdue. Where
    another session has been reading history for long it fails, and is tried again after a minute.
    """

    name = "partitions"
    soon = timedelta(seconds=5)

    def __init__(self, *, retention: Retention) -> None:
        self._retention = retention
        self.did = {"made": 0, "dropped": 0}

    def may_run(self, answered_for: timedelta) -> bool:
        """Any process may."""
        return True

    def run(self, connection: Connection) -> timedelta | None:
        """Make what is missing, drop what is over."""
        made = len(partitions.ensure(connection))
        dropped = partitions.drop(connection, self._retention)
        self.did = {"made": made, "dropped": len(dropped or [])}
        if dropped is None:
            return None
        return timedelta() if dropped else EVERY
