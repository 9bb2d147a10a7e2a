"""Groups: named cursors on the log. One reader at a time has each of their partitions.

Each statement that moves a cursor is fenced by the reader's id. So a reader that comes back after
it was stopped or cut off for longer than its lease changes nothing. Events are handled without a
lock on the row.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from psycopg.errors import FeatureNotSupported, LockNotAvailable

from pgqueue.database.sql_files import load
from pgqueue.engine.culprits import (
    by_halves,
    choosing,
    leave_out,
    may_be_a_row,
    tell,
)
from pgqueue.engine.values import Connection, Cursors, exact
from pgqueue.values.causes import is_caused_by

SQL = load(__name__)

CURSORS = "pgqueue_cursor"
PATIENCE = "2s"
"""The lock_timeout of a move of a cursor."""
LEASE = timedelta(seconds=8)
"""How long a reader may be silent before others take over its partitions."""


class Partition(NamedTuple):
    """A partition that a reader has taken.

    Attributes:
        number: the number of the partition, from 0.
        position: the last event that was handled.
        failures: the failures of the next event, so far.
        retry_in: seconds until the next try of this event; 0 or less: now.
        suspect: the event during which a reader was lost; None: no event is suspected.
        lost: how many readers were lost at the suspect; 0: the last one gave the partition back.
    """

    number: int
    position: int
    failures: int
    retry_in: float
    suspect: int | None
    lost: int


class GroupState(NamedTuple):
    """The state of a group, for lists.

    Attributes:
        position: the last event that all partitions have handled.
        lag: the number of positions of the log after this one.
        readers: the number of readers that have its partitions.
        stopped: how many of its partitions an event has stopped.
        error: the last error of an event that waits for its retry, or has stopped a partition; "":
            none.
    """

    name: str
    partitions: int
    position: int
    lag: int
    readers: int
    stopped: int
    error: str
    updated_at: datetime


class GroupPosition(NamedTuple):
    """The position of a partition, for the hand-over of a rebuild.

    Attributes:
        position: the last event that was handled.
        reader: the id of the present or last reader; None: none.
        is_failing: whether the next event has failed.
    """

    group: str
    partition: int
    position: int
    reader: UUID | None
    is_failing: bool


class CursorState(NamedTuple):
    """The state of a partition of a group, for pages.

    Attributes:
        lag: the number of positions of the log after its position.
        reader: the host and the process of the present or last reader; "": none.
        is_read: whether the lease of this reader holds.
        failures: the failures of the next event, so far.
        error: the last error of this event; "": none.
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
    """The dead letter of an event that failed for good.

    Attributes:
        payload, errors: JSON texts.
    """

    channel: str
    key: str
    task: str
    payload: str
    errors: str
    failures: int


def make_group(connection: Cursors, name: str, *, partitions: int, position: int) -> int:
    """Make a group unless it exists; return the number of its partitions.

    Args:
        connection: in a transaction.
        position: the position after which a new group begins.
    """
    with connection.cursor() as cursor:
        given = {"name": name, "partitions": partitions, "position": position}
        cursor.execute(SQL["make"], given)
        cursor.execute(SQL["partitions_of"], given)
        count: int = cursor.fetchone()[0]
        return count


def partitions_of(connection: Cursors, name: str) -> int | None:
    """Return the number of a group's partitions; None: there is no such group."""
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
    """Take partitions without a reader, up to this reader's share of the group.

    Args:
        held: the partitions that this reader has already.
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
    """Return the number of partitions that a reader has beyond its share."""
    # A reader with too many partitions is not the one with the fewest: the statement needs no id.
    given = {"name": name, "lease": lease, "reader": None}
    row = connection.execute(SQL["share"], given).fetchone()
    most, share = row or (has, has)
    if has > most:
        return int(has - most)
    # Only one at a time, since other readers give partitions back, too.
    return 1 if has > share else 0


def renew(connection: Connection, name: str, reader: UUID, *, lease: timedelta = LEASE) -> set[int]:
    """Renew a reader's leases, but of locked rows; return the partitions that are still its own.

    A partition whose renewal the database refuses is left out.

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


def release(connection: Cursors, name: str, reader: UUID, partitions: Collection[int]) -> None:
    """Give the reader's partitions back, but those with locked rows."""
    given = {"name": name, "reader": reader, "partitions": list(partitions)}
    with connection.cursor() as cursor:
        cursor.execute(SQL["release"], given)


def begin(connection: Connection, name: str, partition: int, reader: UUID, *, suspect: int) -> bool:
    """Note that the handler of a suspected event begins.

    If the process ends before the cursor has moved, this loss is charged to the event.

    Returns:
        False if the partition was lost or is locked, or the cursor is beyond the event.
    """
    given = {"name": name, "partition": partition, "reader": reader, "suspect": suspect}
    return _changes(connection, "begin", given)


def acquit(connection: Connection, name: str, partition: int, reader: UUID) -> None:
    """Forget the suspected event of a partition."""
    given = {"name": name, "partition": partition, "reader": reader}
    _changes(connection, "acquit", given)


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
    stored: int = 0,
) -> bool:
    """Move a cursor behind the handled events, never back.

    Args:
        after: the position before the handled events. If the cursor is beyond it, an earlier commit
            has moved it, and nothing changes. None: only `upto` is compared.
        stored: the last known position of the cursor. If the cursor is before it, a failover has
            set it back, and nothing changes.

    Returns:
        False if the partition was lost or is locked, or the cursor is beyond, or was set back.
    """
    given = {"name": name, "partition": partition, "reader": reader, "upto": upto, "stored": stored}
    return _changes(connection, "commit", {**given, "after": upto if after is None else after})


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
    stored: int = 0,
) -> bool:
    """Note that the event after `upto` failed.

    Args:
        upto: the last event that was handled.
        retry_after: the delay of the next try; None: the partition stops there until an operator
            resumes the group.
        stored: the last known position of the cursor, as of `commit`.

    Returns:
        False if the partition was lost or is locked, or the cursor is beyond, or was set back.
    """
    given = {"name": name, "partition": partition, "reader": reader, "upto": upto, "stored": stored}
    failed = {"failures": failures, "error": error, "retry_after": exact(retry_after)}
    return _changes(connection, "fail", {**given, **failed})


def _changes(connection: Cursors, statement: str, given: dict[str, Any]) -> bool:
    """Run a statement on a partition; return whether its row was changed.

    A row that stays locked is not changed, and the log names it. The lock then counts as a loss of
    the partition. A transaction that is open is broken: its caller rolls it back.
    """
    with connection.cursor() as cursor:
        try:
            cursor.execute(SQL[statement], {**given, "patience": PATIENCE})
        except Exception as error:
            if not is_caused_by(error, LockNotAvailable):
                raise
            tell(reading(given["name"]), row=f"{CURSORS} {given['partition']}", error=error)
            return False
        return bool(cursor.rowcount)


def park(connection: Cursors, parked: Parked) -> int:
    """Store a dead letter of an event; return its id."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["park"], parked._asdict())
        id: int = cursor.fetchone()[0]
        return id


def reset(connection: Cursors, name: str, position: int, *, partition: int | None = None) -> bool:
    """Move a group to a position, where its readers go on; return whether the group exists.

    Args:
        partition: the one that is moved; None: all of them.
    """
    given = {"name": name, "position": position, "partition": partition}
    with connection.cursor() as cursor:
        cursor.execute(SQL["reset"], given)
        return bool(cursor.rowcount)


def begin_rebuild(connection: Cursors, rebuilt: str, *, partitions: int, position: int) -> bool:
    """Make the group of a rebuild; return False if it exists.

    Args:
        connection: in a transaction.
        rebuilt: the name of the new group.
    """
    given = {"name": rebuilt, "partitions": partitions, "position": position}
    with connection.cursor() as cursor:
        cursor.execute(SQL["make"], given)
        return bool(cursor.rowcount)


def timeline(connection: Connection) -> str:
    """Return the timeline of the server's WAL: each promotion of a standby begins another one.

    Returns:
        "" where the server does not tell.
    """
    try:
        row = connection.execute(SQL["timeline"]).fetchone()
    except FeatureNotSupported:
        return ""
    return str(row[0]) if row else ""


def positions(
    connection: Cursors, names: Collection[str], *, locks: bool = False
) -> list[GroupPosition]:
    """Return the positions of groups, ordered by their names and partitions.

    Args:
        locks: keep them from moving until the transaction ends.
    """
    with connection.cursor() as cursor:
        statement = SQL["locked_positions" if locks else "positions"]
        cursor.execute(statement, {"names": list(names)})
        return [GroupPosition(*row) for row in cursor.fetchall()]


def seize(connection: Cursors, name: str, reader: UUID, *, lease: timedelta = LEASE) -> bool:
    """Take all partitions of a group from their readers; return whether they were taken.

    They are not taken while the lease of a reader has ended and no other reader has followed.
    """
    with connection.cursor() as cursor:
        cursor.execute(SQL["seize"], {"name": name, "reader": reader, "lease": lease})
        return bool(cursor.rowcount)


def resume(connection: Cursors, name: str) -> int:
    """Resume the partitions that an event has stopped, or delays; return their number."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["resume"], {"name": name})
        return int(cursor.rowcount)


def delete(connection: Cursors, *names: str) -> bool:
    """Delete groups, whose readers lose their partitions; return whether the first one existed."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["delete"], {"names": list(names)})
        return (names[0],) in cursor.fetchall()


def states(connection: Cursors, names: Collection[str] | None = None) -> list[GroupState]:
    """Return the states of all groups, or of the named ones, ordered by name."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["states"], {"names": None if names is None else list(names)})
        return [GroupState(*row) for row in cursor.fetchall()]


def readers(connection: Cursors, names: Collection[str]) -> dict[str, list[str]]:
    """Return the processes that read for groups now, as HOST:PID, by the groups' names."""
    found: dict[str, list[str]] = {name: [] for name in names}
    with connection.cursor() as cursor:
        cursor.execute(SQL["readers"], {"names": list(names)})
        for name, host, pid in cursor.fetchall():
            found[name].append(f"{host}:{pid}")
    return found


def cursors(connection: Cursors, name: str) -> list[CursorState]:
    """Return the states of a group's partitions, ordered by number."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["cursors"], {"name": name})
        return [CursorState(*row) for row in cursor.fetchall()]
