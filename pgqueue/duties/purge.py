from collections.abc import Sequence
from datetime import timedelta
from time import monotonic

from pgqueue.engine import dead, exports, retention
from pgqueue.engine.culprits import by_halves, tell
from pgqueue.engine.values import EVERYTHING, Connection
from pgqueue.options.retention import Retention

EVERY = timedelta(minutes=1)
COST = 20
"""It pauses for so many times as long as it took."""


class Purge:
    """Remove from history what is kept for less long than its day, and end old dead letters.

    Args:
        exports_first: history is removed only after all targets of exports have it.
    """

    name = "purge"

    def __init__(
        self, *, retention: Retention, dead_retention: timedelta, exports_first: bool = False
    ) -> None:
        self._retention = retention
        self._exports_first = exports_first
        self._dead_retention = dead_retention
        self.did = {"removed": 0, "discarded": 0, "stretches": 0}

    def may_run(self, answered_for: timedelta) -> bool:
        """Any process may."""
        return True

    def run(self, connection: Connection) -> timedelta:
        """Do a batch of each."""
        began = monotonic()
        discarded = dead.discard_old(connection, keep=self._dead_retention)
        exported = exports.passed(connection) if self._exports_first else EVERYTHING

        def some(windows: Sequence[retention.RetentionWindow]) -> list[retention.RetentionStep]:
            with connection.transaction():
                return [
                    retention.purge(connection, window, self._retention, exported=exported)
                    for window in windows
                ]

        windows = retention.windows(connection, self._retention)
        steps = [step for done in by_halves(some, windows, _note_kept) for step in done]
        unfinished = sum(not step.is_last for step in steps)
        self.did = {
            "removed": sum(step.removed for step in steps),
            "discarded": discarded,
            "stretches": unfinished,
        }
        if discarded >= dead.BATCH or unfinished:
            return timedelta()
        return max(EVERY, timedelta(seconds=COST * (monotonic() - began)))


def _note_kept(window: retention.RetentionWindow, error: Exception) -> None:
    tell("purge", row=f"pgqueue_purged {window.keep}", error=error)
