"""The values that the verbs take and return."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, TypeAlias
from uuid import UUID

import psycopg
from psycopg.rows import tuple_row

from pgqueue.values.number_checks import LONGEST

Connection: TypeAlias = "psycopg.Connection[Any]"


class Cursors(Protocol):
    """A psycopg connection, or Django's own, whose queries Django's tools see."""

    def cursor(self) -> AbstractContextManager[Any]:
        """Return a cursor."""


class Tuples:
    """A producer's own psycopg connection with any row factory: its rows are tuples here."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def cursor(self) -> psycopg.Cursor[tuple[Any, ...]]:
        """Return a cursor."""
        return self._connection.cursor(row_factory=tuple_row)

    def atomic(self) -> AbstractContextManager[Any]:
        """Begin a transaction; a savepoint where the connection's owner commits."""
        if not self._connection.autocommit:
            # Begin the caller's transaction: otherwise psycopg would begin one here, and commit it.
            self._connection.execute("SELECT 1")
        return self._connection.transaction()


class Position(NamedTuple):
    """A place in history, whose rows are read in the order of their transactions' numbers."""

    txid: int
    id: int


EVERYTHING = Position(2**63 - 1, 2**63 - 1)
"""The position after all rows of history."""


class Lease(NamedTuple):
    """The fence of a claim: a worker with an older lease of the message changes no row."""

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
    """The results that its arguments took from other messages of its flow, by these messages' ids:
    a `Returned` each, once the arguments were read."""

    @property
    def lease(self) -> Lease:
        """The fence of this claim."""
        return Lease(self.id, self.attempt, self.worker_id)


def events_of(claim: Claim) -> list[dict[str, Any]]:
    """Return the events of a subscription's message, as parsed JSON."""
    payload = json.loads(claim.payload or b"null")
    if isinstance(payload, dict) and "args" in payload:
        payload = next(iter(payload["args"]), None)
    return [
        each
        for each in (payload if isinstance(payload, list) else [payload])
        if isinstance(each, dict)
    ]


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


def array(values: Iterable[int | float | str]) -> str:
    """Return `values` as the text of a PostgreSQL array.

    It is for types whose text needs no quotes. It takes a fifth of the time of psycopg's list
    adaptation, which would be most of the client's time for a settle.
    """
    return "{" + ",".join(map(str, values)) + "}"


def microseconds(seconds: Iterable[float]) -> str:
    """Return durations, in whole microseconds, as the text of a PostgreSQL array.

    Formatting an integer takes a quarter of the time of formatting a float.
    """
    return array([int(each * 1e6) for each in seconds])


def exact(span: timedelta | None) -> str | None:
    """Return a duration as the text of an interval without days.

    psycopg sends 24 hours as a day. PostgreSQL adds a day in the session's time zone, where a day
    with a clock change has 23 or 25 hours. An interval may have more days than seconds: a very long
    one keeps its days.
    """
    if span is None:
        return None
    if abs(span) > LONGEST:
        return f"{span.days} days +{span.seconds} seconds"
    return f"{span.total_seconds():.6f} seconds"


def exact_array(spans: Iterable[timedelta | None]) -> str:
    """Return durations as the text of an array of intervals without days."""
    return array(exact(each) or "NULL" for each in spans)
