"""Claim from lanes that are governed: by a policy, or because their messages are ordered.

Lock, then look: whoever counts what runs has the lane locked before, and counts in a later
statement. One statement can't do both; it would overshoot the limit, and lose wake-ups.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from pgqueue.connections import in_short, is_pooled
from pgqueue.engine.values import Claim, Connection
from pgqueue.statements import load

SQL = load(__name__)

EVERY_TURN = datetime(1970, 1, 1, tzinfo=UTC)


class Served(NamedTuple):
    """What was claimed of a channel.

    Attributes:
        turn_at: the turn of the last lane that was reached; None: there was none to look at.
        looked_at: when that was.
        is_beside_another: whether there was, but others have it locked; what they leave, they tell
            nobody of.
    """

    claims: list[Claim]
    turn_at: datetime | None = None
    looked_at: datetime | None = None
    is_beside_another: bool = False


def claim(
    connection: Connection,
    channel: str,
    after: datetime,
    limit: int,
    *,
    until: datetime | None = None,
    worker_id: UUID,
    lease: timedelta,
) -> Served:
    """Lease up to `limit` messages of the channel's lanes whose turn it is, in a transaction.

    Args:
        after: turns before this one are not looked for: claims have left dead rows there.
        until: turns from this one on are not, either: those lanes were looked at since.
    """
    with in_short(connection):
        room = _room(connection, channel, limit)
        if room is None:
            return Served([], is_beside_another=True)
        if room.limit <= 0:
            return Served([])
        lanes = connection.execute(
            SQL["lanes"], {"channel": channel, "after": after, "until": until, "lanes": room.limit}
        ).fetchall()
        if not lanes:
            return Served([], is_beside_another=_are_left(connection, channel, after, until))
        rows = connection.execute(
            SQL["claim"],
            {
                "channel": channel,
                "keys": [key for key, _, _ in lanes],
                "limit": room.limit,
                "is_pooled": is_pooled(connection),
                "worker_id": worker_id,
                "lease": lease,
            },
        ).fetchall()
        claims = [Claim._make((*row[2:], worker_id)) for row in rows if row[2] is not None]
        if room.is_gated and claims:
            connection.execute(SQL["charge"], {"channel": channel, "started": len(claims)})
    _, reached, *_ = rows[0]
    _, turn_at, looked_at = lanes[reached - 1]
    return Served(claims, turn_at, looked_at)


class _Room(NamedTuple):
    limit: int
    is_gated: bool


def _room(connection: Connection, channel: str, limit: int) -> _Room | None:
    """Lock the channel's gate, if any; return what may be started, None: ask again soon."""
    gate = connection.execute(SQL["gate"], {"channel": channel}).fetchone()
    if gate is None:
        return _Room(limit, is_gated=False)
    [is_locked] = gate
    if not is_locked:
        return None
    row = connection.execute(SQL["room"], {"channel": channel, "limit": limit}).fetchone()
    # No row: the policy is gone since, and whoever routes the bell of that waits for this gate.
    return _Room(row[0], is_gated=True) if row else None


def _are_left(
    connection: Connection, channel: str, after: datetime, until: datetime | None
) -> bool:
    """Say whether lanes are left whose turn it is. Some may have come before those looked at."""
    after = after if until is None else EVERY_TURN
    row = connection.execute(
        SQL["are_left"], {"channel": channel, "after": after, "until": until}
    ).fetchone()
    return bool(row and row[0])
