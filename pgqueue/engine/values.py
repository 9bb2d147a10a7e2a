"""What the verbs take and give."""

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
    """A connection of psycopg's, or Django's: its queries are then seen as any of Django's."""

    def cursor(self) -> AbstractContextManager[Any]:
        """Return a cursor."""


class Tuples:
    """Anybody's psycopg connection as producers take it: rows are tuples."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def cursor(self) -> psycopg.Cursor[tuple[Any, ...]]:
        """Return a cursor."""
        return self._connection.cursor(row_factory=tuple_row)

    def atomic(self) -> AbstractContextManager[Any]:
        """Begin a transaction; a savepoint where its owner is to commit."""
        if not self._connection.autocommit:
            # Had it not begun, psycopg would take ours for the whole of it, and commit.
            self._connection.execute("SELECT 1")
        return self._connection.transaction()


class Lease(NamedTuple):
    """The fence: whoever holds an older one can change nothing."""

    id: int
    attempt: int
    worker_id: UUID


class Claim(NamedTuple):
    """A message that this worker leased. JSON columns are as they came, not parsed yet."""

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
    created_at: datetime
    claimed_at: datetime
    worker_id: UUID

    @property
    def lease(self) -> Lease:
        """The fence of this claim."""
        return Lease(self.id, self.attempt, self.worker_id)


def fence(leases: Iterable[Lease | Claim]) -> dict[str, str]:
    """Return the parameters that fence a statement on `leases`."""
    held = list(leases)
    return {
        "ids": array(lease.id for lease in held),
        "attempts": array(lease.attempt for lease in held),
        "workers": "{" + ",".join([_text(lease.worker_id) for lease in held]) + "}",
    }


# Nearly always one worker's.
_text = lru_cache(64)(str)


def array(values: Iterable[int | float]) -> str:
    """Return `values` as the text of a PostgreSQL array.

    For types whose text needs no quotes: it takes a fifth of the time that adapting a
    list item by item does, which is most of what a settle costs its client.
    """
    return "{" + ",".join(map(str, values)) + "}"


def microseconds(seconds: Iterable[float]) -> str:
    """Return durations, in whole microseconds, as the text of a PostgreSQL array.

    The text of an integer takes a quarter of the time that a float's does.
    """
    return array([int(each * 1e6) for each in seconds])
