"""How far exports and streams are behind; retention may wait for exports."""

from __future__ import annotations

from typing import NamedTuple

from pgqueue.database.sql_files import load
from pgqueue.engine.values import Connection, Position

SQL = load(__name__)

NOTHING = Position(0, 0)
"""The position before all rows of history."""
COUNTED = 100_000
"""Rows that `behind` counts, at most."""


class ExportTarget(NamedTuple):
    """A target of exports, its last row of history and last event.

    Attributes:
        silent_for: the seconds since the last export.
    """

    name: str
    last: Position
    silent_for: float
    event: int


class Behind(NamedTuple):
    """The number of messages that were not read, and the seconds since the first one's end.

    A number beyond the limit of the count stands for any larger number.
    """

    messages: int
    seconds: float


class EventsBehind(NamedTuple):
    """The number of positions that were not read, and the seconds since the first was published."""

    events: int
    seconds: float


def targets(connection: Connection) -> list[ExportTarget]:
    """Return all targets; the one that is furthest behind comes first."""
    rows = connection.execute(SQL["targets"])
    return [
        ExportTarget(name, Position(txid, id), silent, event)
        for name, txid, id, silent, event in rows
    ]


def passed(connection: Connection) -> Position:
    """Return the last row of history that all targets have; without a target, `NOTHING`."""
    return next((each.last for each in targets(connection)), NOTHING)


def behind(connection: Connection, read: Position, *, limit: int = COUNTED) -> Behind:
    """Return the number of messages after a position of history, and the age of the first one.

    Args:
        read: the last row that was exported, or that a stream has read.
        limit: the messages that are counted, at most; `limit` + 1 stands for any larger number.
    """
    row = connection.execute(
        SQL["behind"], {"txid": read.txid, "id": read.id, "limit": limit + 1}
    ).fetchone()
    return Behind(*row) if row else Behind(0, 0)


def events_behind(connection: Connection, position: int) -> EventsBehind:
    """Return the number of positions after one of the log, and the age of the next event.

    The next event may not have a position yet: then only its age tells of it.
    """
    row = connection.execute(SQL["events_behind"], {"position": position}).fetchone()
    return EventsBehind(*row) if row else EventsBehind(0, 0)
