"""Read the log: events after a position, in order."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from pgqueue.engine.event_partitions import SIZE
from pgqueue.engine.values import Cursors
from pgqueue.filters import Filter
from pgqueue.statements import load

SQL = load(__name__)

REACH = 100_000
"""Positions that one statement looks through, at most: a filter may match few of them."""

BYTES = 16 * 1024 * 1024
"""Of payloads, as they are stored, that one statement reads, or one event more."""

ALL = "true"
"""The condition that every event meets."""


class Stored(NamedTuple):
    """An event of the log. JSON columns are texts or bytes, not parsed yet."""

    position: int
    topic: str
    key: str
    payload: Any
    metadata: Any
    created_at: datetime


class Stretch(NamedTuple):
    """What was read.

    Attributes:
        upto: the last position that was looked at: one who reads on continues after it.
        floor: the last position that retention has removed; 0: none.
        head: the last position of the log.
    """

    events: list[Stored]
    upto: int
    floor: int
    head: int


class Bounds(NamedTuple):
    """The last position that retention has removed, and the last of the log."""

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
) -> Stretch:
    """Read up to `limit` events after a position, within the next `reach` positions.

    Fewer, where their payloads take more than `BYTES`.

    Args:
        condition: SQL over an event `e`, made of no values.
        parameters: its parameters.
    """
    with connection.cursor() as cursor:
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
    events = [Stored(*row[3:]) for row in rows if row[2]]
    is_cut = len(events) == limit or (len(events) < len(rows) and bool(events))
    upto = events[-1].position if is_cut else max(after, min(head, after + reach))
    return Stretch(events, upto, floor, head)


def bounds(connection: Cursors) -> Bounds:
    """Return where the log begins and ends."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["bounds"])
        return Bounds(*cursor.fetchone())


def position_at(connection: Cursors, time: datetime) -> int:
    """Return the position before the first event that was published at a time or later.

    Events have the order of their commits, not of their times: a later one may be older.
    """
    with connection.cursor() as cursor:
        cursor.execute(SQL["position_at"], {"time": time})
        position: int = cursor.fetchone()[0]
        return position


def is_anything_waiting(connection: Cursors) -> bool:
    """Return whether an event has no position yet."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["is_anything_waiting"])
        return cursor.fetchone() is not None


def is_next_older(connection: Cursors, *, after: int, age: timedelta) -> bool:
    """Return whether the first event after a position was published longer ago than this."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["is_next_older"], {"after": after, "age": age})
        is_older: bool = cursor.fetchone()[0]
        return is_older


def meeting(
    connection: Cursors, conditions: Sequence[Filter], asked: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return which of the pairs of a filter and a position are such that its conditions hold.

    Args:
        asked: the index of a filter, and a position of the log. Topics are not looked at.
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
