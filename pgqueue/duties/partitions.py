from datetime import timedelta

from pgqueue.conf import MONTH
from pgqueue.engine import event_partitions, event_retention, exports, partitions
from pgqueue.engine.values import EVERYTHING, Connection
from pgqueue.options.retention import Retention

EVERY = timedelta(hours=1)
DID = ("made", "dropped", "event_partitions_made", "event_partitions_dropped")


MOST_OFTEN = timedelta(seconds=10)


class Partitions:
    """Make the partitions of history and of the log that are needed next, and drop those over.

    PostgreSQL detaches no partition within a transaction. After some were dropped it is due again
    at once: there may be more, and a year of them takes longer than a duty may be overdue. Where
    another session has been reading history or the log for long it fails, and is tried again after
    a minute. While many events come it is due more often, so that no sequencer has to make one.

    Args:
        exports_first: drop a day, and events, only after all targets of exports have them.
        event_retention: how long events are kept at least.
        event_max_age: after which they go even if a group has not passed them; None: never.
    """

    name = "partitions"
    soon = timedelta(seconds=5)

    def __init__(
        self,
        *,
        retention: Retention,
        exports_first: bool = False,
        event_retention: timedelta = MONTH,
        event_max_age: timedelta | None = None,
    ) -> None:
        self._retention = retention
        self._exports_first = exports_first
        self._event_retention = event_retention
        self._event_max_age = event_max_age
        self.did = dict.fromkeys(DID, 0)

    def may_run(self, answered_for: timedelta) -> bool:
        """Any process may."""
        return True

    def run(self, connection: Connection) -> timedelta | None:
        """Make the missing partitions, and drop the old ones."""
        days, events = len(partitions.ensure(connection)), event_partitions.ensure(connection)
        exported = exports.passed(connection) if self._exports_first else EVERYTHING
        try:
            dropped = partitions.drop(connection, self._retention, exported=exported)
        finally:
            # A long read of history must not keep events.
            gone = event_retention.drop(
                connection,
                keep=self._event_retention,
                max_age=self._event_max_age,
                exports_first=self._exports_first,
            )
        counts = (days, len(dropped or []), events, gone or 0)
        self.did = dict(zip(DID, counts, strict=True))
        if dropped is None or gone is None:
            return None
        if dropped or gone:
            return timedelta()
        return min(EVERY, max(MOST_OFTEN, event_partitions.lasting(connection) / 2))
