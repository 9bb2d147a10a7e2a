from collections.abc import Collection
from datetime import timedelta

from pgqueue.database.sql_files import load
from pgqueue.engine.culprits import Part, apart
from pgqueue.engine.values import Connection

SQL = load(__name__)


def promote(connection: Connection, *, limit: int = 1000) -> int:
    """Make the delayed messages ready that are due; return their number."""

    def some(part: Part) -> int:
        given = {**part._asdict(), "limit": limit}
        return len(connection.execute(SQL["promote"], given).fetchall())

    return sum(apart(connection, "pgqueue_message", some, what="promote"))


def next_due(connection: Connection) -> timedelta | None:
    """Return the time until the next delayed message is due; None: there is none."""
    row = connection.execute(SQL["next_due"]).fetchone()
    return timedelta(seconds=row[0]) if row else None


def may_come(connection: Connection, channels: Collection[str] | None) -> timedelta | None:
    """Return the time until there may be a message to claim; None: no message is expected.

    It expects delayed messages, lanes throttled by a rate, and messages whose leases may run out.

    Args:
        channels: the channels to claim from; None: all.
    """
    given = None if channels is None else list(channels)
    [seconds] = connection.execute(SQL["may_come"], {"channels": given}).fetchone() or [None]
    return None if seconds is None else timedelta(seconds=seconds)


def run_now(connection: Connection, ids: Collection[int]) -> set[int]:
    """Make delayed messages ready before their time; return the ids that were delayed."""
    return {row[0] for row in connection.execute(SQL["run_now"], {"ids": list(ids)})}
