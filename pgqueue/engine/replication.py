"""The publication and the slot of the WAL feed, by which PostgreSQL announces new events."""

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
        is_ours: whether it belongs to this database, and has the plugin that pgqueue reads.
        database: the name of its database; None: it is a physical slot.
        is_active: whether a connection streams from it, or makes it.
        is_lost: whether the WAL that it needs was removed, so that it is useless.
        is_endangered: whether the next checkpoint will remove this WAL.
        lag: bytes of WAL that were written since the confirmed position.
        kept: bytes of WAL that the server keeps for the slot. They are more than `lag` if a
            transaction was open before the confirmed position.
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
    """The state of the feed's publication and slot.

    Attributes:
        has_publication: whether the publication exists.
        has_inbox: whether the publication announces rows that are inserted into the inbox.
        waiting: seconds since the first event without a position was published.
        is_standby: whether the server takes a process that follows for a synchronous standby.
    """

    wal_level: str
    has_publication: bool
    has_inbox: bool
    waiting: float | None
    slot: ReplicationSlot | None
    is_standby: bool = False


def state(connection: Connection, slot: str, publication: str) -> FeedState:
    """Return the state of the publication and of the slot."""
    given = {"slot": slot, "publication": publication}
    (row,) = connection.execute(SQL["state"], given)
    wal_level, has_publication, has_inbox, waiting, is_standby, has_slot, *found = row
    known = ReplicationSlot(*found) if has_slot else None
    return FeedState(wal_level, has_publication, has_inbox, waiting, known, is_standby)


def make_publication(connection: Connection, name: str) -> None:
    """Make the publication, which announces the ids of new events to streaming connections."""
    connection.execute(Text(SQL["make_publication"]).format(name=Identifier(name)))


def drop_publication(connection: Connection, name: str) -> None:
    """Drop the publication."""
    connection.execute(Text(SQL["drop_publication"]).format(name=Identifier(name)))


def make_slot(connection: Connection, name: str) -> None:
    """Make the slot, which keeps the WAL from now on; wait until all open transactions have ended.

    Args:
        connection: in autocommit.
    """
    connection.execute(SQL["make_slot"], {"slot": name})


def drop_slot(connection: Connection, name: str) -> None:
    """Drop the slot, so that the server keeps no WAL for it."""
    connection.execute(SQL["drop_slot"], {"slot": name})


def take_over(connection: Connection, name: str) -> bool:
    """End the connection that streams from a slot; return whether there was one."""
    return connection.execute(SQL["take_over"], {"slot": name}).rowcount > 0


def unseen(connection: Connection, xids: Sequence[int]) -> list[int]:
    """Return the transactions among these whose rows are not visible yet.

    Args:
        xids: the lower 32 bits of the transactions' numbers.
    """
    if not xids:
        return []
    return [xid for (xid,) in connection.execute(SQL["unseen"], {"xids": xids})]
