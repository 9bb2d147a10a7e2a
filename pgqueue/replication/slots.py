"""The publication of the WAL feed, and the replication slot, which keeps the WAL for the feed."""

from __future__ import annotations

import psycopg

from pgqueue import signals
from pgqueue.engine import replication as engine
from pgqueue.engine.replication import FeedState, ReplicationSlot
from pgqueue.engine.values import Connection
from pgqueue.exceptions import FeedUnavailable

MAKE = "run manage.py pgqueue_replication --make"
STANDBY = (
    "'*' in synchronous_standby_names takes the feed for a synchronous standby: commits would wait "
    "for the feed, and the feed for these commits. Name your standbys there instead."
)
LEVEL = (
    "The WAL has no events: wal_level is {level!r}. Set wal_level = logical in postgresql.conf (or "
    "your provider's option for it) and restart the server, or set PGQUEUE['FEED'] to 'poll'."
)


def as_it_should_be(
    connection: Connection, slot: str, publication: str, *, can_be_read: bool = True
) -> bool:
    """Make the slot if it is missing, lost or unreadable; return whether the slot is free.

    A new slot does not announce earlier commits, but their events are still in the inbox.

    Args:
        can_be_read: False: the server failed to read the slot's WAL, because the publication is
            newer than this WAL.

    Raises:
        FeedUnavailable: the slot or the publication is unusable; the message has the advice.
    """
    found = with_publication(connection, slot, publication).slot
    if found is None or found.is_lost or not (can_be_read or found.is_active):
        is_there = found is not None
        is_unreadable = found is not None and not found.is_lost
        signals.send(
            signals.slot_lost,
            ReplicationSlot,
            slot=slot,
            is_there=is_there,
            is_unreadable=is_unreadable,
        )
        make_slot(connection, slot, instead_of=found)
        return True
    return not found.is_active


def make_feed(connection: Connection, slot: str, publication: str) -> list[str]:
    """Make the publication and the slot if they are missing; return the names of the new ones.

    PostgreSQL refuses to read WAL by a publication that is newer than this WAL. So an existing
    slot is replaced if the publication is new. While a process streams from the slot, that
    process replaces the slot.

    Raises:
        FeedUnavailable: the slot or the publication is unusable; the message has the advice.
    """
    state = checked(connection, slot, publication)
    _check_inbox(state, publication)
    made = []
    if not state.has_publication:
        engine.make_publication(connection, publication)
        made.append(f"the publication {publication}")
    is_older = not state.has_publication and state.slot is not None and not state.slot.is_active
    if state.slot is None or state.slot.is_lost or is_older:
        make_slot(connection, slot, instead_of=state.slot)
        made.append(f"the slot {slot}")
    return made


def make_slot(connection: Connection, slot: str, *, instead_of: ReplicationSlot | None) -> None:
    """Make the slot, in place of a lost or unreadable one.

    Raises:
        FeedUnavailable: PostgreSQL waits for open transactions.
    """
    if instead_of:
        engine.drop_slot(connection, slot)
    try:
        engine.make_slot(connection, slot)
    except psycopg.errors.QueryCanceled as error:
        raise FeedUnavailable(
            f"The slot {slot!r} is not made yet: PostgreSQL waits for earlier transactions in any "
            "database of the server. The feed tries again. Find transactions with an old "
            "backend_xid in pg_stat_activity."
        ) from error


def drop(connection: Connection, slot: str, publication: str) -> list[str]:
    """Drop the slot, which releases its WAL, and the publication; return the dropped names.

    Raises:
        FeedUnavailable: a process streams from the slot, or the slot belongs to another
            database.
    """
    state = checked(connection, slot, publication)
    dropped = []
    if state.slot:
        if state.slot.is_active:
            raise FeedUnavailable(
                f"A process streams from the slot {slot!r} (pid {state.slot.pid} in PostgreSQL): "
                "stop pgqueue_replication, and workers with --replication, first."
            )
        engine.drop_slot(connection, slot)
        dropped.append(f"the slot {slot}")
    if state.has_publication:
        engine.drop_publication(connection, publication)
        dropped.append(f"the publication {publication}")
    return dropped


def with_publication(connection: Connection, slot: str, publication: str) -> FeedState:
    """Return the state of the slot and the publication; the publication must exist.

    Raises:
        FeedUnavailable: the feed cannot use them; the message has the advice.
    """
    state = checked(connection, slot, publication)
    if not state.has_publication:
        raise FeedUnavailable(f"There is no publication {publication!r}: {MAKE}.")
    if state.is_standby:
        raise FeedUnavailable(STANDBY)
    _check_inbox(state, publication)
    return state


def checked(connection: Connection, slot: str, publication: str) -> FeedState:
    """Return the state of the slot and the publication.

    Raises:
        FeedUnavailable: the server writes no logical WAL, or the slot is not pgqueue's.
    """
    state = engine.state(connection, slot, publication)
    if state.wal_level != "logical":
        raise FeedUnavailable(LEVEL.format(level=state.wal_level))
    if state.slot and not state.slot.is_ours:
        raise FeedUnavailable(
            f"The slot {slot!r} belongs to the database {state.slot.database!r}, and its plugin is "
            f"{state.slot.plugin!r}. Names of slots are unique in a server: set another name in "
            "PGQUEUE['REPLICATION_SLOT']."
        )
    return state


def _check_inbox(state: FeedState, publication: str) -> None:
    if state.has_publication and not state.has_inbox:
        raise FeedUnavailable(
            f"The publication {publication!r} does not publish inserts into pgqueue_event_inbox. "
            f"If only the feed uses it, run manage.py pgqueue_replication --drop, then {MAKE}. "
            "Otherwise, set another name in PGQUEUE['PUBLICATION']."
        )
