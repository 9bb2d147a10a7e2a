"""Look which duties are due, and do them."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import psycopg

from pgqueue import signals
from pgqueue.connections import Session
from pgqueue.engine import duty as engine
from pgqueue.engine import promote
from pgqueue.service import Service
from pgqueue.worker.duties import Duty
from pgqueue.worker.duties.promote import Promote

LOOK_EVERY = timedelta(seconds=1)
SHORTEST_NAP = timedelta(milliseconds=5)
NAP_BESIDE_A_LOCK = timedelta(seconds=0.1)
"""When what is due is locked by somebody else."""
REST_AFTER_FAILURE = 60.0  # seconds

NOW = timedelta()


class Duties(Service):
    """Does what it finds due. A holder that dies loses its row's lock: the next one takes over.

    A duty that fails is left alone for a minute; the others are done all the same.
    """

    def __init__(self, session: Session, duties: Sequence[Duty]) -> None:
        super().__init__()
        self._session = session
        self._duties = {duty.name: duty for duty in duties}
        self._resting: dict[str, float] = {}
        self._connection: psycopg.Connection[Any] | None = None
        self._connected_at = 0.0
        self._is_early = False

    def look_early(self) -> None:
        """Promote now: something may be due before the promoter means to look."""
        self._is_early = True
        self.wake()

    def tick(self) -> timedelta:
        """Do each duty that is due; nap until the next one is."""
        connection = self._connect()
        early, self._is_early = self._is_early, False
        left = engine.due(connection, self._duties)
        if early or _is_due(promote.next_due(connection)):
            left[Promote.name] = NOW
        done = {
            name: again_in
            for name, due_in in left.items()
            if due_in <= NOW and (again_in := self._try(connection, name)) is not None
        }
        return self._nap(connection, left, done)

    def _try(self, connection: psycopg.Connection[Any], name: str) -> timedelta | None:
        """Do a duty; return when it is due again, or None where it was not for us to do."""
        now = time.monotonic()
        connected_for = timedelta(seconds=now - self._connected_at)
        if self._resting.get(name, 0) > now or not self._duties[name].may_run(connected_for):
            return None
        try:
            return self._do(connection, self._duties[name])
        except Exception as error:
            if connection.closed:
                raise
            self._resting[name] = now + REST_AFTER_FAILURE
            signals.service_failed.send_robust(type(self), service=f"duty {name}", error=error)
            return None

    def _do(self, connection: psycopg.Connection[Any], duty: Duty) -> timedelta | None:
        with connection.transaction():
            if not engine.take(connection, duty.name, early=duty.name == Promote.name):
                return None
            again_in = duty.run(connection)
            engine.done(connection, duty.name, again_in=again_in)
        return again_in

    def _nap(
        self,
        connection: psycopg.Connection[Any],
        left: dict[str, timedelta],
        done: dict[str, timedelta],
    ) -> timedelta:
        """Return how long nothing is due, as far as it can be seen."""
        naps = [LOOK_EVERY * random.uniform(0.8, 1)]  # noqa: S311
        for name, due_in in {**left, **done}.items():
            if name != Promote.name and (name in done or due_in > NOW):
                naps.append(due_in)
        # The table itself, and in a statement after the commit: who enqueued something while
        # we promoted still saw the old time in the duty's row, and may have told nobody.
        next_due = promote.next_due(connection)
        if next_due is not None:
            is_locked = next_due <= NOW and not (Promote.name in done and self._has_promoted())
            naps.append(NAP_BESIDE_A_LOCK if is_locked else next_due)
        return max(min(naps), SHORTEST_NAP)

    def _has_promoted(self) -> bool:
        duty = self._duties.get(Promote.name)
        return isinstance(duty, Promote) and duty.promoted > 0

    def _connect(self) -> psycopg.Connection[Any]:
        connection = self._session.connection
        if connection is not self._connection:
            self._connection = connection
            self._connected_at = time.monotonic()
        return connection

    def finish(self) -> None:
        """Close the connection."""
        self._session.close()


def _is_due(due_in: timedelta | None) -> bool:
    return due_in is not None and due_in <= NOW
