"""Events of the log, made by hand."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pgqueue.engine import sequence

if TYPE_CHECKING:
    from tests.factories import Connection

LOCK = "SELECT FROM pgqueue_lock WHERE name = 'sequence' FOR UPDATE"
"""What a transaction has while it gives positions."""


def publish(
    connection: Connection,
    count: int = 1,
    *,
    topic: str = "order.paid",
    key: str = "",
    payload: Any = None,
    at: datetime | None = None,
) -> None:
    """Publish events; they have no positions yet."""
    given = {"topic": topic, "key": key, "payload": json.dumps(payload), "at": at, "count": count}
    connection.execute(
        "INSERT INTO pgqueue_event_inbox (topic, key, payload, created_at) "
        "SELECT %(topic)s, %(key)s, coalesce(nullif(%(payload)s::jsonb, 'null'), to_jsonb(n)), "
        "coalesce(%(at)s, statement_timestamp()) FROM generate_series(1, %(count)s) AS n",
        given,
    )


def store(connection: Connection, count: int = 1, **given: Any) -> None:
    """Publish events, and give them positions."""
    publish(connection, count, **given)
    while sequence.sequence(connection):
        pass


def raise_floor(connection: Connection, position: int) -> None:
    """Let retention say that it has removed events."""
    connection.execute(
        "INSERT INTO pgqueue_log_floor (log, position) VALUES ('event', %s) "
        "ON CONFLICT (log) DO UPDATE SET position = excluded.position",
        [position],
    )


def positions(connection: Connection) -> list[int]:
    """Return all positions of the log."""
    rows = connection.execute("SELECT position FROM pgqueue_event ORDER BY position").fetchall()
    return [position for (position,) in rows]
