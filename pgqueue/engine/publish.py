"""Store events in the inbox of the log, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from functools import lru_cache
from typing import Any, NamedTuple

from pgqueue.database.sql_files import load
from pgqueue.engine import copying
from pgqueue.engine.culprits import delete
from pgqueue.engine.log import StoredEvent
from pgqueue.engine.values import Connection, Cursors
from pgqueue.values.readable import reading

SQL = load(__name__)


class NewEvent(NamedTuple):
    """A new event. The payload and the metadata are JSON texts."""

    topic: str
    key: str
    payload: str | None
    metadata: str


class Condition(NamedTuple):
    """A condition of a publisher: no event of a topic and a key is after a position.

    Attributes:
        is_last: the event at the position must be the last one; at 0: there must be none.
    """

    topic: str
    key: str
    position: int
    is_last: bool


class Unmet(NamedTuple):
    """A condition that is not met.

    Attributes:
        found: the position of the last event of the topic and the key; 0: there is none; None: it
            has no position yet.
        head: the last position of the log.
    """

    condition: Condition
    found: int | None
    head: int


def publish(connection: Cursors, event: NewEvent) -> None:
    """Store one event; idle readers are notified when the transaction commits."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["publish"], event._asdict())


def publish_if(
    connection: Cursors, event: NewEvent, conditions: Sequence[Condition]
) -> Unmet | None:
    """Store one event if all conditions are met; return the first one that is not met.

    Until the end of the transaction, other publishers with conditions on the same topics and keys
    wait. The transaction's own events do not count.
    """
    columns = zip(*conditions, strict=True)
    names = ("topics", "keys", "positions", "are_last")
    given = dict(zip(names, map(list, columns), strict=True))
    with connection.cursor() as cursor:
        cursor.execute(SQL["publish_if"], {**event._asdict(), **given})
        number, found, head, _ = cursor.fetchone()
    return None if number is None else Unmet(conditions[number - 1], found, head)


def forget_locks(connection: Connection, *, unused_for: timedelta) -> int:
    """Delete the rows that publishers with conditions have not locked for long; return how many."""
    given = {"unused_for": unused_for}
    return delete(
        connection,
        "pgqueue_append_lock",
        SQL["forget_locks"],
        SQL["unused_locks"],
        given,
        what="forget append locks",
    )


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
