"""Wake durable runs that wait for a signal.

A signal inserts a row and a bell; so does a run that begins to wait. The router takes both bells
and looks in a later statement. So a signal and a wait that commit at once never miss each other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

from pgqueue.database.sql_files import load
from pgqueue.engine.culprits import by_halves, tell
from pgqueue.engine.flows import Freed
from pgqueue.engine.values import Connection, array

SQL = load(__name__)

BATCH = 10_000
WIDTH = 5_000
"""Messages that one statement of the router wakes."""


def wake(connection: Connection, ids: Collection[int]) -> list[Freed]:
    """Make the messages among these ready that wait for a signal which has come.

    Args:
        connection: in the router's transaction.

    Returns:
        The lanes of the woken messages. The router must mark the governed ones.
    """
    woken: list[Freed] = []
    left = sorted(ids)
    while left:
        given = {"ids": array(left[:WIDTH]), "limit": WIDTH}
        woken += [Freed(*row[:3]) for row in connection.execute(SQL["wake"], given)]
        left = left[WIDTH:]
    return woken


def wake_apart(connection: Connection, ids: Collection[int]) -> list[Freed]:
    """Call `wake`; leave out the messages with which it fails. `ring_missed` finds them again."""

    def some(ids: Sequence[int]) -> list[Freed]:
        with connection.transaction():
            return wake(connection, ids)

    def leave(id: int, error: Exception) -> None:
        tell("route", row=f"the wait of pgqueue_message {id}", error=error)

    return [each for woken in by_halves(some, sorted(ids), leave) for each in woken]


def forget_strays(connection: Connection, *, limit: int = BATCH) -> None:
    """Delete signals that were sent while their message ended."""
    connection.execute(SQL["forget_strays"], {"limit": limit})


def ring_missed(connection: Connection, *, limit: int = BATCH) -> int:
    """Ring again for messages that were locked at their bell; return their number."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for channel, id in connection.execute(SQL["missed"], {"limit": limit}):
        found[channel].append(id)
    for channel, ids in found.items():
        connection.execute(SQL["ring"], {"channel": channel, "ids": ids})
    return sum(map(len, found.values()))
