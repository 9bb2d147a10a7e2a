from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from pgqueue.database.sql_files import load
from pgqueue.engine.values import Cursors
from pgqueue.values.readable import reading

SQL = load(__name__)

LARGEST = 2**63 - 1


class Found(NamedTuple):
    """A message, live or ended; `state` is its state or its outcome. JSON columns are texts."""

    id: int
    state: str
    channel: str
    task: str
    payload: str
    metadata: str
    options: str | None
    priority: int
    key: str
    run_at: datetime
    attempt: int
    failures: int
    lost: int
    max_attempts: int
    errors: str
    created_at: datetime
    claimed_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    worker_id: UUID | None
    progress: str | None
    result: str | None
    ordered: bool = False
    flow_id: int | None = None


def id_of(given: str | int) -> int | None:
    """Return the id that a text or a number is; None: no row can have it."""
    text = str(given)
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(LARGEST))
    return int(text) if is_number and 0 < int(text) <= LARGEST else None


def find(connection: Cursors, id: int) -> Found | None:
    """Return the message with this id, live or from history; None: there is none."""
    return find_each(connection, [id]).get(id)


def find_each(connection: Cursors, ids: Iterable[int]) -> dict[int, Found]:
    """Return the messages with these ids that exist, by their ids."""
    possible = [id for id in ids if 0 < id <= LARGEST]
    with reading(connection), connection.cursor() as cursor:
        cursor.execute(SQL["find"], {"ids": possible})
        return {row[0]: Found(*row) for row in cursor.fetchall()}


def may_read(connection: Cursors) -> bool:
    """Return whether this session's role has the right to read messages."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["may_read"])
        return bool(cursor.fetchone()[0])
