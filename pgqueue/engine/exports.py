"""The progress of exports of history: retention may wait for them."""

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
    """A target of exports of history, its last row, and the seconds since the last export."""

    name: str
    last: Position
    silent_for: float


class Behind(NamedTuple):
    """The number of messages that are not exported, and the seconds since the first one's end.

    A number of `COUNTED` + 1 stands for any larger number.
    """

    messages: int
    seconds: float


def targets(connection: Connection) -> list[ExportTarget]:
    """Return all targets; the one that is furthest behind comes first."""
    rows = connection.execute(SQL["targets"])
    return [ExportTarget(name, Position(txid, id), silent) for name, txid, id, silent in rows]


def passed(connection: Connection) -> Position:
    """Return the last row of history that all targets have; without a target, `NOTHING`."""
    return next((each.last for each in targets(connection)), NOTHING)


def behind(connection: Connection, exported: Position) -> Behind:
    """Return the number of messages after a position of history, and the age of the first one."""
    row = connection.execute(
        SQL["behind"], {"txid": exported.txid, "id": exported.id, "limit": COUNTED + 1}
    ).fetchone()
    return Behind(*row) if row else Behind(0, 0)
