"""Move committed events from the inbox into the log, where each gets the next position.

One session at a time does it, under the lock of a row, always from the inbox's front, and in a
statement after the one that took the lock. So a position is given once, positions have no gaps, and
no event appears before one that was read already. The order is the order in which the sequencer
sees the transactions, not the order of publishing. A long transaction delays only its own events.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, sleep
from typing import Any

from psycopg.errors import CheckViolation

from pgqueue.database.sql_files import load
from pgqueue.database.transactions import in_short
from pgqueue.engine import event_partitions, log
from pgqueue.engine.culprits import apart
from pgqueue.engine.values import Connection

SQL = load(__name__)

BATCH = 50_000
PATIENCE = 2.0
"""Seconds: longer than a batch takes."""
NAP = 0.002
"""Seconds between two checks whether another session has ended."""
READ_COMMITTED = "read committed"


def advance(connection: Connection) -> bool:
    """Give positions to published events; return whether another session is doing so.

    It is for repeated calls: where a look is expensive, an event whose transaction was open for
    long may be found a second later.

    Args:
        connection: in autocommit.
    """
    return _advance(connection, log.has_anything_come)


def _advance(connection: Connection, look: Callable[[Connection], bool]) -> bool:
    while True:
        # A look costs less than a lock, and usually there is no event.
        if not look(connection):
            return False
        moved = sequence(connection)
        if moved is None:
            return True
        if moved < BATCH:
            return False


def catch_up(connection: Connection, *, patience: float = PATIENCE) -> None:
    """Give positions to all events that were published before, also beside another session.

    The other session may be moving the newest events, which are invisible until it has ended.

    Args:
        connection: in autocommit.
        patience: seconds to wait for another session.
    """
    until = monotonic() + patience
    while _advance(connection, log.is_anything_waiting) and monotonic() < until:
        sleep(NAP)


def head(connection: Any) -> int:
    """Return the position at which a new reader starts: the last one of the log.

    Outside of a transaction, the events that were published before get their positions first.

    Args:
        connection: a connection of Django's.
    """
    catch_up_outside(connection)
    return log.bounds(connection).head


def catch_up_outside(connection: Any) -> None:
    """Catch up, unless a transaction is open.

    Args:
        connection: a connection of Django's.
    """
    if not connection.in_atomic_block and connection.get_autocommit():
        connection.ensure_connection()
        catch_up(connection.connection)


def sequence(connection: Connection, *, limit: int = BATCH) -> int | None:
    """Give positions to the events at the front of the inbox.

    An event whose move fails stays there, and the log names it; the events behind it are moved.

    Args:
        connection: in autocommit.
        limit: the most events that get positions.

    Returns:
        The number of moved events; None: another session is moving events.
    """
    moved = apart(
        connection,
        "pgqueue_event_inbox",
        lambda part: _sequence(connection, {**part._asdict(), "limit": limit}),
        what="sequence",
    )
    return None if None in moved else sum(count or 0 for count in moved)


def _sequence(connection: Connection, given: dict[str, Any]) -> int | None:
    try:
        return _sequence_once(connection, given)
    except CheckViolation:
        # The next partition was not made ahead.
        event_partitions.ensure(connection)
        return _sequence_once(connection, given)


def _sequence_once(connection: Connection, given: dict[str, Any]) -> int | None:
    with in_short(connection):
        row = connection.execute(SQL["lead"]).fetchone()
        if row is None:
            return None
        if row[0] == READ_COMMITTED:
            return connection.execute(SQL["move"], given).rowcount
    return _sequence_there(connection, given)


def _sequence_there(connection: Connection, given: dict[str, Any]) -> int | None:
    """Give positions in a session whose transactions have another isolation than READ COMMITTED.

    With a snapshot from before the lock, it would miss the events that the lock's last holder has
    moved.
    """
    with connection.transaction():
        connection.execute(SQL["set_up"])  # the first statement, or it is refused
        with in_short(connection):
            row = connection.execute(SQL["lead"]).fetchone()
            if row is None:
                return None
            return connection.execute(SQL["move"], given).rowcount
