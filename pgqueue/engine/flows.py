"""Messages that wait for other messages of their flow.

A message that waits is held, without a time at which the hold ends. When a message ends, its settle
only inserts a bell, as for lanes. The router (`route`) then moves on the messages that watch the
ended one. So two ends that commit at once never miss each other, and no settle waits.

A waiting message watches one parent: the parent with the lowest id that has not ended. Ids only
grow, and an ended message does not begin again. So the watch moves upwards, and a message with
100 000 parents costs one walk over them, in any order of their ends. With on_failure "run", a
message passes dead parents, which may be replayed. So it walks once more, at the end.
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
"""Messages that one statement of the router releases or cancels. A new bell rings for the rest."""
TURNS = 50
"""Steps of a chain that the router cancels in one transaction. Bells ring for the later steps."""


class Waits(NamedTuple):
    """A message that waits for its parents.

    Attributes:
        parents: the ids of its parents in ascending order, at least one.
        on_failure: wait, cancel or run.
    """

    child: int
    parents: Sequence[int]
    on_failure: str


class Freed(NamedTuple):
    """The lane of a message that no longer waits."""

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
        goes_on: whether one of its messages has neither ended nor died.
        dead: the number of its dead messages.
        gone: the number of its cancelled, discarded and expired messages.
    """

    name: str
    goes_on: bool
    dead: int
    gone: int


class Parent(NamedTuple):
    """The result of a parent, for its child.

    Attributes:
        word: its outcome, or its state if it has not ended.
        result: its result as JSON text.
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
        flow_id: a reserved id.
        handler_id: the message that runs when all other messages of the flow have ended.
        names: the ids of the named messages, by their names.
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
    """Store the names of messages that are added later; return False if a name is taken."""
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
    """Lock the flow: transactions that add waits to it go on one after the other."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["lock_flow"], {"flow_id": flow_id})


def have_handler(connection: Cursors, flow_id: int, handler_id: int) -> None:
    """Note the message of a stored flow that runs when all its other messages have ended."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["have_handler"], {"flow_id": flow_id, "handler_id": handler_id})


def awaited(connection: Cursors, ids: Collection[int], *, also_dead: bool = False) -> set[int]:
    """Return these flows and the flows that messages of them wait for, directly or not.

    Args:
        also_dead: count dead messages, too: after a replay, they wait for their flow again.
    """
    given = {"ids": list(ids), "latch": LATCH, "also_dead": also_dead}
    with connection.cursor() as cursor:
        cursor.execute(SQL["awaited"], given)
        return {id for (id,) in cursor.fetchall()}


def ordered_lanes(connection: Cursors, ids: Collection[int]) -> dict[tuple[str, str], int]:
    """Return the ordered lanes in which messages of flows wait or run, each with their last id."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["ordered_lanes"], {"ids": list(ids)})
        return {(channel, key): id for channel, key, id in cursor.fetchall()}


def came_to(connection: Cursors, flow_id: int) -> CameTo | None:
    """Return the state of a flow; None: its row was deleted."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["came_to"], {"flow_id": flow_id})
        row = cursor.fetchone()
    return CameTo(*row) if row else None


def keep(connection: Cursors, flow_id: int) -> bool:
    """Keep the flow from ending until the transaction ends; return False if it has ended.

    One of its messages is locked. So this message does not end meanwhile: its settle tries again.
    A flow whose handler no longer waits has ended, too.
    """
    given = {"flow_id": flow_id}
    while True:
        with connection.cursor() as cursor:
            cursor.execute(SQL["keep"], given)
            kept = cursor.fetchone()
            is_kept = kept is not None
            if kept:
                cursor.execute(SQL["ring_kept"], {"id": kept[0]})
            cursor.execute(SQL["goes_on"], given)
            row = cursor.fetchone()
        goes_on, is_awaited = row or (False, False)
        if is_kept or not (goes_on and is_awaited):
            return is_kept and is_awaited
        # The message has ended while this transaction waited for its lock.


def lock_circles(connection: Cursors) -> None:
    """Wait for other transactions that look for circles of durable runs, until their end."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["lock_circles"])


def waiting(connection: Cursors, ids: Collection[int]) -> set[int]:
    """Return these messages and the messages that wait for one of them, directly or not."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["waiting"], {"ids": list(ids)})
        return {id for (id,) in cursor.fetchall()}


def blocked_by(connection: Cursors, id: int) -> list[int]:
    """Return the messages that have a message as a parent and wait, of all flows."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["blocked_by"], {"id": id})
        return [child for (child,) in cursor.fetchall()]


def block(connection: Cursors, flow_id: int, waiting: Collection[Waits]) -> None:
    """Store messages that wait, and the parents that they wait for."""
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


def unblock(connection: Cursors, id: int) -> None:
    """Forget what a running message has waited for."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["unblock"], {"id": id})


def depend(connection: Cursors, flow_id: int, pairs: Collection[tuple[int, int]]) -> None:
    """Add a parent, the second of each pair, to a message that waits already, the first one.

    The new parent's id must be higher than the id of a parent that has not ended.
    """
    lines = (f"{flow_id}\t{child}\t{parent}\n" for child, parent in pairs)
    with connection.cursor() as cursor:
        copying.send(cursor, SQL["copy_dependencies"], lines)


def children(connection: Cursors, flow_id: int, id: int) -> tuple[list[int], list[int]]:
    """Return the messages that wait for a running one, and the flow's handler if it still waits."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["children"], {"flow_id": flow_id, "id": id})
        rows = cursor.fetchall()
    return [id for id, is_handler in rows if not is_handler], [
        id for id, is_handler in rows if is_handler
    ]


def in_order(connection: Cursors, ids: Collection[int]) -> dict[tuple[str, str], int]:
    """Return the ordered lanes of messages, and the lanes of the messages that wait for them.

    A message waits for its parents in a flow, and for the messages before it in an ordered lane.
    Messages that wait indirectly count, too. Each lane has the id of its first message among them.
    """
    with connection.cursor() as cursor:
        cursor.execute(SQL["in_order"], {"ids": list(ids)})
        return {(channel, key): id for channel, key, id in cursor.fetchall()}


def ring(connection: Cursors, channel: str, ids: Collection[int]) -> None:
    """Ring for messages that may have ended already, so that the router looks at their children."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["ring"], {"channel": channel, "ids": list(ids)})


def advance(connection: Connection, ended: Collection[int]) -> list[Freed]:
    """Release or cancel the messages that waited for ended or dead ones; the router calls this.

    Args:
        connection: in the router's transaction.

    Returns:
        The lanes of the released messages. The router must mark the governed ones.
    """
    freed: list[Freed] = []
    for _ in range(TURNS):
        if not ended:
            break
        given = {"ended": array(ended), "limit": WIDTH}
        rows = connection.execute(SQL["advance"], given).fetchall()
        freed += [Freed(*row[1:4]) for row in rows if row[1] is not None]
        hopeless = [row[0] for row in rows if row[0] is not None]
        if any(row[0] is row[1] is None for row in rows):  # there may be more of them
            ring(connection, "", ended)
        if hopeless:
            cancel.cancel(connection, hopeless)
        ended = hopeless  # their children need not wait for bells
    return freed


def advance_apart(connection: Connection, ended: Collection[int]) -> list[Freed]:
    """Call `advance`; leave out the ended messages with which it fails.

    `ring_stale` finds their children, so that these are tried again.
    """

    def some(ended: Sequence[int]) -> list[Freed]:
        with connection.transaction():
            return advance(connection, ended)

    def leave(id: int, error: Exception) -> None:
        tell("route", row=f"the children of pgqueue_message {id}", error=error)

    return [each for freed in by_halves(some, sorted(ended), leave) for each in freed]


def ring_stale(connection: Connection, *, limit: int = BATCH) -> int:
    """Ring again for messages that were locked at their parents' bells; return their number."""
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
    """Note the ends of flows of which no message is left; return their number."""

    def some(part: Part) -> int:
        return connection.execute(SQL["end"], {**part._asdict(), "limit": limit}).rowcount

    return sum(apart(connection, TABLE, some, what="end flows"))


def forget(connection: Connection, *, keep: timedelta, limit: int = BATCH) -> int:
    """Delete a part of the rows of the flow that ended first; return their number.

    Args:
        keep: how long flows are kept after their ends.
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


def find_flow(connection: Cursors, flow_id: int) -> StoredFlow | None:
    """Return a flow's row."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["find"], {"flow_id": flow_id})
        row = cursor.fetchone()
    return StoredFlow(*row) if row else None


def progress(
    connection: Cursors, ids: Collection[int], *, bound: int | None = None
) -> dict[int, Counter[str]]:
    """Return the number of messages of each flow by their state or outcome.

    Messages that wait for others count as "waiting".

    Args:
        bound: count at most so many live messages of a flow, and as many ended ones; None: all.
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
        state: yield only messages in this state.
        besides_handler: leave out the handler, which runs at the flow's end.
        besides_clean_up: leave out messages that wait now, and run even if their parents fail.
    """
    given: dict[str, Any] = {"flow_id": flow_id, "state": state, "limit": limit}
    after, left_out = 0, []
    if besides_clean_up:
        # They are read once, before the first cancel: it may release them.
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
    """Return a message by which a flow goes on; None: all have ended, or wait for dead messages.

    A flow that waits for other flows goes on as long as one of them does.
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
    """Return the ids and the metadata, as JSON texts, of the last `limit` parents of a message."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["origins"], {"flow_id": flow_id, "id": id, "limit": limit})
        return list(cursor.fetchall())


def results(connection: Cursors, ids: Collection[int], *, since: datetime) -> dict[int, Parent]:
    """Return the results of parents by their ids; a parent without a stored row is left out.

    Args:
        since: when their child was stored: they ended later.
    """
    with connection.cursor() as cursor:
        cursor.execute(SQL["results"], {"ids": list(ids), "since": since})
        return {row[0]: Parent(*row) for row in cursor.fetchall()}
