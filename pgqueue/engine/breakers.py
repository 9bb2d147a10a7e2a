"""Read and close circuit breakers. Claims (`claim_governed`) obey them, and settles open them.

A breaker has a row only while failures count: `shared.heard` calls the functions that write it. A
claim takes one probe behind the lock of the gate or the lane, so that the fleet has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, NamedTuple

from pgqueue.database.sql_files import load
from pgqueue.engine.values import Connection

SQL = load(__name__)

SHOWN = 100


class BreakerSeen(NamedTuple):
    """A circuit breaker that has counted a failure.

    Attributes:
        key: its key; "": it is the breaker of the channel as a whole.
        state: "closed", "open", "probing": one message runs, or "half-open": the next message is
            tried.
        open_until: the end of the last pause; None: it is closed.
        probe_id: the message that is tried; None: there is none now.
        failures: the failed runs that count now.
        most: the failures that open it.
    """

    channel: str
    key: str
    state: Literal["closed", "open", "probing", "half-open"]
    open_until: datetime | None
    probe_id: int | None
    failures: int
    most: int

    @property
    def stops(self) -> bool:
        """Whether it lets no message start now."""
        return self.state in ("open", "probing")


def seen(
    connection: Connection,
    channel: str | None = None,
    *,
    keys: Sequence[str] | None = None,
    limit: int = SHOWN,
) -> list[BreakerSeen]:
    """Return the breakers that have counted a failure, the ones that are not closed first.

    Args:
        channel: the breakers of this channel and its keys; None: of all channels.
        keys: only the breakers of these keys; "" is the channel as a whole.
    """
    given = {
        "channel": channel,
        "keys": None if keys is None else list(keys),
        "limit": limit,
    }
    return [BreakerSeen(*row) for row in connection.execute(SQL["seen"], given)]


def stopping(connection: Connection) -> dict[str, int]:
    """Return the number of breakers that let no message start, by the channels with a breaker."""
    return dict(connection.execute(SQL["stopping"]).fetchall())


def close(connection: Connection, channel: str) -> int:
    """Close the breakers of a channel and its keys; return how many were not closed."""
    row = connection.execute(SQL["close"], {"channel": channel}).fetchone()
    return row[0] if row else 0
