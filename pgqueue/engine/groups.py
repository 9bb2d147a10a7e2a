"""Groups: named cursors on the log, whose partitions one reader at a time has.

Everything that moves a cursor is fenced by the reader's id: a reader that was stopped, or cut off,
for longer than its lease, and comes back, can change nothing. Events are handled without a lock on
the row.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from pgqueue.engine.values import Connection, Cursors
from pgqueue.statements import load

SQL = load(__name__)

LEASE = timedelta(seconds=8)
"""How long a reader may be silent before others take over its partitions."""


class Partition(NamedTuple):
    """A partition that a reader has taken.

    Attributes:
        number: from 0.
        position: the last event that was handled.
        failures: of the next event, so far.
        retry_in: seconds until that is to be tried again; 0 or less: now.
    """

    number: int
    position: int
    failures: int
    retry_in: float


class GroupState(NamedTuple):
    """A group, as it is listed.

    Attributes:
        position: the last event that all partitions have handled.
        lag: how many positions of the log are after it.
        readers: how many readers have one of its partitions.
        stopped: how many of its partitions an event has stopped.
        error: the last error of an event that is being retried or has stopped it; "": none.
    """

    name: str
    partitions: int
    position: int
    lag: int
    readers: int
    stopped: int
    error: str
    updated_at: datetime


class CursorState(NamedTuple):
    """A partition of a group, as it is shown.

    Attributes:
        lag: how many positions of the log are after it.
        reader: the host and process that has it, or had it last; "": none.
        is_read: whether that one's lease holds.
        failures: of the next event, so far.
        error: the last of them; "": none.
    """

    partition: int
    position: int
    lag: int
    reader: str
    lease_until: datetime | None
    is_read: bool
    failures: int
    error: str
    retry_at: datetime | None
    is_stopped: bool
    updated_at: datetime


class Parked(NamedTuple):
    """An event that failed for good, as the dead letter that it becomes.

    Attributes:
        payload, errors: JSON texts.
    """

    channel: str
    key: str
    task: str
    payload: str
    errors: str
    failures: int


def make(connection: Cursors, name: str, *, partitions: int, position: int) -> int:
    """Make a group unless it is there; return how many partitions it has.

    Args:
        connection: in a transaction.
        position: after which it begins, if it is made now.
    """
    with connection.cursor() as cursor:
        given = {"name": name, "partitions": partitions, "position": position}
        cursor.execute(SQL["make"], given)
        cursor.execute(SQL["partitions_of"], given)
        count: int = cursor.fetchone()[0]
        return count


def partitions_of(connection: Cursors, name: str) -> int | None:
    """Return how many partitions a group has; None: there is no such group."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["partitions_of"], {"name": name})
        row: tuple[int] | None = cursor.fetchone()
        return row and row[0]


def take(
    connection: Connection,
    name: str,
    reader: UUID,
    *,
    held: Collection[int],
    lease: timedelta = LEASE,
) -> list[Partition]:
    """Take partitions that nobody reads, up to the share of one of its readers.

    Args:
        held: what this reader has already.
    """
    rows = connection.execute(
        SQL["take"], {"name": name, "reader": reader, "held": list(held), "lease": lease}
    )
    return [Partition(*row) for row in rows]


def excess(connection: Connection, name: str, *, has: int, lease: timedelta = LEASE) -> int:
    """Return how many of its partitions a reader has beyond its share."""
    # Whoever has too many is not the one that has too few: it does not matter who asks.
    given = {"name": name, "lease": lease, "reader": None}
    row = connection.execute(SQL["share"], given).fetchone()
    most, share = row or (has, has)
    if has > most:
        return int(has - most)
    # One by one: others give, too.
    return 1 if has > share else 0


def renew(connection: Connection, name: str, reader: UUID, *, lease: timedelta = LEASE) -> set[int]:
    """Renew a reader's leases; return which partitions are still its own."""
    rows = connection.execute(SQL["renew"], {"name": name, "reader": reader, "lease": lease})
    return {partition for (partition,) in rows}


def release(connection: Connection, name: str, reader: UUID, partitions: Collection[int]) -> None:
    """Give partitions back."""
    connection.execute(
        SQL["release"], {"name": name, "reader": reader, "partitions": list(partitions)}
    )


def commit(
    connection: Cursors,
    name: str,
    partition: int,
    reader: UUID,
    *,
    upto: int,
    after: int | None = None,
) -> bool:
    """Move a cursor behind what was handled, never back.

    Args:
        after: what was handled begins there: a cursor beyond it was moved for some of it already.
            None: that is no matter.

    Returns:
        False where the partition was lost, or the cursor is beyond.
    """
    given = {"name": name, "partition": partition, "reader": reader, "upto": upto}
    with connection.cursor() as cursor:
        cursor.execute(SQL["commit"], {**given, "after": upto if after is None else after})
        return bool(cursor.rowcount)


def fail(
    connection: Cursors,
    name: str,
    partition: int,
    reader: UUID,
    *,
    upto: int,
    failures: int,
    error: str,
    retry_after: timedelta | None,
) -> bool:
    """Note that the event after `upto` failed.

    Args:
        upto: the last event that was handled.
        retry_after: None: the partition stops there until an operator resumes the group.

    Returns:
        False where the partition was lost, or the cursor is beyond.
    """
    given = {"name": name, "partition": partition, "reader": reader, "upto": upto}
    failed = {"failures": failures, "error": error, "retry_after": retry_after}
    with connection.cursor() as cursor:
        cursor.execute(SQL["fail"], {**given, **failed})
        return bool(cursor.rowcount)


def park(connection: Cursors, parked: Parked) -> int:
    """Store a dead letter of an event; return its id."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["park"], parked._asdict())
        id: int = cursor.fetchone()[0]
        return id


def reset(connection: Cursors, name: str, position: int) -> bool:
    """Move a group to a position; its readers go on from there. Return whether there is one."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["reset"], {"name": name, "position": position})
        return bool(cursor.rowcount)


def resume(connection: Cursors, name: str) -> int:
    """Try again what has stopped a group, or waits for its retry; return how many partitions."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["resume"], {"name": name})
        return int(cursor.rowcount)


def delete(connection: Cursors, name: str) -> bool:
    """Delete a group; return whether there was one. Its readers lose their partitions."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["delete"], {"name": name})
        return cursor.fetchone() is not None


def states(connection: Cursors, names: Collection[str] | None = None) -> list[GroupState]:
    """Return all groups, or those of these names, by their names."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["states"], {"names": None if names is None else list(names)})
        return [GroupState(*row) for row in cursor.fetchall()]


def readers(connection: Cursors, names: Collection[str]) -> dict[str, list[str]]:
    """Return which processes read for groups now, as HOST:PID, by the groups' names."""
    found: dict[str, list[str]] = {name: [] for name in names}
    with connection.cursor() as cursor:
        cursor.execute(SQL["readers"], {"names": list(names)})
        for name, host, pid in cursor.fetchall():
            found[name].append(f"{host}:{pid}")
    return found


def cursors(connection: Cursors, name: str) -> list[CursorState]:
    """Return the partitions of a group, by their numbers."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["cursors"], {"name": name})
        return [CursorState(*row) for row in cursor.fetchall()]
