"""Send signals to messages."""

from __future__ import annotations

from typing import Literal

from pgqueue.database.sql_files import load
from pgqueue.engine.values import Cursors

SQL = load(__name__)

Sent = Literal["sent", "repeated", "ended"]


def send(
    connection: Cursors,
    id: int,
    name: str,
    payload: str | None,
    dedupe_id: str | None = None,
    sender: int | None = None,
) -> Sent:
    """Store a signal to a message, in the caller's transaction.

    Args:
        payload: JSON text.
        dedupe_id: the message takes one signal with this id.
        sender: the id of the message whose run sends it.

    Returns:
        sent; repeated, if a signal with this id was sent; ended, if the message is not live.
    """
    given = {"id": id, "name": name, "payload": payload, "dedupe_id": dedupe_id}
    with connection.cursor() as cursor:
        cursor.execute(SQL["send"], {**given, "sender": sender})
        sent: Sent = cursor.fetchone()[0]
    return sent


def task_of(connection: Cursors, id: int) -> str | None:
    """Return the name of the task of a live message."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["task_of"], {"id": id})
        row = cursor.fetchone()
    return row[0] if row else None


def with_dedupe_key(connection: Cursors, channel: str, dedupe_key: str) -> int | None:
    """Return the id of the live message of a channel that has this dedupe key."""
    given = {"channel": channel, "dedupe_key": dedupe_key}
    with connection.cursor() as cursor:
        cursor.execute(SQL["with_dedupe_key"], given)
        row = cursor.fetchone()
    return row[0] if row else None
