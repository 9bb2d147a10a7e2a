"""Write down how runs ended, in batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from datetime import timedelta
from itertools import islice
from typing import Any

from psycopg import DataError
from psycopg.errors import ProgramLimitExceeded, StatementTooComplex

from pgqueue import signals
from pgqueue.connections import Session
from pgqueue.engine import settle
from pgqueue.engine.settle import Deferral, Done, Failure
from pgqueue.engine.values import Connection
from pgqueue.outcomes import Died, HandedBack, Outcome, Retried, Succeeded
from pgqueue.service import NO_NAP, Service
from pgqueue.worker.errors import describe
from pgqueue.worker.held import Held, Holding

BATCH = 500
GATHER = timedelta(milliseconds=5)
"""How long a batch may gather while results keep coming."""
FOREVER = timedelta(hours=1)
# What ended so can't be stored: trying again would end the same way.
UNWRITABLE = (DataError, ProgramLimitExceeded, StatementTooComplex)

Ended = tuple[Held, Outcome]


class Settler(Service):
    """Takes outcomes from the threads, and writes them with one statement for each kind.

    Args:
        on_settled: called when fewer messages are held than before.
        on_delayed: called when a message was given a time to be due at.
    """

    def __init__(
        self,
        session: Session,
        holding: Holding,
        *,
        on_settled: Callable[[], None],
        on_delayed: Callable[[], None],
    ) -> None:
        super().__init__()
        self._session = session
        self._holding = holding
        self._on_settled = on_settled
        self._on_delayed = on_delayed
        self._ended: deque[Ended] = deque()
        self._is_idle = False

    def put(self, held: Held, outcome: Outcome) -> None:
        """Hand over a run that ended. Any thread may."""
        self._ended.append((held, outcome))
        if self._is_idle:
            self._is_idle = False
            self.wake()

    def tick(self) -> timedelta:
        """Write one batch; it stays queued until the database took it."""
        batch = list(islice(self._ended, BATCH))
        if not batch:
            self._is_idle = True
            return NO_NAP if self._ended else FOREVER
        try:
            self._write(batch)
        except UNWRITABLE:
            self._write_apart(batch)
        for _ in batch:
            self._ended.popleft()
        self._on_settled()
        return GATHER if 1 < len(self._ended) < BATCH else NO_NAP

    def _write(self, batch: list[Ended]) -> None:
        settled = write(self._session.connection, batch)
        for held, outcome in batch:
            self._holding.drop(held)
            if held.claim.id not in settled and isinstance(outcome, WRITTEN):
                signals.lease_lost.send_robust(type(self), claim=held.claim)
        if any(getattr(outcome, "delay", None) for _, outcome in batch):
            self._on_delayed()

    def _write_apart(self, batch: list[Ended]) -> None:
        """Write one by one, and bury what can't be written as it ended."""
        for held, outcome in batch:
            try:
                self._write([(held, outcome)])
            except UNWRITABLE as error:
                claim = held.claim
                entry = describe(error, attempt=claim.attempt, worker=str(claim.worker_id))
                self._write([(held, Died(error, entry))])

    def is_done(self) -> bool:
        """Whether everything handed over is written."""
        return not self._ended

    def finish(self) -> None:
        """Close the connection."""
        self._session.close()


def write(connection: Connection, ended: Collection[Ended]) -> set[int]:
    """Settle each run as it ended; return the ids that were still ours."""
    settled: set[int] = set()
    for kind, (verb, of) in VERBS.items():
        batch = [of(held, outcome) for held, outcome in ended if type(outcome) is kind]
        if batch:
            settled |= verb(connection, batch)
    return settled


def _done(held: Held, outcome: Succeeded) -> Done:
    return Done(
        held.claim,
        outcome.result,
        held.started - held.claimed,
        held.finished - held.claimed,
    )


def _failure(held: Held, outcome: Retried | Died) -> Failure:
    delay = outcome.delay if isinstance(outcome, Retried) else timedelta()
    return Failure(held.claim, outcome.entry, held.started - held.claimed, delay)


def _deferral(held: Held, outcome: HandedBack) -> Deferral:
    return Deferral(held.claim, outcome.delay)


VERBS: dict[type, tuple[Callable[[Connection, Any], set[int]], Callable[[Held, Any], Any]]] = {
    Succeeded: (settle.complete, _done),
    Retried: (settle.retry, _failure),
    Died: (settle.bury, _failure),
    HandedBack: (settle.defer, _deferral),
}
WRITTEN = tuple(VERBS)
