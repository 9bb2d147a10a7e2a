"""Messages that wait for other messages of their flow.

A message that waits is held, without a time at which the hold ends. An end only inserts a bell, as
for lanes. The router (`route`) then moves on whatever watches the message that ended: so two ends
that commit at once never miss each other, and no settle waits.

A message that waits watches one parent: the one with the lowest id of those that have not ended.
Ids only grow, and what has ended does not begin again, so that the watch moves upwards: a message
with 100 000 parents costs one walk over them, however their ends are spread. One that runs whatever
becomes of them passes the dead ones, which may be replayed: so it walks once more, at the end.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from pgqueue.database.sql_files import load
from pgqueue.engine import cancel, copying
from pgqueue.engine.culprits import (
    MOST,
    Part,
    apart,
    by_halves,
    leave_out,
    left_out,
    tell,
)
from pgqueue.engine.values import Connection, Cursors, array

SQL = load(__name__)

TABLE = "pgqueue_flow"
LATCH = "pgqueue.tasks.latches.wait_for_flow"
"""The task of a message that waits for another flow. Its argument is the id of that flow."""
BATCH = 10_000
NO_NAMES: Mapping[str, int] = MappingProxyType({})
WIDTH = 5_000
"""Messages that one statement of the router lets go or cancels. The rest has a bell again."""
TURNS = 50
"""Steps of a chain that the router cancels in one transaction. What follows has its own bells."""


class Waits(NamedTuple):
    """A message that waits for its parents.

    Attributes:
        parents: in ascending order, at least one.
        on_failure: wait, cancel or run.
    """

    child: int
    parents: Sequence[int]
    on_failure: str


class Freed(NamedTuple):
    """The lane of a message that waits no more."""

    channel: str
    key: str
    governed: bool


class StoredFlow(NamedTuple):
    """A flow's row."""

    id: int
    name: str
    handler_id: int | None
    created_at: datetime
    ended_at: datetime | None


class CameTo(NamedTuple):
    """The state of a flow that a message of another flow waits for.

    Attributes:
        goes_on: whether a message of it has neither ended nor died.
        dead: the number of its dead messages.
        gone: the number of its messages that were cancelled or discarded, or have expired.
    """

    name: str
    goes_on: bool
    dead: int
    gone: int


class Parent(NamedTuple):
    """What is known of a message that another one waited for.

    Attributes:
        word: its outcome, or its state if it has not ended.
        result: JSON text.
        error: its last error as JSON text.
    """

    id: int
    task: str
    word: str
    result: str | None
    error: str | None


def reserve(connection: Cursors) -> int:
    """Return an id for a flow that is stored later."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["reserve"])
        id: int = cursor.fetchone()[0]
    return id


def begin(
    connection: Cursors,
    flow_id: int,
    name: str,
    *,
    handler_id: int | None = None,
    names: Mapping[str, int] = NO_NAMES,
) -> None:
    """Store a flow, without messages yet.

    Args:
        flow_id: a reserved one.
        handler_id: the message that runs when all others have ended.
        names: the ids of messages that have a name.
    """
    given = {
        "id": flow_id,
        "name": name,
        "handler_id": handler_id,
        "names": json.dumps(dict(names)),
    }
    with connection.cursor() as cursor:
        cursor.execute(SQL["begin"], given)


def add_names(connection: Cursors, flow_id: int, names: Mapping[str, int]) -> bool:
    """Store the names of messages that are added later; return False if one is taken."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["add_names"], {"flow_id": flow_id, "names": json.dumps(dict(names))})
        return bool(cursor.rowcount)


def named(connection: Cursors, flow_id: int, name: str) -> tuple[int | None, list[str]]:
    """Return the id of the flow's message with this name, and all names of the flow."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["named"], {"flow_id": flow_id, "name": name})
        row = cursor.fetchone()
    return (row[0], list(row[1])) if row else (None, [])


def lock(connection: Cursors, flow_id: int) -> None:
    """Wait for other transactions that add waits to the flow, and have others wait for this one."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["lock_flow"], {"flow_id": flow_id})


def have_handler(connection: Cursors, flow_id: int, handler_id: int) -> None:
    """Note the message of a stored flow that runs when all others of the flow have ended."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["have_handler"], {"flow_id": flow_id, "handler_id": handler_id})


def awaited(connection: Cursors, ids: Collection[int], *, also_dead: bool = False) -> set[int]:
    """Return these flows and the flows that messages of them wait for, directly or not.

    Args:
        also_dead: a dead message waits for its flow, too, since a replay has it look again.
    """
    given = {"ids": list(ids), "latch": LATCH, "also_dead": also_dead}
    with connection.cursor() as cursor:
        cursor.execute(SQL["awaited"], given)
        return {id for (id,) in cursor.fetchall()}


def ordered_lanes(connection: Cursors, ids: Collection[int]) -> dict[tuple[str, str], int]:
    """Return the ordered lanes in which messages of flows wait or run, with the last such id."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["ordered_lanes"], {"ids": list(ids)})
        return {(channel, key): id for channel, key, id in cursor.fetchall()}


def came_to(connection: Cursors, flow_id: int) -> CameTo | None:
    """Return the state of a flow; None: it is not kept any more."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["came_to"], {"flow_id": flow_id})
        row = cursor.fetchone()
    return CameTo(*row) if row else None


def keep(connection: Cursors, flow_id: int) -> bool:
    """Have the flow go on until the transaction ends; return False if the flow has ended.

    One of its messages is locked. So the message does not end meanwhile: who settles it tries
    again. A flow whose handler waits no more has ended, too.
    """
    given = {"flow_id": flow_id}
    while True:
        with connection.cursor() as cursor:
            cursor.execute(SQL["keep"], given)
            is_kept = cursor.fetchone() is not None
            cursor.execute(SQL["goes_on"], given)
            row = cursor.fetchone()
        goes_on, is_awaited = row or (False, False)
        if is_kept or not (goes_on and is_awaited):
            return is_kept and is_awaited
        # The message that was found has ended while its lock was waited for.


def waiting(connection: Cursors, ids: Collection[int]) -> set[int]:
    """Return these messages and, directly or not, the messages that wait for one of them."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["waiting"], {"ids": list(ids)})
        return {id for (id,) in cursor.fetchall()}


def block(connection: Cursors, flow_id: int, waiting: Collection[Waits]) -> None:
    """Store what waits for what."""
    pairs = ((each.child, parent) for each in waiting for parent in each.parents)
    given: dict[str, Any] = {
        "flow_id": flow_id,
        "children": [each.child for each in waiting],
        "on_failures": [each.on_failure for each in waiting],
    }
    with connection.cursor() as cursor:
        cursor.execute(SQL["block"], {**given, "watched": [each.parents[0] for each in waiting]})
        if cursor.fetchone()[0]:
            lines = (f"{flow_id}\t{child}\t{parent}\n" for child, parent in pairs)
            copying.send(cursor, SQL["copy_dependencies"], lines)
            return
        children, parents = map(list, zip(*pairs, strict=True))
        cursor.execute(SQL["produce_waits"], {**given, "waiting": children, "parents": parents})


def depend(connection: Cursors, flow_id: int, pairs: Collection[tuple[int, int]]) -> None:
    """Have messages that wait already, the first of each pair, wait for another one, too.

    Its id must be higher than that of a parent that has not ended.
    """
    lines = (f"{flow_id}\t{child}\t{parent}\n" for child, parent in pairs)
    with connection.cursor() as cursor:
        copying.send(cursor, SQL["copy_dependencies"], lines)


def children(connection: Cursors, flow_id: int, id: int) -> tuple[list[int], list[int]]:
    """Return which messages wait for one that runs, and the flow's handler, if that still waits."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["children"], {"flow_id": flow_id, "id": id})
        rows = cursor.fetchall()
    return [id for id, is_handler in rows if not is_handler], [
        id for id, is_handler in rows if is_handler
    ]


def in_order(connection: Cursors, ids: Collection[int]) -> dict[tuple[str, str], int]:
    """Return the ordered lanes that have these, or what waits for them.

    That is what waits for them as part of a flow, or since it is behind them in a lane, and what
    waits for that. Each lane has the id of its first such message.
    """
    with connection.cursor() as cursor:
        cursor.execute(SQL["in_order"], {"ids": list(ids)})
        return {(channel, key): id for channel, key, id in cursor.fetchall()}


def ring(connection: Cursors, channel: str, ids: Collection[int]) -> None:
    """Have the router look at what waits for messages that may have ended already."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["ring"], {"channel": channel, "ids": list(ids)})


def advance(connection: Connection, ended: Collection[int]) -> list[Freed]:
    """Let go, or cancel, what waited for messages that ended or died; the router's part.

    Args:
        connection: in the router's transaction.

    Returns:
        The lanes of what was let go. Those that are governed are to be marked.
    """
    freed: list[Freed] = []
    for _ in range(TURNS):
        if not ended:
            break
        given = {"ended": array(ended), "limit": WIDTH}
        rows = connection.execute(SQL["advance"], given).fetchall()
        freed += [Freed(*row[1:4]) for row in rows if row[1] is not None]
        hopeless = [row[0] for row in rows if row[0] is not None]
        if any(row[0] is row[1] is None for row in rows):  # there may be more
            ring(connection, "", ended)
        if hopeless:
            cancel.cancel(connection, hopeless)
        ended = hopeless  # what waits for these need not wait for their bells
    return freed


def advance_apart(connection: Connection, ended: Collection[int]) -> list[Freed]:
    """Do what `advance` does; leave out the ended messages with which that fails.

    Their children are found by `ring_stale`, and tried again.
    """

    def some(ended: Sequence[int]) -> list[Freed]:
        with connection.transaction():
            return advance(connection, ended)

    def leave(id: int, error: Exception) -> None:
        tell("route", row=f"the children of pgqueue_message {id}", error=error)

    return [each for freed in by_halves(some, sorted(ended), leave) for each in freed]


def ring_stale(connection: Connection, *, limit: int = BATCH) -> int:
    """Ring again for what was locked when its parents' bells were taken; return for how many."""
    found = connection.execute(SQL["stale"], {"limit": limit}).fetchall()

    def some(channels: Sequence[str]) -> None:
        with connection.transaction():
            for channel in channels:
                ring(connection, channel, [parent for of, parent in found if of == channel])

    def note(channel: str, error: Exception) -> None:
        tell("flows", row=f"a bell of the channel {channel!r}", error=error)

    list(by_halves(some, sorted({channel for channel, _ in found}), note))
    return len(found)


def end(connection: Connection, *, limit: int = BATCH) -> int:
    """Note of flows that none of their messages is left; return of how many."""

    def some(part: Part) -> int:
        return connection.execute(SQL["end"], {**part._asdict(), "limit": limit}).rowcount

    return sum(apart(connection, TABLE, some, what="end flows"))


def forget(connection: Connection, *, keep: timedelta, limit: int = BATCH) -> int:
    """Delete a part of what is stored of the flow that ended first; return how much.

    Args:
        keep: flows are kept for so long after their ends.
    """

    def delete(flows: Sequence[int]) -> int:
        given = {"flow_id": flows[0] if flows else None, "limit": limit}
        with connection.transaction():
            deleted = connection.execute(SQL["forget_dependencies"], given).rowcount
            if deleted < limit:
                connection.execute(SQL["forget_members"], given)
        return max(deleted, 1)

    for _ in range(MOST):
        given = {"keep": keep, "aside": left_out(connection, "forget flows", TABLE)}
        first = connection.execute(SQL["forget"], given).fetchone()
        if first is None:
            break
        if deleted := sum(by_halves(delete, first, partial(_leave_out, connection))):
            return deleted
    return 0


def _leave_out(connection: Connection, id: int, error: Exception) -> None:
    leave_out(connection, "forget flows", TABLE, id, error=error)


def find(connection: Cursors, flow_id: int) -> StoredFlow | None:
    """Return a flow's row."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["find"], {"flow_id": flow_id})
        row = cursor.fetchone()
    return StoredFlow(*row) if row else None


def progress(
    connection: Cursors, ids: Collection[int], *, bound: int | None = None
) -> dict[int, Counter[str]]:
    """Return how many messages of each flow are in each state, or had each outcome.

    Those that wait for others are "waiting".

    Args:
        bound: that are counted of each flow, live ones and ended ones each; None: all are.
    """
    found: dict[int, Counter[str]] = {id: Counter() for id in ids}
    with connection.cursor() as cursor:
        cursor.execute(SQL["progress"], {"ids": list(ids), "bound": bound})
        for id, word, number in cursor.fetchall():
            found[id][word] = number
    return found


def live(
    connection: Cursors,
    flow_id: int,
    *,
    state: str | None = None,
    besides_handler: bool = False,
    besides_clean_up: bool = False,
    limit: int,
) -> Iterator[list[int]]:
    """Yield the ids of a flow's live messages, `limit` at a time.

    Args:
        state: only those in it.
        besides_handler: leave out what runs at the flow's end.
        besides_clean_up: leave out what waits now, and runs whatever its parents come to.
    """
    given: dict[str, Any] = {"flow_id": flow_id, "state": state, "limit": limit}
    after, left_out = 0, []
    if besides_clean_up:
        # Looked up once: what is cancelled first lets them go.
        with connection.cursor() as cursor:
            cursor.execute(SQL["clean_up"], {"flow_id": flow_id, "latch": LATCH})
            left_out = [id for (id,) in cursor.fetchall()]
    given |= {"besides_handler": besides_handler, "left_out": left_out}
    while True:
        with connection.cursor() as cursor:
            cursor.execute(SQL["live"], {**given, "after": after})
            ids = [id for (id,) in cursor.fetchall()]
        if not ids:
            return
        yield ids
        after = ids[-1]


def moving(connection: Cursors, flow_id: int) -> int | None:
    """Return a message of a flow that goes on; None: all ended, or wait for dead ones.

    While the flow waits for other flows, it goes on as long as one of them does.
    """
    if (own := _moving(connection, flow_id)) is not None:
        return own
    others = sorted(awaited(connection, [flow_id]) - {flow_id})
    found = (_moving(connection, each) for each in others)
    return next((id for id in found if id is not None), None)


def _moving(connection: Cursors, flow_id: int) -> int | None:
    with connection.cursor() as cursor:
        cursor.execute(SQL["moving"], {"flow_id": flow_id, "latch": LATCH})
        id: int | None = cursor.fetchone()[0]
    return id


def origins(connection: Cursors, flow_id: int, id: int, *, limit: int) -> list[tuple[int, str]]:
    """Return ids and metadata, as JSON text, of what a message waited for: the last `limit`."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["origins"], {"flow_id": flow_id, "id": id, "limit": limit})
        return list(cursor.fetchall())


def results(connection: Cursors, ids: Collection[int], *, since: datetime) -> dict[int, Parent]:
    """Return what came of messages, by id; those of which nothing is stored are missing.

    Args:
        since: when what waited for them was stored: they ended after that.
    """
    with connection.cursor() as cursor:
        cursor.execute(SQL["results"], {"ids": list(ids), "since": since})
        return {row[0]: Parent(*row) for row in cursor.fetchall()}
