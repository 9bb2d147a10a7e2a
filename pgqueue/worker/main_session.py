"""The database session of a worker's main thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from time import monotonic

from pgqueue.database.connections import Session
from pgqueue.engine.values import Connection
from pgqueue.threads.service import LONGEST_STEP


class MainSession:
    """A session that the watchdog watches while it is in use, as it watches services."""

    name = "supervisor"

    def __init__(self, alias: str) -> None:
        self._session = Session(alias, name=self.name)
        self._back_by = inf

    @contextmanager
    def connected(self) -> Iterator[Connection]:
        """Yield the connection, for at most the duration of a service's longest step.

        Raises:
            psycopg.OperationalError: the database is unreachable.
        """
        self._back_by = monotonic() + LONGEST_STEP
        try:
            yield self._session.connection
        except Exception as error:
            self._session.close_after(error)
            raise
        finally:
            self._back_by = inf

    @property
    def is_stuck(self) -> bool:
        """Whether the connection has been in use for too long."""
        return monotonic() > self._back_by

    def cut(self) -> None:
        """Cut the connection while the main thread waits for an answer on it."""
        self._session.cut()

    def close(self) -> None:
        """Close the connection."""
        self._session.close()
