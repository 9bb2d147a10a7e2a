from collections.abc import Collection
from datetime import timedelta

from pgqueue.database.sql_files import load
from pgqueue.engine import partitions
from pgqueue.engine.values import Connection, exact

SQL = load(__name__)


def commit(connection: Connection, ids: Collection[int]) -> set[int]:
    """Make held messages ready, or delayed if so enqueued; return the ids that were still held."""
    return {row[0] for row in connection.execute(SQL["commit"], {"ids": list(ids)})}


def abandon(connection: Connection, ids: Collection[int]) -> set[int]:
    """End held messages as cancelled; return the ids that were still held."""
    rows = partitions.repeat_if_missing(connection, SQL["abandon"], {"ids": list(ids)})
    return {row[0] for row in rows}


def extend(connection: Connection, ids: Collection[int], *, hold: timedelta) -> set[int]:
    """Move the deadline of held messages to `hold` from now; return the ids still held."""
    rows = connection.execute(SQL["extend"], {"ids": list(ids), "hold": exact(hold)})
    return {row[0] for row in rows}
