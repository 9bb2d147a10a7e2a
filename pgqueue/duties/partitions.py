from datetime import timedelta

from pgqueue.engine import exports, partitions
from pgqueue.engine.values import EVERYTHING, Connection
from pgqueue.retention import Retention

EVERY = timedelta(hours=1)


class Partitions:
    """Make the partitions of the next days of history, and drop those of days that are over.

    PostgreSQL detaches no partition within a transaction. After some were dropped it is due again
    at once: there may be more, and a year of them takes longer than a duty may be overdue. Where
    another session has been reading history for long it fails, and is tried again after a minute.

    Args:
        exports_first: a day is dropped only after all targets of exports have it.
    """

    name = "partitions"
    soon = timedelta(seconds=5)

    def __init__(self, *, retention: Retention, exports_first: bool = False) -> None:
        self._retention = retention
        self._exports_first = exports_first
        self.did = {"made": 0, "dropped": 0}

    def may_run(self, answered_for: timedelta) -> bool:
        """Any process may."""
        return True

    def run(self, connection: Connection) -> timedelta | None:
        """Make what is missing, drop what is over."""
        made = len(partitions.ensure(connection))
        exported = exports.passed(connection) if self._exports_first else EVERYTHING
        dropped = partitions.drop(connection, self._retention, exported=exported)
        self.did = {"made": made, "dropped": len(dropped or [])}
        if dropped is None:
            return None
        return timedelta() if dropped else EVERY
