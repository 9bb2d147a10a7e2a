"""How far history was exported: retention may wait for it."""

from __future__ import annotations

from typing import NamedTuple

from pgqueue.database.sql_files import load
from pgqueue.engine.values import Connection, Position

SQL = load(__name__)

NOTHING = Position(0, 0)
"""Before all rows of history."""
COUNTED = 100_000
"""Rows that are counted, at most."""


class ExportTarget(NamedTuple):
    """Where history is exported to, the last row there, and the seconds since the last export."""

    name: str
    last: Position
    silent_for: float


class Behind(NamedTuple):
    """What is not exported yet: how many messages, and the seconds since the first of them ended.

    Of more than `COUNTED` messages, one more than that.
    """

    messages: int
    seconds: float


def targets(connection: Connection) -> list[ExportTarget]:
    """Return all targets; first that which is furthest behind."""
    rows = connection.execute(SQL["targets"])
    return [ExportTarget(name, Position(txid, id), silent) for name, txid, id, silent in rows]


def passed(connection: Connection) -> Position:
    """Return the last row of history that all targets have; without any target, one before all."""
    return next((each.last for each in targets(connection)), NOTHING)


def behind(connection: Connection, exported: Position) -> Behind:
    """Return what of history is after a position."""
    row = connection.execute(
        SQL["behind"], {"txid": exported.txid, "id": exported.id, "limit": COUNTED + 1}
    ).fetchone()
    return Behind(*row) if row else Behind(0, 0)
