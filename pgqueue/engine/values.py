"""The values that the verbs take and return."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, TypeAlias
from uuid import UUID

import psycopg
from psycopg.rows import tuple_row

Connection: TypeAlias = "psycopg.Connection[Any]"


class Cursors(Protocol):
    """A psycopg connection, or Django's: Django's tools then see its queries as any others."""

    def cursor(self) -> AbstractContextManager[Any]:
        """Return a cursor."""


class Tuples:
    """A producer's own psycopg connection, whatever its row factory: rows are tuples here."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def cursor(self) -> psycopg.Cursor[tuple[Any, ...]]:
        """Return a cursor."""
        return self._connection.cursor(row_factory=tuple_row)

    def atomic(self) -> AbstractContextManager[Any]:
        """Begin a transaction; a savepoint where the connection's owner commits."""
        if not self._connection.autocommit:
            # If no transaction had begun, psycopg would begin one here and commit it at our end.
            self._connection.execute("SELECT 1")
        return self._connection.transaction()


class Position(NamedTuple):
    """A place in history: its rows are followed in the order of their transactions' numbers."""

    txid: int
    id: int


EVERYTHING = Position(2**63 - 1, 2**63 - 1)
"""After all rows of history."""


class Lease(NamedTuple):
    """The fence of a claim: a worker with an older lease of the message can change nothing."""

    id: int
    attempt: int
    worker_id: UUID


class Claim(NamedTuple):
    """A message that this worker leased. JSON columns are raw bytes, not parsed yet."""

    id: int
    channel: str
    key: str
    task: str
    payload: bytes | None
    body: bytes | None
    metadata: bytes
    options: bytes | None
    priority: int
    run_at: datetime
    attempt: int
    failures: int
    lost: int
    max_attempts: int
    progress: bytes | None
    ordered: bool
    flow_id: int | None
    created_at: datetime
    claimed_at: datetime
    worker_id: UUID
    taken: tuple[tuple[int, Any], ...] = ()
    """What its arguments took of other messages of its flow, by these messages' ids: a `Returned`
    each, once the arguments were read."""

    @property
    def lease(self) -> Lease:
        """The fence of this claim."""
        return Lease(self.id, self.attempt, self.worker_id)


def fence(leases: Iterable[Lease | Claim]) -> dict[str, str]:
    """Return the parameters that fence a statement on `leases`."""
    each = list(leases)
    return {
        "ids": array(lease.id for lease in each),
        "attempts": array(lease.attempt for lease in each),
        "workers": "{" + ",".join([_text(lease.worker_id) for lease in each]) + "}",
    }


# Cached: nearly always it is the id of one worker.
_text = lru_cache(64)(str)


def array(values: Iterable[int | float]) -> str:
    """Return `values` as the text of a PostgreSQL array.

    For types whose text needs no quotes. This takes a fifth of the time of psycopg's list
    adaptation, which would be most of the client's time for a settle.
    """
    return "{" + ",".join(map(str, values)) + "}"


def microseconds(seconds: Iterable[float]) -> str:
    """Return durations, in whole microseconds, as the text of a PostgreSQL array.

    Formatting an integer takes a quarter of the time of formatting a float.
    """
    return array([int(each * 1e6) for each in seconds])
