from datetime import timedelta

from pgqueue.engine import wait, workers
from pgqueue.engine.values import Connection

EVERY = timedelta(hours=1)
SILENT_FOR = timedelta(days=1)


class Forget:
    """Remove rows that dead processes left: of workers after a day, and of waits that are over."""

    name = "forget"

    def __init__(self) -> None:
        self.did = {"workers": 0, "waiters": 0}

    def may_run(self, answered_for: timedelta) -> bool:
        """Any process may."""
        return True

    def run(self, connection: Connection) -> timedelta:
        """Remove them."""
        self.did = {
            "workers": workers.forget(connection, silent_for=SILENT_FOR),
            "waiters": wait.forget(connection),
        }
        return EVERY
