from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from pgqueue.database.sql_files import load
from pgqueue.engine.values import Connection, Cursors

SQL = load(__name__)

LIMIT = 1000
MOST = 10_000
"""Channels that are looked at where all channels are asked for."""
LANES = 100
LANE_BOUND = 100
LAST_ENDED = 10_000


class LaneSeen(NamedTuple):
    """A governed lane and the count of its messages; 100 stands for 100 or more."""

    key: str
    state: str
    turn_at: datetime
    wake_at: datetime | None
    running: int
    ready: int


def in_use(connection: Cursors, *, limit: int = LIMIT) -> list[str]:
    """Return the channels that are configured or have a message, ordered by name."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["in_use"], {"limit": limit})
        return [name for (name,) in cursor.fetchall()]


def ended(connection: Connection, names: Sequence[str]) -> list[str]:
    """Return the channels among these that the last 10 000 ended messages belong to."""
    rows = connection.execute(SQL["ended"], {"channels": list(names), "last": LAST_ENDED})
    return [name for (name,) in rows]


def lanes(connection: Cursors, channel: str, *, limit: int = LANES) -> list[LaneSeen]:
    """Return the governed lanes of a channel, ordered by key."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["lanes"], {"channel": channel, "limit": limit, "bound": LANE_BOUND})
        return [LaneSeen(*row) for row in cursor.fetchall()]
