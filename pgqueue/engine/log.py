"""Read the log: events after a position, in order, or the newest events of a key, backwards."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from time import monotonic
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from pgqueue.database.sql_files import load
from pgqueue.engine.event_partitions import SIZE
from pgqueue.engine.values import Connection, Cursors
from pgqueue.options.filters import Filter
from pgqueue.values.readable import reading

SQL = load(__name__)

REACH = 100_000
"""Positions that one statement looks through, at most: a filter may match few of them."""
REACH_OF_A_KEY = SIZE
"""The same for a filter by key."""

BYTES = 16 * 1024 * 1024
"""Bytes of stored payloads after which a statement reads no further event."""

EXPENSIVE = 0.005
"""Seconds: a look at the inbox that takes longer walks over dead entries of its index."""
COST = 10
"""The pause before the next look from the front, as a multiple of the last look's duration."""
LONGEST_PAUSE = 1.0
RECENT = 5000
"""The number of last ids whose events a look finds at once, whenever they are committed."""

ALL = "true"
"""The condition that every event meets."""


class StoredEvent(NamedTuple):
    """An event of the log. JSON columns are texts or bytes, not parsed yet."""

    position: int
    topic: str
    key: str
    payload: Any
    metadata: Any
    created_at: datetime


class LogStretch(NamedTuple):
    """The result of a read.

    Attributes:
        upto: the last position that was looked at: the next read continues after it.
        floor: the last position that retention has removed; 0: none.
        head: the last position of the log.
    """

    events: list[StoredEvent]
    upto: int
    floor: int
    head: int


class LogPartition(NamedTuple):
    """A partition of the log, and the position that it begins with."""

    oid: int
    start: int


class Bounds(NamedTuple):
    """The last position that retention has removed, and the last position of the log."""

    floor: int
    head: int


def read(
    connection: Cursors,
    *,
    after: int,
    limit: int,
    condition: str = ALL,
    parameters: Mapping[str, Any] | None = None,
    reach: int = REACH,
) -> LogStretch:
    """Read up to `limit` events after a position, within the next `reach` positions.

    It reads fewer events where their payloads have more than `BYTES`.

    Args:
        condition: SQL over an event `e`, without values of users.
        parameters: the parameters of the condition.
    """
    with reading(connection), connection.cursor() as cursor:
        cursor.execute(
            SQL["read"].format(condition=condition),
            {
                **(parameters or {}),
                "after": after,
                "limit": limit,
                "reach": reach,
                "size": SIZE,
                "bytes": BYTES,
            },
        )
        rows = cursor.fetchall()
    floor, head = rows[0][:2]
    events = [StoredEvent(*row[3:]) for row in rows if row[2]]
    is_cut = len(events) == limit or (len(events) < len(rows) and bool(events))
    upto = events[-1].position if is_cut else max(after, min(head, after + reach))
    return LogStretch(events, upto, floor, head)


def partitions(connection: Cursors) -> list[LogPartition]:
    """Return the partitions of the log, the newest first."""
    with reading(connection), connection.cursor() as cursor:
        cursor.execute(SQL["partitions"], {"size": SIZE})
        return [LogPartition(*row) for row in cursor.fetchall()]


def read_backwards(
    connection: Cursors, part: LogPartition, *, topics: Sequence[str], key: str, limit: int
) -> list[StoredEvent]:
    """Return the newest events of some topics and a key in a partition, the newest first."""
    with reading(connection), connection.cursor() as cursor:
        given = {"part": part.oid, "topics": list(topics), "key": key, "limit": limit}
        cursor.execute(SQL["read_backwards"], given)
        return [StoredEvent(*row) for row in cursor.fetchall()]


def time_after(connection: Cursors, position: int) -> datetime | None:
    """Return the time of the first event from a position on; None: there is none."""
    with reading(connection), connection.cursor() as cursor:
        cursor.execute(SQL["time_after"], {"position": position})
        row = cursor.fetchone()
        return row[0] if row else None


def bounds(connection: Cursors) -> Bounds:
    """Return the bounds of the log."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["bounds"])
        return Bounds(*cursor.fetchone())


def existing(connection: Cursors) -> Bounds:
    """Return the position before the first event that exists, and the log's last position."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["beginning"])
        return Bounds(*cursor.fetchone())


def position_at(connection: Cursors, time: datetime) -> int:
    """Return the position before the first event that was published at a time or later.

    Events have the order of their commits, not of their times: a later event may be older.
    """
    with connection.cursor() as cursor:
        cursor.execute(SQL["position_at"], {"time": time})
        position: int = cursor.fetchone()[0]
        return position


class _Mark(NamedTuple):
    """The id after which a session's looks begin, and its end by the monotonic clock."""

    after: int
    until: float


_marks: WeakKeyDictionary[Any, _Mark] = WeakKeyDictionary()
"""The marks by connection. Only connections with expensive looks from the front have one."""


def is_anything_waiting(connection: Cursors) -> bool:
    """Return whether an event has no position yet, and this role may give it one."""
    return _is_anything_after(connection, 0)


def has_anything_come(connection: Connection) -> bool:
    """Return whether an event seems to have no position yet, for readers that look repeatedly.

    The entries of moved events stay in the inbox's index as long as an older snapshot exists. If
    they make a look expensive, the next looks begin behind nearly all of them. These looks miss an
    event whose transaction was open while `RECENT` others were published. A look from the front
    finds it within `LONGEST_PAUSE`.
    """
    now = monotonic()
    mark = _marks.get(connection)
    if mark and now < mark.until:
        return _is_anything_after(connection, mark.after)
    found = _is_anything_after(connection, 0)
    took = monotonic() - now
    _marks.pop(connection, None)
    if took > EXPENSIVE:
        row = connection.execute(SQL["last_published"]).fetchone()
        after = (row[0] if row else 0) - RECENT
        _marks[connection] = _Mark(after, monotonic() + min(COST * took, LONGEST_PAUSE))
    return found


def is_marked(connection: Connection) -> bool:
    """Return whether the next look by `has_anything_come` may begin behind the front."""
    mark = _marks.get(connection)
    return mark is not None and monotonic() < mark.until


def _is_anything_after(connection: Cursors, after: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(SQL["is_anything_waiting"], {"after": after})
        return cursor.fetchone() is not None


def is_next_older(connection: Cursors, *, after: int, age: timedelta) -> bool:
    """Return whether the first event after a position is older than `age`."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["is_next_older"], {"after": after, "age": age})
        is_older: bool = cursor.fetchone()[0]
        return is_older


def meeting(
    connection: Cursors, conditions: Sequence[Filter], asked: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return the pairs of a filter and a position whose event meets the filter's conditions.

    Args:
        asked: pairs of a filter's index and a position of the log. Topics are not compared.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            SQL["meeting"],
            {
                "paths": [each.path for each in conditions],
                "vars": [json.dumps(each.variables) for each in conditions],
                "numbers": [number + 1 for number, _ in asked],
                "positions": [position for _, position in asked],
            },
        )
        return [(number, position) for number, position in cursor.fetchall()]
