from datetime import timedelta
from time import monotonic

from pgqueue.engine import expire
from pgqueue.engine.values import Connection

EVERY = timedelta(seconds=1)
COST = 20
"""It reads all that is held, so that it pauses for so many times as long as it took."""


class Expire:
    """End messages and pauses of channels at their time, and forget dedupe keys after theirs."""

    name = "expire"

    def __init__(self) -> None:
        self.did = {"expired": 0, "forgotten": 0, "resumed": 0}

    def may_run(self, answered_for: timedelta) -> bool:
        """Any process may."""
        return True

    def run(self, connection: Connection) -> timedelta:
        """Do a batch of each."""
        began = monotonic()
        self.did = {
            "expired": expire.expire(connection),
            "forgotten": expire.forget(connection),
            "resumed": expire.resume(connection),
        }
        if max(self.did.values()) >= expire.BATCH:
            return timedelta()
        return max(EVERY, timedelta(seconds=COST * (monotonic() - began)))
