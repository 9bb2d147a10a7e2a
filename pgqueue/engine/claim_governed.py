"""Claim from governed lanes: lanes with a policy, or with ordered messages.

Lock, then look: the lane is locked first, and running messages are counted in a later statement.
One statement can't do both; it would exceed the limit and lose wake-ups.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from pgqueue.engine.values import Claim, Connection
from pgqueue.statements import load
from pgqueue.transactions import in_short, is_pooled

SQL = load(__name__)

EVERY_TURN = datetime(1970, 1, 1, tzinfo=UTC)


class Served(NamedTuple):
    """What was claimed from a channel.

    Attributes:
        turn_at: the turn of the last lane that was reached; None: no lane could be locked.
        looked_at: when that was.
        is_beside_another: whether other workers have lanes locked. They do not notify when they
            leave messages, so it is worth looking again soon.
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
    takes_raw: bool = True,
) -> Served:
    """Lease up to `limit` messages of the channel's lanes whose turn it is, in a transaction.

    Args:
        after: lanes with an earlier turn are not read: earlier claims left dead index entries
            there.
        until: lanes with this turn or a later one are not read: they were looked at already.
        takes_raw: whether raw messages are taken whose channel names no handler.
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
                "takes_raw": takes_raw,
                "is_pooled": is_pooled(connection),
                "worker_id": worker_id,
                "lease": lease,
            },
        ).fetchall()
        claims = [Claim._make((*row[2:], worker_id, ())) for row in rows if row[2] is not None]
        if room.is_gated and claims:
            connection.execute(SQL["charge"], {"channel": channel, "started": len(claims)})
    _, reached, *_ = rows[0]
    _, turn_at, looked_at = lanes[reached - 1]
    return Served(claims, turn_at, looked_at)


class _Room(NamedTuple):
    limit: int
    is_gated: bool


def _room(connection: Connection, channel: str, limit: int) -> _Room | None:
    """Lock the channel's gate, if any; return how many may start. None: ask again soon."""
    gate = connection.execute(SQL["gate"], {"channel": channel}).fetchone()
    if gate is None:
        return _Room(limit, is_gated=False)
    [is_locked] = gate
    if not is_locked:
        return None
    row = connection.execute(SQL["room"], {"channel": channel, "limit": limit}).fetchone()
    # No row: the policy was deleted meanwhile, and the router of its bell waits for this gate.
    return _Room(row[0], is_gated=True) if row else None


def _are_left(
    connection: Connection, channel: str, after: datetime, until: datetime | None
) -> bool:
    """Return whether runnable lanes are left. Some may lie before those that were read."""
    after = after if until is None else EVERY_TURN
    row = connection.execute(
        SQL["are_left"], {"channel": channel, "after": after, "until": until}
    ).fetchone()
    return bool(row and row[0])
