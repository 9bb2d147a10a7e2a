"""Read the newest events of a key, backwards."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from pgqueue.database.sql_files import load
from pgqueue.engine.event_partitions import SIZE
from pgqueue.engine.log import StoredEvent
from pgqueue.engine.values import Cursors
from pgqueue.values.readable import reading

SQL = load(__name__)


class LogPartition(NamedTuple):
    """A partition of the log, and the position that it begins with."""

    oid: int
    start: int


def partitions(connection: Cursors) -> list[LogPartition]:
    """Return the partitions of the log, the newest first."""
    with reading(connection), connection.cursor() as cursor:
        cursor.execute(SQL["partitions"], {"size": SIZE})
        return [LogPartition(*row) for row in cursor.fetchall()]


def read(
    connection: Cursors, part: LogPartition, *, topics: Sequence[str], key: str, limit: int
) -> list[StoredEvent]:
    """Return the newest events of some topics and a key in a partition, the newest first."""
    with reading(connection), connection.cursor() as cursor:
        cursor.execute(
            SQL["read"], {"part": part.oid, "topics": list(topics), "key": key, "limit": limit}
        )
        return [StoredEvent(*row) for row in cursor.fetchall()]


def time_after(connection: Cursors, position: int) -> datetime | None:
    """Return the time of the first event from a position on; None: there is none."""
    with reading(connection), connection.cursor() as cursor:
        cursor.execute(SQL["time_after"], {"position": position})
        row = cursor.fetchone()
        return row[0] if row else None
