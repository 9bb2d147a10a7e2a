"""Wait for messages to end. Their end is notified only while a waiter row announces the wait."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import NamedTuple

from pgqueue.database.sql_files import load
from pgqueue.engine import lookup
from pgqueue.engine.culprits import delete
from pgqueue.engine.lookup import Found
from pgqueue.engine.values import Connection
from pgqueue.states import State

SQL = load(__name__)

LIVE = {State.HELD, State.SCHEDULED, State.READY, State.RUNNING}


class MessageSnapshot(NamedTuple):
    """The present state of a message; `state` is its state or its outcome. JSON columns are texts.

    Attributes:
        failures: how many of its runs failed, or lost their worker.
    """

    id: int
    state: str
    attempt: int
    failures: int
    progress: str | None
    result: str | None


def ended(connection: Connection, ids: Collection[int]) -> dict[int, Found | None]:
    """Return the messages that have ended or are dead; None for a message without a visible row."""
    live = {id for (id,) in connection.execute(SQL["live"], {"ids": list(ids)})}
    if not (rest := set(ids) - live):
        return {}
    found = lookup.find_each(connection, rest)
    # A message that was dead in the first query may have been replayed before the second.
    return {id: found.get(id) for id in rest if id not in found or found[id].state not in LIVE}


def announce(connection: Connection, ids: Collection[int], *, lasting: timedelta) -> dict[int, int]:
    """Insert a waiter row for each message; return the rows' ids by message id."""
    parameters = {"ids": list(ids), "lasting": lasting}
    return dict(connection.execute(SQL["announce"], parameters).fetchall())


def renew(connection: Connection, rows: Collection[int], *, lasting: timedelta) -> None:
    """Let waiter rows last for `lasting` from now."""
    connection.execute(SQL["renew"], {"rows": list(rows), "lasting": lasting})


def withdraw(connection: Connection, rows: Collection[int]) -> None:
    """Delete waiter rows."""
    connection.execute(SQL["withdraw"], {"rows": list(rows)})


def forget(connection: Connection) -> int:
    """Delete the waiter rows of processes that died while waiting; return their number."""
    return delete(connection, "pgqueue_waiter", SQL["forget"], SQL["over"], {}, what="forget waits")


def look(connection: Connection, ids: Collection[int]) -> dict[int, MessageSnapshot]:
    """Return the present states of the messages that exist, live or ended, by their ids."""
    rows = connection.execute(SQL["look"], {"ids": list(ids)})
    return {row[0]: MessageSnapshot(*row) for row in rows}
