from collections.abc import Collection
from typing import NamedTuple

from pgqueue.database.sql_files import load
from pgqueue.engine import partitions
from pgqueue.engine.values import Connection

SQL = load(__name__)


class CancelledIds(NamedTuple):
    """The ids of messages that ended at once, and of running messages that were asked to end."""

    ended: set[int]
    asked: set[int]


def cancel(connection: Connection, ids: Collection[int]) -> CancelledIds:
    """End messages that wait; ask running ones to end. Dead letters are left as they are.

    The commit notifies the workers of running messages.
    """
    rows = partitions.repeat_if_missing(connection, SQL["cancel"], {"ids": list(ids)})
    return CancelledIds(
        {id for id, how, _ in rows if how == "cancelled"},
        {id for id, how, _ in rows if how == "asked"},
    )
