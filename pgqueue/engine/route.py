"""Bring governed lanes up to date with the changes of their messages, and flows with their ends.

A statement that makes a message ready, or frees its place, inserts a bell and waits for no other
transaction. Before a worker claims, it takes the bells and marks their lanes runnable. An advisory
lock lets one worker route at a time; the others can leave it to that one.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from pgqueue.engine import flows
from pgqueue.engine.values import Connection
from pgqueue.statements import load
from pgqueue.transactions import in_short

SQL = load(__name__)

BATCH = 5000
STRAYS = 1000


class Look(NamedTuple):
    """What there is to route.

    Attributes:
        has_rung: there are bells.
        has_policies: messages may have been stored before the policy that governs them.
        wake_in: how long until a rate allows the next start; None: no rate delays anything.
    """

    has_rung: bool
    has_policies: bool
    wake_in: timedelta | None


def look(connection: Connection, *, after: int) -> Look:
    """Return what there is to route; bells up to the id `after` were taken before."""
    row = connection.execute(SQL["look"], {"after": after}).fetchone()
    has_rung, has_policies, wake_in = row or (False, False, None)
    return Look(has_rung, has_policies, None if wake_in is None else timedelta(seconds=wake_in))


class Routed(NamedTuple):
    """What came of routing.

    Attributes:
        after: the id of the last bell that was taken, or the one before.
        channels: where messages of flows wait no more, and no policy governs them.
    """

    after: int
    channels: frozenset[str]


def route(connection: Connection, *, after: int) -> Routed | None:
    """Mark the lanes that have bells, and the throttled ones whose time has come, in a transaction.

    Messages of flows whose parents have ended are let go.

    Returns:
        None: another session is routing.
    """
    freed: list[flows.Freed] = []
    with in_short(connection):
        rows = connection.execute(SQL["take"], {"after": after, "limit": BATCH}).fetchall()
        if not rows[0][0]:
            return None
        if rows[0][1] is not None:
            after = max(id for _, id, *_ in rows)
            freed = flows.advance(connection, {id for *_, ids in rows for id in ids or ()})
            lanes = {(channel, key) for *_, channel, key, ids in rows if ids is None}
            _mark(connection, lanes | {(each.channel, each.key) for each in freed if each.governed})
        connection.execute(SQL["ripen"], {"limit": BATCH})
    return Routed(after, frozenset(each.channel for each in freed if not each.governed))


def _mark(connection: Connection, rung: set[tuple[str, str | None]]) -> None:
    whole = sorted({channel for channel, key in rung if key is None})
    if whole:
        rung |= set(connection.execute(SQL["blocked"], {"channels": whole}).fetchall())
    lanes = sorted((channel, key) for channel, key in rung if key is not None)
    if lanes:
        connection.execute(
            SQL["mark"],
            {"channels": [channel for channel, _ in lanes], "keys": [key for _, key in lanes]},
        )
    if whole:
        connection.execute(SQL["mark_all"], {"channels": whole})
        connection.execute(SQL["mark_gates"], {"channels": whole})


def adopt(connection: Connection) -> int | None:
    """Mark messages as governed that were stored before the policy that governs them.

    Returns:
        How many; None: another session is routing.
    """
    with in_short(connection):
        if not _locked(connection):
            return None
        strays = connection.execute(SQL["strays"], {"limit": STRAYS}).fetchall()
        if strays:
            _mark(connection, set(strays))
    return len(strays)


def tidy(connection: Connection) -> int:
    """Correct lanes that contradict the messages, and delete empty ones.

    Returns:
        How many lanes contradicted the messages: it should be none.
    """
    with in_short(connection):
        if not _locked(connection):
            return 0
        wrong = connection.execute(SQL["contradictions"], {"limit": BATCH}).fetchall()
        if wrong:
            _mark(connection, set(wrong))
        connection.execute(SQL["forget"], {"limit": BATCH})
    return len(wrong)


def _locked(connection: Connection) -> bool:
    row = connection.execute(SQL["lock"]).fetchone()
    return bool(row and row[0])


def channels(connection: Connection, *, excluded: Sequence[str]) -> list[str]:
    """Return the channels that have a lane to take from."""
    rows = connection.execute(SQL["channels"], {"excluded": list(excluded)}).fetchall()
    return [channel for (channel,) in rows]
