"""Look which duties are due, and do them."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import psycopg

from pgqueue.connections import Session
from pgqueue.engine import duty as engine
from pgqueue.service import Service
from pgqueue.worker.duties import Duty
from pgqueue.worker.duties.promote import Promote

LOOK_EVERY = timedelta(seconds=1)


class Duties(Service):
    """Does what it finds due. A holder that dies loses its row's lock: the next one takes over."""

    def __init__(self, session: Session, duties: Sequence[Duty]) -> None:
        super().__init__()
        self._session = session
        self._duties = {duty.name: duty for duty in duties}
        self._connection: psycopg.Connection[Any] | None = None
        self._connected_at = 0.0
        self._is_early = False

    def look_early(self) -> None:
        """Promote now: something may be due before the promoter means to look."""
        self._is_early = True
        self.wake()

    def tick(self) -> timedelta:
        """Do each duty that is due."""
        connection = self._connect()
        connected_for = timedelta(seconds=time.monotonic() - self._connected_at)
        early, self._is_early = self._is_early, False
        for name, due_in in engine.due(connection, self._duties).items():
            duty = self._duties[name]
            is_early = early and name == Promote.name
            if (due_in <= timedelta() or is_early) and duty.may_run(connected_for):
                self._do(connection, duty, early=is_early)
        return self._until_promotion(connection)

    def _do(self, connection: psycopg.Connection[Any], duty: Duty, *, early: bool) -> None:
        with connection.transaction():
            if engine.take(connection, duty.name, early=early):
                engine.done(connection, duty.name, again_in=duty.run(connection))

    def _until_promotion(self, connection: psycopg.Connection[Any]) -> timedelta:
        """Return until when to nap: to the moment when a delayed message is due."""
        due_in = engine.due(connection, [Promote.name])[Promote.name]
        jittered = LOOK_EVERY * random.uniform(0.8, 1)  # noqa: S311
        return min(max(due_in, timedelta(milliseconds=1)), jittered)

    def _connect(self) -> psycopg.Connection[Any]:
        connection = self._session.connection
        if connection is not self._connection:
            self._connection = connection
            self._connected_at = time.monotonic()
        return connection

    def finish(self) -> None:
        """Close the connection."""
        self._session.close()
