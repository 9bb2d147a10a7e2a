from collections.abc import Collection
from datetime import timedelta

from pgqueue.database.sql_files import load
from pgqueue.engine import partitions
from pgqueue.engine.culprits import Part, apart
from pgqueue.engine.values import Connection

SQL = load(__name__)

BATCH = 1000


def replay(connection: Connection, ids: Collection[int]) -> set[int]:
    """Make dead letters ready, with all their attempts again; return the ids that were dead.

    A dead child that passed on the failure of a replayed parent is replayed, too, and waits for it.
    """
    return {row[0] for row in connection.execute(SQL["replay"], {"ids": list(ids)})}


def discard(connection: Connection, ids: Collection[int]) -> set[int]:
    """End dead letters as discarded; return the ids that were dead."""
    rows = partitions.repeat_if_missing(connection, SQL["discard"], {"ids": list(ids)})
    return {row[0] for row in rows}


def discard_old(connection: Connection, *, keep: timedelta, limit: int = BATCH) -> int:
    """Discard dead letters whose retention is over; return their number.

    Args:
        keep: the retention of channels that configure none.
    """

    def some(part: Part) -> int:
        given = {**part._asdict(), "keep": keep, "limit": limit}
        return len(partitions.repeat_if_missing(connection, SQL["discard_old"], given))

    return sum(apart(connection, "pgqueue_message", some, what="discard old dead letters"))
