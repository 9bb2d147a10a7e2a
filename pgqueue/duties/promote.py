from datetime import timedelta

from pgqueue.engine import promote
from pgqueue.engine.values import Connection

LATEST = timedelta(seconds=1)
SOONEST = timedelta(milliseconds=5)


class Promote:
    """Make delayed messages ready on time.

    It is due when the next message is, and at least every second: so an enqueue needs to
    notify only of what is due before that.
    """

    name = "promote"

    def __init__(self) -> None:
        self.did = {"promoted": 0}

    def may_run(self, answered_for: timedelta) -> bool:
        """Any process may."""
        return True

    def run(self, connection: Connection) -> timedelta:
        """Promote what is due."""
        self.did = {"promoted": promote.promote(connection)}
        due = promote.next_due(connection)
        return LATEST if due is None else min(max(due, SOONEST), LATEST)
