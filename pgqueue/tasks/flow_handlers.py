"""The handlers of flows. A handler is the last message of a flow; other flows wait for it.

Tasks of `latches` are referred to by name here, since their module imports this one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from django.db import connections

from pgqueue.engine import enqueue as enqueueing
from pgqueue.engine import flows as engine
from pgqueue.engine import lookup
from pgqueue.engine.flows import Waits
from pgqueue.engine.values import Cursors
from pgqueue.exceptions import ChannelFull, FlowDoesNotExist, InvalidFlow
from pgqueue.tasks import registry, storing
from pgqueue.tasks.result import TaskResult

BATCH = 10_000
WAIT_FOR_FLOW = "pgqueue.tasks.latches.wait_for_flow"
END_OF_FLOW = "pgqueue.tasks.latches.end_of_flow"


def handlers(
    database: str, names: Mapping[int, str], *, waiter: int = 0
) -> Mapping[int, int | None]:
    """Return the handlers of flows; None: the flow has no handler, and has ended.

    A flow that goes on gets a handler if it has none.

    Args:
        database: the alias of the database in which the flows are stored.
        names: the names of the flows by id.
        waiter: the id of the flow that will wait for them; 0: it is not stored yet.

    Raises:
        FlowDoesNotExist: a flow is no longer kept.
        InvalidFlow: a flow waits for the waiter.
        ChannelFull: the channel of a flow without a handler has no room for it.
    """
    connection = connections[database]
    found = {id: _handler(connection, id, name) for id, name in sorted(names.items())}
    # Lock messages before flows, as a run that adds to its flow does.
    without = [id for id, handler in found.items() if handler is None]
    going_on = [id for id in without if engine.keep(connection, id)]
    if waiter:
        _lock_against_circles(connection, names, waiter)
    else:
        _lock(connection, going_on)
    for id in going_on:
        # Another transaction may have stored a handler before the flow was locked here.
        found[id] = _handler(connection, id, names[id]) or _give_handler(database, id)
    return found


def _lock(connection: Cursors, ids: Iterable[int]) -> None:
    for id in sorted(ids):
        engine.lock(connection, id)


def _lock_against_circles(connection: Cursors, names: Mapping[int, str], waiter: int) -> None:
    """Lock the waiter, and the flows that it will wait for, directly or indirectly.

    Two transactions that each add one half of a circle then lock the same flow.

    Raises:
        InvalidFlow: one of the flows waits for the waiter.
    """
    locked: set[int] = set()
    while True:
        wanted = engine.awaited(connection, names, also_dead=True)
        if waiter in wanted:
            each = next(
                id for id in names if waiter in engine.awaited(connection, [id], also_dead=True)
            )
            raise InvalidFlow(
                f"The flow #{waiter} can't wait for {names[each]} #{each}, which waits for it, "
                "directly or by other flows: neither could ever end. Have one of them wait for "
                "messages of its own."
            )
        new = {*wanted, waiter} - locked
        if not new:
            return
        _lock(connection, new)
        locked |= new


def _handler(connection: Cursors, flow_id: int, name: str) -> int | None:
    found = engine.find_flow(connection, flow_id)
    if found is None:
        raise FlowDoesNotExist(
            f"No message can wait for {name} #{flow_id}: it was rolled back, or it is not kept any "
            "more."
        )
    return found.handler_id


def _give_handler(database: str, flow_id: int) -> int:
    """Store a handler for a flow that goes on, and return its id."""
    connection = connections[database]
    waits = [id for ids in engine.live(connection, flow_id, limit=BATCH) for id in ids]
    last = lookup.find(connection, waits[-1])
    own = registry.of_package(END_OF_FLOW).using(
        channel=last.channel if last else None, database=database
    )
    [id] = enqueueing.reserve(connection, 1)
    result: TaskResult[None] = TaskResult(own, (), {})
    storing.store([result], [id], flow_id=flow_id, waits=True)
    if result.came_of != "stored":
        raise ChannelFull(
            f"The channel {own.queue_name!r} dropped {own.name}, by which other flows learn of the "
            f"end of the flow #{flow_id}."
        )
    engine.block(connection, flow_id, [Waits(id, waits, "run")])
    engine.have_handler(connection, flow_id, id)
    # The first message may have ended meanwhile: have its children examined once more.
    engine.ring(connection, "", waits[:1])
    return id
