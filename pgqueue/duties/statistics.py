from datetime import timedelta

from pgqueue.conf import settings
from pgqueue.engine import run_statistics
from pgqueue.engine.values import Connection

EVERY = timedelta(seconds=10)


class Statistics:
    """Add up the counts of workers, and remove the ones whose retention has ended."""

    name = "statistics"

    def __init__(self) -> None:
        self.did = {"added": 0, "removed": 0}

    def may_run(self, answered_for: timedelta) -> bool:
        """Any process may."""
        return True

    def run(self, connection: Connection) -> timedelta:
        """Do a batch of each."""
        added = run_statistics.fold(connection, tenants=settings().tenant_metrics)
        removed = run_statistics.forget(connection)
        self.did = {"added": added, "removed": removed}
        return timedelta() if max(added, removed) >= run_statistics.LIMIT else EVERY
