"""The rows of processes that wait for events: those who publish notify the idle ones."""

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
        group: that it reads for; None: it only waits.
        notify_for: how long it wants to be notified of events; None: not at all.
        fed_by: the slot of the WAL feed, which notifies it while a process streams from the slot;
            None, or else: those who publish do.
    """
    given = {"id": id, "host": platform.node(), "pid": os.getpid(), "group": group}
    connection.execute(SQL["beat"], {**given, "notify_for": notify_for, "slot": fed_by})


def tell(connection: Connection) -> None:
    """Notify the idle readers who left that to the WAL feed."""
    connection.execute(SQL["tell"])


def retire(connection: Connection, id: UUID) -> None:
    """Delete a reader's row."""
    connection.execute(SQL["retire"], {"id": id})


def forget(connection: Connection, *, silent_for: timedelta) -> int:
    """Delete the rows of readers that died; return how many."""
    given = {"silent_for": silent_for}
    return delete(
        connection, "pgqueue_reader", SQL["forget"], SQL["over"], given, what="forget readers"
    )
