"""Detect a drained queue, on a thread of its own: the main thread waits for signals."""

from __future__ import annotations

from datetime import timedelta
from time import monotonic
from typing import Any

from pgqueue.database.connections import Session
from pgqueue.engine import claim, claim_governed, flows, workers
from pgqueue.engine.culprits import left_out
from pgqueue.engine.values import Connection
from pgqueue.engine.workers import NOTHING, LeftOut
from pgqueue.threads.service import Service
from pgqueue.values.escaping import logger_of
from pgqueue.worker.config import WorkerConfig
from pgqueue.worker.pipeline import Pipeline
from pgqueue.worker.shutdown import Shutdown

logger = logger_of(__name__)

SHORTEST, LONGEST = timedelta(seconds=0.05), timedelta(seconds=0.5)
"""The naps between two looks: each is twice as long as the one before, while nothing runs."""
COST = 10
"""The nap after a look is at least this multiple of the look's duration."""


class Drain(Service):
    """Checks whether any message is ready, running or waiting for a retry.

    It does not wait for a message that this process leaves out because claiming it fails.

    Args:
        shutdown: told when no message is left, and after each further look.
        pipeline: while it is busy, no query is needed.
    """

    def __init__(
        self,
        session: Session,
        config: WorkerConfig,
        shutdown: Shutdown,
        pipeline: Pipeline | None,
    ) -> None:
        super().__init__()
        self._session = session
        self._config = config
        self._shutdown = shutdown
        self._pipeline = pipeline
        self._nap = SHORTEST
        self.leaves_something = False
        """Whether rows are left that make statements fail."""

    def tick(self) -> timedelta:
        """Look once."""
        began = monotonic()
        if self._pipeline and self._pipeline.is_busy:
            self._nap = SHORTEST
        else:
            self._nap = min(2 * self._nap, LONGEST)
            # In this order: if a row is left out only after this read, the drain looks once more.
            aside = rows_left_out(self._session.connection)
            if not self._is_unfinished(aside):
                self._tell(aside)
                # The duty may have no time left to end flows, and a report counts ended flows.
                while flows.end(self._session.connection):
                    pass
                self._shutdown.end_drained()
        return max(self._nap, timedelta(seconds=COST * (monotonic() - began)))

    def _is_unfinished(self, but_for: LeftOut) -> bool:
        return workers.unfinished(
            self._session.connection,
            channels=self._config.channels,
            excluded=self._config.excluded,
            but_for=but_for,
        )

    def _tell(self, aside: LeftOut) -> None:
        """Log once that rows are left which make statements fail."""
        if not any(aside) or self.leaves_something or not self._is_unfinished(NOTHING):
            return
        self.leaves_something = True
        logger.error("The queue is drained except rows that make statements fail: %s", aside)

    def finish(self) -> None:
        """Close the connection."""
        self._session.close()


def rows_left_out(connection: Connection) -> LeftOut:
    """Return the rows that this process leaves out when it claims, routes and promotes."""

    def of(table: str, *services: str) -> list[Any]:
        return [row for what in services for row in left_out(connection, what, table)]

    return LeftOut(
        messages=of(claim.MESSAGES, claim.CLAIM, "promote"),
        lanes=of(claim_governed.LANES, claim.CLAIM, "route"),
        gates=of(claim_governed.GATES, claim.CLAIM),
        bells=of("pgqueue_bell", "route"),
    )
