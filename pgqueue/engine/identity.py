"""The identity of a database, for programs that remember its positions elsewhere.

An identity has PostgreSQL's numbers of the cluster and of the database in it, and a random number
that is stored with the tables. A restore to an earlier time changes no identity, unless `renew` is
called after it. So a program also remembers a marker of the row at the position: the time at which
it ended, or was published. Another row may get the position, but not at the same microsecond.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from hashlib import sha256

from pgqueue.database.sql_files import load
from pgqueue.engine import log
from pgqueue.engine.values import Cursors, Position

SQL = load(__name__)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def of(connection: Cursors) -> str:
    """Return the identity of the database; '' if the table of identities is empty."""
    return str(_first(connection, "of") or "")


def renew(connection: Cursors) -> str:
    """Give the database a new random number, and return its new identity.

    From now on, earlier checkpoints, exports and positions of streams are refused.
    """
    _first(connection, "renew")
    return of(connection)


def of_history(connection: Cursors, position: Position) -> int | None:
    """Return the marker of a row of history: microseconds. None: there is no row."""
    return _first(connection, "of_history", position._asdict())


def of_event(connection: Cursors, position: int) -> int | None:
    """Return the marker of an event: microseconds. None: the log has no event there."""
    return _first(connection, "of_event", {"position": position})


def mark(identity: str, marker: int | None) -> str:
    """Return 16 characters that identify a database and a row in it, beside a position.

    Args:
        marker: the marker of the row; None: there is no row.
    """
    return _digest(identity) + _digest(f"{identity} {marker}")


def mark_at(connection: Cursors, position: int) -> str:
    """Return the mark of the event at a position."""
    return mark(of(connection), of_event(connection, position))


def is_marked(connection: Cursors, position: int, given: str) -> bool:
    """Return whether a mark is of this database and of the event at a position.

    Once retention or an operator has removed the event, only the database is compared.
    """
    identity, marker = of(connection), of_event(connection, position)
    if given == mark(identity, marker):
        return True
    is_removed = marker is None and position <= log.bounds(connection).head
    return is_removed and given[:8] == _digest(identity)


def marker_of(published_at: datetime) -> int:
    """Return the marker of an event that was published at a time."""
    return (published_at - EPOCH) // MICROSECOND


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:8]


def _first(connection: Cursors, statement: str, given: dict[str, int] | None = None) -> int | None:
    with connection.cursor() as cursor:
        cursor.execute(SQL[statement], given or {})
        row = cursor.fetchone()
    return row[0] if row else None
