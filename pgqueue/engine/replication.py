"""The publication and the slot by which PostgreSQL tells of events that were published."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from psycopg.sql import SQL as Text
from psycopg.sql import Identifier

from pgqueue.database.sql_files import load
from pgqueue.engine.values import Connection

SQL = load(__name__)


class ReplicationSlot(NamedTuple):
    """A replication slot.

    Attributes:
        is_ours: it is of this database, and of the plugin that we read.
        database: None: it is a physical one.
        is_active: a connection streams from it, or makes it.
        is_lost: the WAL that it needs was removed: it can't be used any more.
        is_endangered: that will be so at the next checkpoint.
        lag: bytes of WAL that were written since the position that was confirmed.
        kept: bytes of WAL that the server keeps for the slot: more than `lag` where a transaction
            was open before that position.
    """

    is_ours: bool
    database: str | None
    plugin: str | None
    is_active: bool
    pid: int | None
    is_lost: bool
    is_endangered: bool
    lag: int | None
    kept: int | None


class FeedState(NamedTuple):
    """The publication and the slot of the feed, as the database has them.

    Attributes:
        has_publication: the publication exists.
        has_inbox: the publication tells of rows that are inserted into the inbox.
        waiting: seconds since the first event without a position was published.
    """

    wal_level: str
    has_publication: bool
    has_inbox: bool
    waiting: float | None
    slot: ReplicationSlot | None


def state(connection: Connection, slot: str, publication: str) -> FeedState:
    """Return what there is."""
    given = {"slot": slot, "publication": publication}
    (row,) = connection.execute(SQL["state"], given)
    wal_level, has_publication, has_inbox, waiting, has_slot, *found = row
    known = ReplicationSlot(*found) if has_slot else None
    return FeedState(wal_level, has_publication, has_inbox, waiting, known)


def make_publication(connection: Connection, name: str) -> None:
    """Have the ids of events that are published sent to those who stream."""
    connection.execute(Text(SQL["make_publication"]).format(name=Identifier(name)))


def drop_publication(connection: Connection, name: str) -> None:
    """Drop the publication."""
    connection.execute(Text(SQL["drop_publication"]).format(name=Identifier(name)))


def make_slot(connection: Connection, name: str) -> None:
    """Have the WAL kept from now on; wait until the transactions that are open have ended.

    Args:
        connection: in autocommit.
    """
    connection.execute(SQL["make_slot"], {"slot": name})


def drop_slot(connection: Connection, name: str) -> None:
    """Have the WAL kept no longer."""
    connection.execute(SQL["drop_slot"], {"slot": name})


def take_over(connection: Connection, name: str) -> bool:
    """End the connection that streams from a slot; return whether there was one."""
    return connection.execute(SQL["take_over"], {"slot": name}).rowcount > 0


def unseen(connection: Connection, xids: Sequence[int]) -> list[int]:
    """Return those of the transactions whose rows are not to be seen yet.

    Args:
        xids: the lower 32 bits of their numbers.
    """
    if not xids:
        return []
    return [xid for (xid,) in connection.execute(SQL["unseen"], {"xids": xids})]
