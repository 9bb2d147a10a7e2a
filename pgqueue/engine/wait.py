"""Wait for messages to end: their end is notified only while somebody has announced that."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

from pgqueue.engine import lookup
from pgqueue.engine.lookup import Found
from pgqueue.engine.values import Connection
from pgqueue.statements import load
from pgqueue.states import State

SQL = load(__name__)

LIVE = {State.HELD, State.SCHEDULED, State.READY, State.RUNNING}


def ended(connection: Connection, ids: Collection[int]) -> dict[int, Found | None]:
    """Return those of the messages that have ended, or are dead; None: one that can't be seen."""
    live = {id for (id,) in connection.execute(SQL["live"], {"ids": list(ids)})}
    if not (rest := set(ids) - live):
        return {}
    found = lookup.find_each(connection, rest)
    # One that was dead a moment ago may have been replayed.
    return {id: found.get(id) for id in rest if id not in found or found[id].state not in LIVE}


def announce(connection: Connection, ids: Collection[int], *, lasting: timedelta) -> dict[int, int]:
    """Have the end of each message notified; return, by the ids, the rows that say so."""
    parameters = {"ids": list(ids), "lasting": lasting}
    return dict(connection.execute(SQL["announce"], parameters).fetchall())


def renew(connection: Connection, rows: Collection[int], *, lasting: timedelta) -> None:
    """Go on waiting for so long from now."""
    connection.execute(SQL["renew"], {"rows": list(rows), "lasting": lasting})


def withdraw(connection: Connection, rows: Collection[int]) -> None:
    """Wait no more."""
    connection.execute(SQL["withdraw"], {"rows": list(rows)})


def forget(connection: Connection) -> int:
    """Remove what processes announced that died as they waited; return how many rows."""
    return connection.execute(SQL["forget"]).rowcount
