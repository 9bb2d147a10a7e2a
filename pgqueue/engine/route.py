"""Bring governed lanes up to date with changes of messages, and flows with ends of messages.

A statement that makes a message ready, or frees its place, inserts a bell and waits for no other
transaction. Before a worker claims, it takes the bells and marks their lanes runnable. By the lock
of a row, one worker routes at a time; the others leave the bells to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import NamedTuple

from pgqueue.database.sql_files import load
from pgqueue.database.transactions import in_short, is_pooled
from pgqueue.engine import flows, waking
from pgqueue.engine.culprits import (
    Part,
    apart,
    by_halves,
    delete,
    leave_out,
    left_out,
    may_be_a_row,
    shown,
    tell,
)
from pgqueue.engine.values import Connection

SQL = load(__name__)

BATCH = 5000
STRAYS = 1000
TABLE = "pgqueue_lane"

Lane = tuple[str, str]
Lanes = Sequence[Lane]


class Look(NamedTuple):
    """The work for a router.

    Attributes:
        has_rung: whether there are bells.
        has_policies: whether messages may be older than the policy that governs them.
        wake_in: how long until a rate allows the next start; None: no rate delays a start.
    """

    has_rung: bool
    has_policies: bool
    wake_in: timedelta | None


def look(connection: Connection, *, after: int) -> Look:
    """Return the work for a router; bells up to the id `after` were taken before."""
    given = {"after": after, **_left_out(connection)}
    row = connection.execute(SQL["look"], given).fetchone()
    has_rung, has_policies, wake_in = row or (False, False, None)
    return Look(has_rung, has_policies, None if wake_in is None else timedelta(seconds=wake_in))


class Routed(NamedTuple):
    """The result of routing.

    Attributes:
        after: The id of the last bell that was taken, or the one before.
        channels: The channels in which ungoverned messages of flows no longer wait.
        has_marked: Whether governed lanes may have got a turn.
    """

    after: int
    channels: frozenset[str]
    has_marked: bool


def route(connection: Connection, *, after: int, ripens: bool = True) -> Routed | None:
    """Mark the lanes that have bells, and the throttled ones whose time has come, in a transaction.

    It also releases messages of flows whose parents have ended.

    Args:
        after: bells up to this id were taken before.
        ripens: False: the last look found no throttled lane whose time has come.

    Returns:
        None: another session is routing.
    """

    def some(part: Part) -> Routed | None:
        try:
            return _route(connection, part, after, TOGETHER, ripens)
        except Exception as error:
            if not may_be_a_row(connection, error):
                raise
            # One bell may stand for many ended messages, or for all lanes of a channel.
            return _route(connection, part, after, APART, ripens)

    parts = apart(connection, "pgqueue_bell", some, what="route")
    routed = [each for each in parts if each is not None]
    if len(routed) < len(parts):
        return None
    channels = frozenset(channel for each in routed for channel in each.channels)
    has_marked = any(each.has_marked for each in routed)
    return Routed(max((each.after for each in routed), default=after), channels, has_marked)


class _Ways(NamedTuple):
    """The steps of the router, for all rows together or for one row after another.

    Attributes:
        advance: releases messages of flows.
        wake: wakes durable runs that got a signal.
        mark: marks lanes that no bell names.
        mark_whole: marks all lanes of channels.
        ripen: wakes the throttled lanes whose time has come.
    """

    advance: Callable[[Connection, set[int]], list[flows.Freed]]
    wake: Callable[[Connection, set[int]], list[flows.Freed]]
    mark: Callable[[Connection, Lanes], None]
    mark_whole: Callable[[Connection, Sequence[str]], None]
    ripen: Callable[[Connection], object]


def _route(
    connection: Connection, part: Part, after: int, ways: _Ways, ripens: bool
) -> Routed | None:
    freed: list[flows.Freed] = []
    marked: set[tuple[str, str | None]] = set()
    with in_short(connection):
        given = {
            **part._asdict(),
            "after": after,
            "limit": BATCH,
            "is_pooled": is_pooled(connection),
        }
        rows = connection.execute(SQL["take"], given).fetchall()
        if not rows:
            return None
        if rows[0][0] is not None:
            after = max((id for id, *_, is_in_order in rows if is_in_order), default=after)
            freed = ways.advance(connection, {id for *_, ids, _, _ in rows for id in ids or ()})
            freed += ways.wake(connection, {id for *_, woken, _ in rows for id in woken or ()})
            rung = {
                (channel, key)
                for _, channel, key, ended, woken, _ in rows
                if ended is None and woken is None
            }
            others = {(each.channel, each.key) for each in freed if each.governed}
            _mark_rung(connection, rung, others, ways)
            marked = {*rung, *others}
        if ripens:
            ways.ripen(connection)
    free = frozenset(each.channel for each in freed if not each.governed)
    return Routed(after, free, has_marked=ripens or bool(marked))


def _mark_rung(
    connection: Connection, rung: set[tuple[str, str | None]], others: set[Lane], ways: _Ways
) -> None:
    named = {(channel, key) for channel, key in rung if key is not None}
    whole = sorted({channel for channel, key in rung if key is None})
    if whole:
        blocked = connection.execute(SQL["blocked"], {"channels": whole})
        others |= {(channel, key) for channel, key in blocked}
    # First the lanes that have a bell: if the mark of one fails, its bell is left out.
    _mark(connection, sorted(named))
    ways.mark(connection, sorted(others - named))
    if whole:
        ways.mark_whole(connection, whole)
        connection.execute(SQL["mark_gates"], {"channels": whole})


def _mark(connection: Connection, lanes: Lanes) -> None:
    if lanes:
        _mark_urgent(connection, connection.execute(SQL["mark"], _named(lanes)).fetchall())


def _mark_urgent(connection: Connection, lanes: Lanes) -> None:
    """Store since when lanes have urgent messages, where the channel lets messages be urgent."""
    if lanes:
        connection.execute(SQL["mark_urgent"], _named(lanes))


def _mark_apart(connection: Connection, lanes: Lanes) -> None:
    """Mark lanes; ring a bell for lanes whose mark fails, since no other bell names them."""

    def some(lanes: Lanes) -> None:
        with connection.transaction():
            _mark(connection, lanes)

    list(by_halves(some, lanes, partial(_ring_later, connection)))


def _mark_whole(connection: Connection, channels: Sequence[str]) -> None:
    given = {"channels": list(channels), "keys": None}
    _mark_urgent(connection, connection.execute(SQL["mark_all"], given).fetchall())


def _mark_whole_apart(connection: Connection, channels: Sequence[str]) -> None:
    """Mark all lanes of channels; ring a bell for lanes whose mark fails."""
    for channel in channels:
        rows = connection.execute(SQL["keys_of"], {"channel": channel}).fetchall()

        def some(lanes: Lanes, channel: str = channel) -> None:
            given = {"channels": [channel], "keys": [key for _, key in lanes]}
            with connection.transaction():
                _mark_urgent(connection, connection.execute(SQL["mark_all"], given).fetchall())

        lanes = [(channel, key) for (key,) in rows]
        list(by_halves(some, lanes, partial(_ring_later, connection)))


def _ring_later(connection: Connection, lane: Lane, error: Exception) -> None:
    channel, key = lane
    connection.execute(SQL["ring"], {"channel": channel, "key": key})
    tell("route", row=f"{TABLE} {shown(*lane)}", error=error)


def _ripen(connection: Connection) -> None:
    connection.execute(SQL["ripen"], {"limit": BATCH, **_left_out(connection)})


def _ripen_apart(connection: Connection) -> None:
    given = {"limit": BATCH, **_left_out(connection)}
    lanes = connection.execute(SQL["which_are_ripe"], given).fetchall()

    def some(lanes: Lanes) -> None:
        with connection.transaction():
            connection.execute(SQL["ripen_some"], _named(lanes))

    list(by_halves(some, lanes, partial(_leave_out, connection)))


def _leave_out(connection: Connection, lane: Lane, error: Exception) -> None:
    leave_out(connection, "route", TABLE, lane, row=shown(*lane), error=error)


def _left_out(connection: Connection) -> dict[str, list[str]]:
    lanes = left_out(connection, "route", TABLE)
    return {f"aside_{name}": each for name, each in _named(lanes).items()}


def _named(lanes: Lanes) -> dict[str, list[str]]:
    return {"channels": [channel for channel, _ in lanes], "keys": [key for _, key in lanes]}


TOGETHER = _Ways(flows.advance, waking.wake, _mark, _mark_whole, _ripen)
APART = _Ways(flows.advance_apart, waking.wake_apart, _mark_apart, _mark_whole_apart, _ripen_apart)


def adopt(connection: Connection) -> int | None:
    """Mark messages as governed that were stored before their policy.

    Returns:
        The number of marked messages; None: another session is routing.
    """
    with in_short(connection):
        if not _locked(connection):
            return None
        parts = apart(
            connection, "pgqueue_message", lambda part: _strays(connection, part), what="adopt"
        )
        strays = {lane for lanes in parts for lane in lanes}
        _try_to_mark(connection, sorted(strays))
    return sum(map(len, parts))


def _strays(connection: Connection, part: Part) -> list[Lane]:
    return connection.execute(SQL["strays"], {**part._asdict(), "limit": STRAYS}).fetchall()


def _try_to_mark(connection: Connection, lanes: Lanes) -> None:
    """Mark lanes; if the mark of one fails, mark the others."""
    if not lanes:
        return
    try:
        with connection.transaction():
            _mark(connection, lanes)
    except Exception as error:
        if not may_be_a_row(connection, error):
            raise
        _mark_apart(connection, lanes)


def tidy(connection: Connection) -> int:
    """Correct lanes that contradict the messages or the clock, and delete empty ones.

    Returns:
        The number of lanes that contradicted the messages: it should be 0.
    """
    with in_short(connection):
        if not _locked(connection):
            return 0
        connection.execute(SQL["ring_ahead"])
        given = {"limit": BATCH, **_left_out(connection)}
        wrong = connection.execute(SQL["contradictions"], given).fetchall()
        _try_to_mark(connection, sorted(wrong))
        connection.execute(SQL["forget_breakers"], {"limit": BATCH})
        delete(connection, TABLE, SQL["forget"], SQL["over"], given, what="tidy lanes")
    return len(wrong)


def _locked(connection: Connection) -> bool:
    return connection.execute(SQL["lock"]).fetchone() is not None


def channels(connection: Connection, *, excluded: Sequence[str]) -> list[str]:
    """Return the channels that have a lane to take from."""
    rows = connection.execute(SQL["channels"], {"excluded": list(excluded)}).fetchall()
    return [channel for (channel,) in rows]
