"""Store events in the inbox of the log, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from pgqueue.database.sql_files import load
from pgqueue.engine import copying
from pgqueue.engine.log import StoredEvent
from pgqueue.engine.values import Cursors
from pgqueue.values.readable import reading

SQL = load(__name__)


class NewEvent(NamedTuple):
    """A new event. The payload and the metadata are JSON texts."""

    topic: str
    key: str
    payload: str | None
    metadata: str


def publish(connection: Cursors, event: NewEvent) -> None:
    """Store one event; idle readers are notified when the transaction commits."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["publish"], event._asdict())


def publish_many(connection: Cursors, events: Iterable[NewEvent]) -> None:
    """Store events in their order by COPY, or one by one for a role without the right to COPY.

    Args:
        connection: in a transaction.
        events: an iterable that does not use the same connection.
    """
    with connection.cursor() as cursor:
        cursor.execute(SQL["begun"])
        may_copy, _ = cursor.fetchone()
        if may_copy:
            copying.send(cursor, SQL["copy"], map(_line, events))
        elif columns := list(zip(*events, strict=True)):
            names = ("topics", "keys", "payloads", "metadata")
            cursor.execute(SQL["publish_each"], dict(zip(names, map(list, columns), strict=True)))


def tell(connection: Cursors) -> None:
    """Notify idle readers when the transaction commits."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["tell"])


def without_position(
    connection: Cursors, *, condition: str, parameters: Mapping[str, Any]
) -> list[StoredEvent]:
    """Return the events that have no position yet, in their order, with 0 as their position.

    Args:
        condition: SQL over an event `e`, without values of users.
        parameters: the parameters of the condition.
    """
    with reading(connection), connection.cursor() as cursor:
        cursor.execute(SQL["without_position"].format(condition=condition), parameters)
        return [StoredEvent(*row) for row in cursor.fetchall()]


# Events that are published together have few topics.
_escaped_topic = lru_cache(1024)(copying.escaped)


def _line(event: NewEvent) -> str:
    topic, key, payload, metadata = event
    text = "\\N" if payload is None else copying.escaped(payload)
    own = copying.escaped(key) if key else ""
    rest = metadata if metadata == "{}" else copying.escaped(metadata)
    return f"{_escaped_topic(topic)}\t{own}\t{text}\t{rest}\n"
