from datetime import timedelta

from pgqueue.engine import retention
from pgqueue.engine.values import Connection
from pgqueue.values.escaping import logger_of

EVERY = timedelta(hours=1)
DAY = timedelta(days=1)

logger = logger_of(__name__)


class Retention:
    """Move the time by which retention removes: with the clock, by a day an hour at most.

    Where the server's clock has jumped, everything would seem old at once.
    """

    name = "retention"

    def __init__(self) -> None:
        self.did = {"days_behind": 0}

    def may_run(self, answered_for: timedelta) -> bool:
        """Any process may."""
        return True

    def run(self, connection: Connection) -> timedelta:
        """Move it."""
        before, behind = retention.advance(connection)
        self.did = {"days_behind": behind // DAY}
        # Once for each day: a command may run each minute.
        if behind >= DAY and before // DAY > behind // DAY:
            logger.warning(
                "Retention goes by a day an hour until %s is caught up: no day between was seen. "
                "If the server's clock is wrong, set it right",
                behind,
            )
        return EVERY
