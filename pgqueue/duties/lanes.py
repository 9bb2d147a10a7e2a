from datetime import timedelta
from time import monotonic

from pgqueue.engine import route
from pgqueue.engine.values import Connection
from pgqueue.values.escaping import logger_of

EVERY = timedelta(seconds=5)
COST = 20
"""It reads all lanes, so that it pauses for so many times as long as it took."""

logger = logger_of(__name__)


class Lanes:
    """Remove lanes that have neither work nor a past, and mark those runnable that should be.

    There should be none of the second kind: they are logged as errors.
    """

    name = "lanes"

    def __init__(self) -> None:
        self.did = {"woken": 0}

    def may_run(self, answered_for: timedelta) -> bool:
        """Any process may."""
        return True

    def run(self, connection: Connection) -> timedelta:
        """Look through them."""
        began = monotonic()
        self.did = {"woken": (wrong := route.tidy(connection))}
        if wrong:
            logger.error("%d lanes had work and room, but were not marked runnable", wrong)
        return max(EVERY, timedelta(seconds=COST * (monotonic() - began)))
