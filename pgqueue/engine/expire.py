from pgqueue.engine import partitions
from pgqueue.engine.values import Connection
from pgqueue.statements import load

SQL = load(__name__)

BATCH = 1000


def expire(connection: Connection, *, limit: int = BATCH) -> int:
    """End messages whose hold or expiry time is over as expired; return how many."""
    return len(partitions.repeat_if_missing(connection, SQL["expire"], {"limit": limit}))


def forget(connection: Connection, *, limit: int = BATCH) -> int:
    """Delete remembered dedupe keys whose time is over; return how many."""
    return connection.execute(SQL["forget"], {"limit": limit}).rowcount
