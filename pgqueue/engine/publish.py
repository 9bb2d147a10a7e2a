"""Store events in the inbox of the log, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pgqueue.engine import copying
from pgqueue.engine.values import Cursors
from pgqueue.statements import load

SQL = load(__name__)


class NewEvent(NamedTuple):
    """An event to be published. The payload and the metadata are JSON texts."""

    topic: str
    key: str
    payload: str | None
    metadata: str


def publish(connection: Cursors, event: NewEvent) -> None:
    """Store one event; idle readers are notified when the transaction commits."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["publish"], event._asdict())


def publish_many(connection: Cursors, events: Iterable[NewEvent]) -> None:
    """Store events by COPY, in their order.

    Args:
        connection: in a transaction.
        events: making one must not use the same connection.
    """
    with connection.cursor() as cursor:
        copying.send(cursor, SQL["copy"], map(_line, events))
    tell(connection)


def tell(connection: Cursors) -> None:
    """Have idle readers notified when the transaction commits."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["tell"])


def _line(event: NewEvent) -> str:
    payload = "\\N" if event.payload is None else copying.escaped(event.payload)
    key, metadata = copying.escaped(event.key), copying.escaped(event.metadata)
    return f"{copying.escaped(event.topic)}\t{key}\t{payload}\t{metadata}\n"
