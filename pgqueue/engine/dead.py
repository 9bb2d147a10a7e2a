from collections.abc import Collection

from pgqueue.engine import partitions
from pgqueue.engine.values import Connection
from pgqueue.statements import load

SQL = load(__name__)


def replay(connection: Connection, ids: Collection[int]) -> set[int]:
    """Make dead letters ready, with all attempts before them; return the ids that were."""
    return {row[0] for row in connection.execute(SQL["replay"], {"ids": list(ids)})}


def discard(connection: Connection, ids: Collection[int]) -> set[int]:
    """End dead letters for good; return the ids that were."""
    rows = partitions.repeat_if_missing(connection, SQL["discard"], {"ids": list(ids)})
    return {row[0] for row in rows}
