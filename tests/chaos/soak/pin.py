"""A transaction that only looks, and stays open: what dies meanwhile, no vacuum may remove."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import IsolationLevel

from tests.chaos.harness.server import Server
from tests.chaos.soak.record import Record
from tests.chaos.soak.verdict import is_pinned


class Pin:
    """Holds a snapshot while it is to be held; where the server has ended it, it takes another."""

    def __init__(self, server: Server, record: Record, *, lasts: float) -> None:
        self._server = server
        self._record = record
        self._lasts = lasts
        self._session: psycopg.Connection[Any] | None = None
        self._since = 0.0

    def keep(self) -> None:
        """Take the snapshot, or let go of it, as the time has come."""
        if self._session and not self._is_held():
            self.release()
        is_due = is_pinned(self._record.clock, self._lasts)
        if is_due and not self._session:
            self._take()
        elif not is_due:
            self.release()

    def release(self) -> None:
        """Let go of it."""
        if self._session:
            self._session.close()
            self._session = None
            lasted = round(self._record.clock - self._since, 2)
            self._record.write("pin", at=self._since, lasted=lasted)

    def _take(self) -> None:
        self._session = self._server.connect()
        self._session.autocommit = False
        self._session.isolation_level = IsolationLevel.REPEATABLE_READ
        # The first statement takes it, not BEGIN.
        self._session.execute("SELECT count(*) FROM pgqueue_worker")
        self._since = self._record.clock

    def _is_held(self) -> bool:
        try:
            self._session.execute("SELECT")  # type: ignore[union-attr]
        except psycopg.OperationalError:
            return False
        return True
