"""The rows of processes that read events: publishers notify the idle ones."""

from __future__ import annotations

import os
import platform
from datetime import timedelta
from uuid import UUID

from pgqueue.database.sql_files import load
from pgqueue.engine.culprits import delete
from pgqueue.engine.values import Connection

SQL = load(__name__)


def beat(
    connection: Connection,
    id: UUID,
    *,
    group: str | None = None,
    notify_for: timedelta | None = None,
    fed_by: str | None = None,
) -> None:
    """Store that a reader lives.

    Args:
        group: the group that it reads for; None: it only waits.
        notify_for: how long it wants to be notified of events; None: not at all.
        fed_by: the slot of the WAL feed. While a process streams from the slot, the feed notifies
            the reader; otherwise publishers do. None: there is no such feed.
    """
    given = {"id": id, "host": platform.node(), "pid": os.getpid(), "group": group}
    connection.execute(SQL["beat"], {**given, "notify_for": notify_for, "slot": fed_by})


def tell(connection: Connection) -> None:
    """Notify the idle readers that the WAL feed must notify."""
    connection.execute(SQL["tell"])


def retire(connection: Connection, id: UUID) -> None:
    """Delete a reader's row."""
    connection.execute(SQL["retire"], {"id": id})


def forget(connection: Connection, *, silent_for: timedelta) -> int:
    """Delete the rows of readers that died; return their number."""
    given = {"silent_for": silent_for}
    return delete(
        connection, "pgqueue_reader", SQL["forget"], SQL["over"], given, what="forget readers"
    )
