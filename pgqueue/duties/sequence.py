from datetime import timedelta

from pgqueue.engine import log, readers, sequence
from pgqueue.engine.values import Connection

EVERY = timedelta(seconds=1)


class Sequence:
    """Give positions to events that were published, if no reader has done it."""

    name = "sequence"

    def __init__(self) -> None:
        self.did = {"events": 0}

    def may_run(self, answered_for: timedelta) -> bool:
        """Any process may."""
        return True

    def look(self, connection: Connection) -> bool:
        """Return whether an event waits for its position."""
        return log.has_anything_come(connection)

    def run(self, connection: Connection) -> timedelta:
        """Do a batch."""
        moved = sequence.sequence(connection) or 0
        if moved:
            # Readers that wait for the WAL feed, which may be gone.
            readers.tell(connection)
        self.did = {"events": moved}
        return timedelta() if moved == sequence.BATCH else EVERY
