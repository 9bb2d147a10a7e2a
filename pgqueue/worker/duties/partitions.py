from datetime import timedelta

from pgqueue.engine import partitions
from pgqueue.engine.values import Connection

EVERY = timedelta(hours=1)


class Partitions:
    """Make the next days of history before they are needed."""

    name = "partitions"

    def may_run(self, connected_for: timedelta) -> bool:
        """Anyone may."""
        return True

    def run(self, connection: Connection) -> timedelta:
        """Make what is missing."""
        partitions.ensure(connection)
        return EVERY
