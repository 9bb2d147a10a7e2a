"""Claim from governed lanes: lanes with a policy, or with ordered messages.

Lock, then look: the lane is locked first, and running messages are counted in a later statement.
One statement for both would not see concurrent changes: it would exceed limits and lose wake-ups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from pgqueue.database.sql_files import load
from pgqueue.database.transactions import in_short, is_pooled
from pgqueue.engine.claim import BYTES, CLAIM, MESSAGES, attempt, readable, unreadable
from pgqueue.engine.culprits import (
    MOST,
    by_halves,
    leave_out,
    left_out,
    may_be_a_row,
    may_be_own,
    search,
    shown,
)
from pgqueue.engine.values import Claim, Connection, exact

SQL = load(__name__)

LANES, GATES = "pgqueue_lane", "pgqueue_gate"
EVERY_TURN = datetime(1970, 1, 1, tzinfo=UTC)


class GovernedClaims(NamedTuple):
    """The result of a claim from one channel.

    Attributes:
        turn_at: the turn of the last lane that was reached; None: no lane could be locked.
        looked_at: the time at which this lane was locked.
        is_beside_another: whether other workers have lanes locked. They do not notify when they
            leave messages, so the worker should look again soon.
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
    size: int = BYTES,
    takes_raw: bool = True,
) -> GovernedClaims:
    """Lease up to `limit` messages of the channel's lanes whose turn it is, in a transaction.

    Args:
        after: lanes with an earlier turn are not read: earlier claims left dead index entries
            there.
        until: lanes with this turn or a later one are not read: they were looked at already.
        size: the most bytes that they have, unless the first message alone has more.
        takes_raw: whether raw messages are taken whose channel names no handler.
    """
    if channel in left_out(connection, CLAIM, GATES):
        return GovernedClaims([])
    given: dict[str, Any] = {
        "channel": channel,
        "after": after,
        "until": until,
        "limit": limit,
        "worker_id": worker_id,
        "lease": exact(lease),
        "size": size,
        "takes_raw": takes_raw,
        "is_pooled": is_pooled(connection),
        "locked": [],
    }
    for _ in range(MOST):
        try:
            return _claim(connection, given)
        except Exception as error:
            if not may_be_a_row(connection, error):
                raise
            if not _leave_out_culprits(connection, given, error):
                raise
            if channel in left_out(connection, CLAIM, GATES):
                return GovernedClaims([])
    return _claim(connection, given)


def _claim(connection: Connection, given: Mapping[str, Any]) -> GovernedClaims:
    nothing = GovernedClaims([], is_beside_another=True)
    try:
        return _claim_in_short(connection, given)
    except _BreakerIsLocked as error:
        locked = error.keys
    if not locked:
        return nothing
    try:
        served = _claim_in_short(connection, {**given, "locked": locked})
    except _BreakerIsLocked:
        return nothing
    # The lanes that were left out keep their turns: the next claim begins before them, too.
    turn_at = None if served.turn_at is None else given["after"]
    return served._replace(turn_at=turn_at, is_beside_another=True)


def _claim_in_short(connection: Connection, given: Mapping[str, Any]) -> GovernedClaims:
    with in_short(connection):
        room = _room(connection, given["channel"], given["limit"])
        if room is None:
            return GovernedClaims([], is_beside_another=True)
        if room.limit <= 0:
            return GovernedClaims([])
        taken = _take(connection, given, room, URGENT) if room.has_urgent else None
        is_urgent = taken is not None and (taken.claims != [] or taken.is_full)
        if not is_urgent:
            taken = _take(connection, given, room, IN_TURN)
        if taken is None:
            return GovernedClaims([], is_beside_another=_are_left(connection, given))
    if taken.is_full:
        return GovernedClaims([])
    claims = readable(connection, taken.claims, taken.unreadable)
    turn_at = given["after"] if is_urgent else taken.turn_at  # urgent lanes may have any turn
    return GovernedClaims(claims, turn_at, taken.looked_at)


class _Kind(NamedTuple):
    """The statements for urgent messages, or for the messages of lanes whose turn it is."""

    lanes: str
    claim: str
    chosen: str


IN_TURN = _Kind("lanes", "claim", "chosen")
URGENT = _Kind("urgent_lanes", "claim_urgent", "chosen_urgent")


class _Taken(NamedTuple):
    """The messages of a claim.

    Attributes:
        unreadable: as `readable` takes it.
        is_full: the first message is too heavy for the channel's limits now.
        turn_at, looked_at: as of GovernedClaims.
    """

    claims: list[Claim]
    unreadable: Any
    is_full: bool
    turn_at: datetime
    looked_at: datetime


def _take(
    connection: Connection, given: Mapping[str, Any], room: _Room, kind: _Kind
) -> _Taken | None:
    """Lock lanes, and claim messages from them; None: no lane could be locked."""
    lanes = _lock(connection, given, room, kind)
    if not lanes:
        return None
    cursor = connection.execute(SQL[kind.claim], _to_claim(connection, given, room, lanes, kind))
    rows = cursor.fetchall()
    claims = [Claim._make((*row[6:], given["worker_id"], ())) for row in rows if row[6] is not None]
    damaged = unreadable(cursor, [row[6] for row in rows])
    _, reached, started, heaviest, too_heavy, probes, *_ = rows[0]
    probes += room.is_half_open and claims != []
    if probes and probes > _store_probes(connection, given["channel"], claims, room):
        keys = [] if room.is_half_open else [each.key for each in claims]
        rows = connection.execute(SQL["locked_breakers"], {**given, "keys": keys}).fetchall()
        raise _BreakerIsLocked([key for (key,) in rows])
    if room.is_gated and (claims or too_heavy):
        weights = {"started": started, "heaviest": heaviest, "next": too_heavy or 1}
        connection.execute(SQL["charge"], {"channel": given["channel"], **weights})
    if room.has_urgent:
        keys = [each.key for each in lanes]
        named = {"channels": [given["channel"]] * len(keys), "keys": keys}
        connection.execute(SQL["mark_urgent"], named)
        if kind is URGENT and not claims and reached:
            connection.execute(SQL["put_urgency_off"], {"channel": given["channel"], "keys": keys})
    _, turn_at, looked_at = lanes[max(0, reached - 1)]
    return _Taken(claims, damaged, not reached, turn_at, looked_at)


class _BreakerIsLocked(Exception):
    """Another transaction writes the breaker of which this claim has taken the probe.

    Attributes:
        keys: the keys whose breakers are locked; none: it is the breaker of the channel.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        super().__init__(keys)
        self.keys = keys


def _store_probes(
    connection: Connection, channel: str, claims: Sequence[Claim], room: _Room
) -> int:
    """Store which claims are probes of breakers; return how many were stored."""
    given = {
        "channel": channel,
        "is_of_channel": room.is_half_open,
        "ids": [each.id for each in claims],
        "attempts": [each.attempt for each in claims],
        "keys": [each.key for each in claims],
    }
    return connection.execute(SQL["probe"], given).rowcount


class _Lane(NamedTuple):
    key: str
    turn_at: datetime
    looked_at: datetime


def _lock(
    connection: Connection, given: Mapping[str, Any], room: _Room, kind: _Kind
) -> list[_Lane]:
    """Lock the lanes whose turn it is, or urgent ones, and return them."""
    aside = _lanes_left_out(connection, given)
    rows = connection.execute(SQL[kind.lanes], {**given, "lanes": room.limit, "aside": aside})
    return [_Lane(*row) for row in rows]


def _to_claim(
    connection: Connection,
    given: Mapping[str, Any],
    room: _Room,
    lanes: Sequence[_Lane],
    kind: _Kind,
) -> Mapping[str, Any]:
    return {
        **given,
        "is_urgent": kind is URGENT,
        "keys": [each.key for each in lanes],
        "limit": room.limit,
        "gate_places": room.places,
        "gate_tokens": room.tokens,
        "gate_running": room.max_running,
        "gate_burst": room.burst,
        "aside": left_out(connection, CLAIM, MESSAGES),
    }


def _lanes_left_out(connection: Connection, given: Mapping[str, Any]) -> list[str]:
    channel = given["channel"]
    damaged = [key for of, key in left_out(connection, CLAIM, LANES) if of == channel]
    return [*damaged, *given["locked"]]


def _leave_out_culprits(connection: Connection, given: Mapping[str, Any], error: Exception) -> bool:
    """Leave out the gate, lanes or messages that make a claim raise; return whether it was any."""
    channel = given["channel"]
    with in_short(connection):
        room = _room(connection, channel, given["limit"])
        if room is None:
            return True  # Another worker has the gate locked: that is no error.
        if room.is_gated:

            def charge(channels: Sequence[str]) -> None:
                connection.execute(SQL["charge_none"], {"channels": list(channels)})

            with connection.transaction():
                if _raised(connection, partial(charge, [channel])):
                    return bool(
                        search(connection, GATES, [channel], charge, what=CLAIM, error=error)
                    )
        kinds = [URGENT, IN_TURN] if room.has_urgent else [IN_TURN]
        return any(_leave_out_of_lanes(connection, given, room, each, error) for each in kinds)


def _leave_out_of_lanes(
    connection: Connection,
    given: Mapping[str, Any],
    room: _Room,
    kind: _Kind,
    error: Exception,
) -> bool:
    lanes = _lock(connection, given, room, kind) if room.limit > 0 else []
    found = []

    def attempt_lanes(some: Sequence[_Lane]) -> None:
        with connection.transaction(force_rollback=True):
            connection.execute(SQL[kind.claim], _to_claim(connection, given, room, some, kind))

    def leave_out_of(lane: _Lane, error: Exception) -> None:
        rows = connection.execute(
            SQL[kind.chosen], _to_claim(connection, given, room, [lane], kind)
        )
        ids = [id for (id,) in rows]
        attempt_messages = attempt(connection, given)
        messages = []
        if _raised(connection, partial(attempt_messages, ids)):
            messages = search(connection, MESSAGES, ids, attempt_messages, what=CLAIM, error=error)
        if not messages:
            name = given["channel"], lane.key
            leave_out(connection, CLAIM, LANES, name, row=shown(*name), error=error)
        found.append(lane)
        if len(found) >= MOST:
            raise error

    list(by_halves(attempt_lanes, lanes, leave_out_of, error=error))
    return bool(found)


def _raised(connection: Connection, do: Callable[[], object]) -> bool:
    """Return whether a function raises an error that may be a row's fault; undo its changes."""
    try:
        with connection.transaction(force_rollback=True):
            do()
    except Exception as error:
        if not may_be_own(error):
            raise
        return True
    return False


class _Room(NamedTuple):
    """How much a channel's policy lets start.

    Attributes:
        limit: the most messages.
        has_urgent: whether messages of the channel may be urgent.
        places: the sum of their weights by `max_running`; None: it has no limit.
        tokens: the same by the rate.
        max_running: the most that a message weighs for `max_running`.
        burst: the same for the rate.
        is_half_open: whether the message that starts is the probe of the channel's breaker.
    """

    limit: int
    is_gated: bool
    has_urgent: bool
    places: int | None = None
    tokens: int | None = None
    max_running: int | None = None
    burst: int | None = None
    is_half_open: bool = False


def _room(connection: Connection, channel: str, limit: int) -> _Room | None:
    """Lock the channel's gate, if any; return how many messages may start. None: ask again soon."""
    [gate] = connection.execute(SQL["gate"], {"channel": channel}).fetchall()
    is_gated, is_locked, has_urgent = gate
    if not is_gated:
        return _Room(limit, is_gated=False, has_urgent=has_urgent)
    if not is_locked:
        return None
    row = connection.execute(SQL["room"], {"channel": channel, "limit": limit}).fetchone()
    # No row: the policy was deleted meanwhile, and the router of its bell waits for this gate.
    if row is None:
        return None
    most, *limits = row
    return _Room(most, True, has_urgent, *limits)


def _are_left(connection: Connection, given: Mapping[str, Any]) -> bool:
    """Return whether runnable lanes are left. Some may lie before the lanes that were read."""
    after = given["after"] if given["until"] is None else EVERY_TURN
    aside = _lanes_left_out(connection, given)
    row = connection.execute(SQL["are_left"], {**given, "after": after, "aside": aside}).fetchone()
    return bool(row and row[0])
