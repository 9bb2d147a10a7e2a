"""Groups: named cursors on the log, whose partitions one reader at a time has.

Everything that moves a cursor is fenced by the reader's id: a reader that was stopped, or cut off,
for longer than its lease, and comes back, can change nothing. Events are handled without a lock on
the row.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from pgqueue.database.sql_files import load
from pgqueue.engine.culprits import (
    by_halves,
    choosing,
    leave_out,
    may_be_a_row,
)
from pgqueue.engine.values import Connection, Cursors

SQL = load(__name__)

CURSORS = "pgqueue_cursor"
LEASE = timedelta(seconds=8)
"""How long a reader may be silent before others take over its partitions."""


class Partition(NamedTuple):
    """A partition that a reader has taken.

    Attributes:
        number: from 0.
        position: the last event that was handled.
        failures: of the next event, so far.
        retry_in: seconds until that is to be tried again; 0 or less: now.
        suspect: an event during which a reader was lost; None: such an event is not known.
        lost: how many readers were lost at the suspect; 0: the last one gave the partition back.
    """

    number: int
    position: int
    failures: int
    retry_in: float
    suspect: int | None
    lost: int


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
    given = {"name": name, "reader": reader, "held": list(held), "lease": lease}

    def some(aside: list[int]) -> list[Partition]:
        rows = connection.execute(SQL["take"], {**given, "aside": aside})
        return [Partition(*row) for row in rows]

    def chosen(aside: list[int]) -> list[int]:
        rows = connection.execute(SQL["chosen"], {**given, "aside": aside})
        return [partition for (partition,) in rows]

    def attempt(partitions: Sequence[int]) -> None:
        connection.execute(SQL["attempt"], {**given, "partitions": list(partitions)})

    return choosing(connection, CURSORS, some, chosen=chosen, attempt=attempt, what=reading(name))


def reading(name: str) -> str:
    """Return the service under which partitions of a group are left out."""
    return f"the group {name!r}"


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
    """Renew a reader's leases; return which partitions are still its own.

    A partition whose lease can't be renewed is not.

    Args:
        connection: in autocommit.
    """
    given = {"name": name, "reader": reader, "lease": lease}

    def some(partitions: Sequence[int] | None) -> set[int]:
        rows = connection.execute(SQL["renew"], {**given, "partitions": partitions})
        return {partition for (partition,) in rows}

    def leave(partition: int, error: Exception) -> None:
        leave_out(connection, reading(name), CURSORS, partition, error=error)

    try:
        return some(None)
    except Exception as error:
        if not may_be_a_row(connection, error):
            raise
        held = [partition for (partition,) in connection.execute(SQL["held"], given)]
        return set().union(*by_halves(some, held, leave, error=error))


def release(connection: Connection, name: str, reader: UUID, partitions: Collection[int]) -> None:
    """Give partitions back."""
    connection.execute(
        SQL["release"], {"name": name, "reader": reader, "partitions": list(partitions)}
    )


def begin(connection: Connection, name: str, partition: int, reader: UUID, *, suspect: int) -> bool:
    """Note that the handler of a suspected event begins.

    If the process ends before the cursor has moved, the event is charged with it.

    Returns:
        False where the partition was lost, or the cursor is beyond.
    """
    given = {"name": name, "partition": partition, "reader": reader, "suspect": suspect}
    return bool(connection.execute(SQL["begin"], given).rowcount)


def acquit(connection: Connection, name: str, partition: int, reader: UUID) -> None:
    """Note that no event of a partition is suspected any more."""
    given = {"name": name, "partition": partition, "reader": reader}
    connection.execute(SQL["acquit"], given)


def excuse(connection: Cursors, name: str, reader: UUID) -> None:
    """Note that a reader's process ends by request: the event that it handles is not the cause."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["excuse"], {"name": name, "reader": reader})


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
