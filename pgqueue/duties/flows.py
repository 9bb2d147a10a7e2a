from datetime import timedelta
from time import monotonic

from pgqueue.engine import flows, waking
from pgqueue.engine.values import Connection
from pgqueue.options.retention import Retention

EVERY = timedelta(seconds=5)
COST = 20
"""It looks at all that waits, so that it pauses for so many times as long as it took."""
FORGET_FOR = 1.0
"""Seconds after which it leaves the rest of the old flows to its next run."""


class Flows:
    """Ring again for what was locked when its parents ended, note ends, and forget old flows.

    Args:
        retention: a flow is kept for as long as the messages that are kept for longest.
    """

    name = "flows"

    def __init__(self, *, retention: Retention) -> None:
        self._keep = max(retention.values())
        self.did = {"woken": 0, "ended": 0, "forgotten": 0}

    def may_run(self, answered_for: timedelta) -> bool:
        """Any process may."""
        return True

    def run(self, connection: Connection) -> timedelta:
        """Do a batch of each."""
        began = monotonic()
        self.did = {
            "woken": flows.ring_stale(connection) + waking.ring_missed(connection),
            "ended": flows.end(connection),
        }
        waking.forget_strays(connection)
        looked = monotonic()
        self.did["forgotten"] = self._forget(connection, until=looked + FORGET_FOR)
        return max(EVERY, timedelta(seconds=COST * (looked - began)))

    def _forget(self, connection: Connection, *, until: float) -> int:
        """Delete what is stored of old flows; return how much, flow by flow."""
        forgotten = 0
        while number := flows.forget(connection, keep=self._keep):
            forgotten += number
            if monotonic() > until:
                break
        return forgotten
