"""Count the messages of channels, and of a channel by key. The cost does not grow with the queue.

Counting ten million rows takes seconds, and pages that refresh ask every few seconds. So each count
stops at a bound. Beyond it, an estimate from a sample of the table's pages is given, marked as one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from pgqueue.database.sql_files import load
from pgqueue.database.transactions import plan_without
from pgqueue.engine.values import Connection, Cursors

SQL = load(__name__)

AT_ONCE = 1000
"""Channels that are measured together."""
BOUND = 10_000
"""The bound of a count of one state and channel, if a call has few channels."""
TOGETHER = 100_000
"""The sum of these bounds over the channels of a call, if it has many channels."""
LEAST = 100
"""The smallest bound, for any number of channels."""
FEWEST = 10
"""The smallest bound of `by_state` for each channel."""
PAGES = 1000
"""Pages of the table that an estimate reads."""
REACH = 10_000
"""Newest messages, and last ended messages, from which rates are computed."""
LANES = 1000
"""Keys and priorities whose oldest message is read, for all channels of one call together."""
LEAST_LANES = 10
"""Keys and priorities whose oldest message is read for each channel, at least."""
LAST = chr(0x10FFFF)
"""A text behind every key."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stats:
    """The messages of a channel now.

    Attributes:
        ready: Messages that can run.
        scheduled: Messages that wait for their time, or for their next attempt.
        held: Messages that wait for their commit, or for others of their flow.
        running: Messages that workers have claimed.
        dead: Dead letters.
        oldest_ready_age: How long the oldest ready message has waited; None: there is none.
        enqueued_per_second: Messages that were enqueued, over the last minute or a shorter time.
        finished_per_second: Messages that ended, with any outcome, over such a time.
        paused: Whether the channel is paused: workers start none of its messages.
        paused_until: When the pause ends; None: it has no end, or the channel is not paused.
        estimated: The names of the attributes that are estimates. A count is an estimate beyond
            10 000 messages, or fewer if one call has more than ten channels. It may then be wrong
            by some per cent, or by more for a channel that is a small part of the table. An
            estimated age is a lower bound.
    """

    ready: int = 0
    scheduled: int = 0
    held: int = 0
    running: int = 0
    dead: int = 0
    oldest_ready_age: timedelta | None = None
    enqueued_per_second: float = 0.0
    finished_per_second: float = 0.0
    paused: bool = False
    paused_until: datetime | None = None
    estimated: frozenset[str] = frozenset()


class StateCounts(NamedTuple):
    """The messages of some channels together, by state.

    Attributes:
        free, governed: Ready messages that no lane holds back, and the ones of governed lanes.
        beyond: The names of the counts that stopped at their bound.
    """

    free: int = 0
    governed: int = 0
    scheduled: int = 0
    held: int = 0
    running: int = 0
    dead: int = 0
    beyond: frozenset[str] = frozenset()


class TenantMessages(NamedTuple):
    """The live messages of a tenant in one state."""

    tenant: str
    state: str
    number: int


class KeySeen(NamedTuple):
    """A key, and the numbers of its messages; `waiting` ones are not ready yet."""

    key: str
    running: int
    ready: int
    waiting: int

    @property
    def size(self) -> int:
        """The number of messages that count for a policy's max_size."""
        return self.running + self.ready + self.waiting


def measure(connection: Connection, channels: Sequence[str]) -> dict[str, Stats]:
    """Return the counts of each channel."""
    bound = max(LEAST, min(BOUND, TOGETHER // max(len(channels), 1)))
    with _by_indexes(connection):
        found = _counted(connection, channels, bound)
        late = [name for name, stats in found.items() if "ready" in stats.estimated]
        for name, age, is_all in _oldest(connection, late):
            found[name] = _with_age(found[name], age, is_all=is_all)
        for name, enqueued, finished in _rates(connection, channels):
            found[name] = replace(
                found[name], enqueued_per_second=enqueued, finished_per_second=finished
            )
    beyond = {name: stats for name, stats in found.items() if stats.estimated}
    return found | _estimated(connection, beyond) if beyond else found


def by_state(connection: Connection, channels: Sequence[str]) -> StateCounts:
    """Return the counts of the given channels together, each up to a bound.

    The bound is 10 000 for one channel, and is divided among several; ten at least for each.
    """
    bound = max(FEWEST, BOUND // max(len(channels), 1))
    with _by_indexes(connection):
        return _together([_states_of(row, bound) for row in _seen(connection, channels, bound)])


def _states_of(seen: _Seen, bound: int) -> StateCounts:
    beyond = {
        "free": seen.free > bound,
        "governed": max(seen.governed, seen.ordered) > bound,
        "scheduled": seen.waiting > bound,
        "held": seen.waiting > bound,
        "running": seen.running > bound,
        "dead": seen.dead > bound,
    }
    return StateCounts(
        free=seen.free,
        governed=seen.governed + seen.ordered_ready,
        scheduled=seen.scheduled,
        held=seen.held,
        running=seen.running,
        dead=seen.dead,
        beyond=frozenset(name for name, is_beyond in beyond.items() if is_beyond),
    )


def _together(counts: Sequence[StateCounts]) -> StateCounts:
    return StateCounts(
        free=sum(each.free for each in counts),
        governed=sum(each.governed for each in counts),
        scheduled=sum(each.scheduled for each in counts),
        held=sum(each.held for each in counts),
        running=sum(each.running for each in counts),
        dead=sum(each.dead for each in counts),
        beyond=frozenset().union(*(each.beyond for each in counts)),
    )


def measure_all(connection: Connection, channels: Sequence[str]) -> dict[str, Stats]:
    """Return the counts of any number of channels, by the channel."""
    found: dict[str, Stats] = {}
    for start in range(0, len(channels), AT_ONCE):
        found |= measure(connection, channels[start : start + AT_ONCE])
    return found


@contextmanager
def _by_indexes(connection: Connection) -> Iterator[None]:
    """Make the planner use indexes: the statistics of this table are always old."""
    # No row is written; the rollback restores the settings of the caller's transaction.
    with connection.transaction(force_rollback=True):
        plan_without(connection, "seqscan", "bitmapscan", "sort")
        yield


class _Seen(NamedTuple):
    """A row of the counts of a channel: each count stops behind its bound.

    Attributes:
        ordered: live ordered messages, whatever their state.
        waiting: scheduled and held messages together.
        age: seconds since the oldest ready message was due.
    """

    channel: str
    free: int
    governed: int
    ordered: int
    ordered_ready: int
    waiting: int
    scheduled: int
    held: int
    running: int
    dead: int
    age: float | None
    is_paused: bool
    paused_until: datetime | None


def _seen(connection: Connection, channels: Sequence[str], bound: int) -> list[_Seen]:
    rows = connection.execute(SQL["counts"], {"channels": list(channels), "bound": bound})
    return [_Seen(*row) for row in rows]


def _counted(connection: Connection, channels: Sequence[str], bound: int) -> dict[str, Stats]:
    """Count up to a bound; name each count that reached it in `estimated`."""
    found = {}
    for seen in _seen(connection, channels, bound):
        beyond = {
            "ready": max(seen.free, seen.governed, seen.ordered) > bound,
            "scheduled": seen.waiting > bound,
            "held": seen.waiting > bound,
            "running": seen.running > bound,
            "dead": seen.dead > bound,
            "oldest_ready_age": seen.ordered > bound,
        }
        found[seen.channel] = Stats(
            ready=seen.free + seen.governed + seen.ordered_ready,
            scheduled=seen.scheduled,
            held=seen.held,
            running=seen.running,
            dead=seen.dead,
            oldest_ready_age=None if seen.age is None else _age(seen.age),
            paused=seen.is_paused,
            paused_until=seen.paused_until,
            estimated=frozenset(what for what, is_beyond in beyond.items() if is_beyond),
        )
    return found


def _oldest(connection: Connection, channels: Sequence[str]) -> list[tuple[str, float, bool]]:
    """Return the age of each channel's oldest message, and whether all its keys were read."""
    if not channels:
        return []
    reach = max(LEAST_LANES, LANES // len(channels))
    rows = connection.execute(SQL["first_of_each"], {"channels": list(channels), "reach": reach})
    return rows.fetchall()


def _with_age(stats: Stats, seconds: float, *, is_all: bool) -> Stats:
    age, seen = _age(seconds), stats.oldest_ready_age
    missed = frozenset() if is_all else {"oldest_ready_age"}
    return replace(
        stats,
        oldest_ready_age=age if seen is None or age > seen else seen,
        estimated=stats.estimated | missed,
    )


def _rates(connection: Connection, channels: Sequence[str]) -> list[tuple[str, float, float]]:
    rows = connection.execute(SQL["rates"], {"channels": list(channels), "reach": REACH})
    return rows.fetchall()


def _age(seconds: float) -> timedelta:
    return timedelta(seconds=max(0.0, seconds))


def _estimated(connection: Connection, found: Mapping[str, Stats]) -> dict[str, Stats]:
    """Estimate the counts that reached the bound; no estimate is smaller than the bound."""
    rows = connection.execute(SQL["sample"], {"channels": list(found), "pages": PAGES})
    guesses = {(name, state): round(count) for name, state, count in rows}
    return {
        name: replace(
            stats,
            **{
                state: max(getattr(stats, state), guesses.get((name, state), 0))
                for state in stats.estimated - {"oldest_ready_age"}
            },
        )
        for name, stats in found.items()
    }


def by_tenant(connection: Cursors, *, limit: int, other: str) -> list[TenantMessages]:
    """Return the live messages by tenant and state, the tenants with the most messages first.

    The counts are exact if the table has `BOUND` messages at most. Else they are estimates from
    `PAGES` pages of it.

    Args:
        limit: the most tenants that are counted apart.
        other: the name under which the messages of further tenants are counted together.
    """
    given = {"bound": BOUND, "pages": PAGES, "limit": limit, "other": other}
    with connection.cursor() as cursor:
        cursor.execute(SQL["by_tenant"], given)
        return [TenantMessages(*row) for row in cursor.fetchall()]


def by_key(
    connection: Cursors, channel: str, *, bound: int, first: str = "", last: str = LAST
) -> list[KeySeen]:
    """Return the keys that have a message, with the largest backlog first.

    Args:
        bound: the most messages of each kind that are counted, in the order of the keys.
        first, last: the range of the keys.
    """
    given = {"channel": channel, "bound": bound, "first": first, "last": last}
    with connection.cursor() as cursor:
        cursor.execute(SQL["by_key"], given)
        return [KeySeen(*row) for row in cursor.fetchall()]
