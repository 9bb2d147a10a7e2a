"""The operations of sessions, by their names. Each is a transaction, or some.

A name is `VERB:PLACE:COUNT`, of which the end may be missing. `!` rolls back, ends leases at once,
or has a retry wait. `atomic` settles in a transaction that goes on, as an atomic task does.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from uuid import uuid4

from psycopg.errors import DeadlockDetected

from pgqueue.engine import (
    cancel,
    claim_governed,
    dispatch,
    lease,
    promote,
    publish,
    route,
    sequence,
    settle,
    signalling,
)
from pgqueue.engine.claim_governed import EVERY_TURN
from pgqueue.engine.publish import NewEvent
from pgqueue.engine.settle import Suspension
from pgqueue.engine.values import Claim, Tuples
from tests import factories
from tests.engine.flow_graphs import Graph
from tests.factories import LEASE, OVER, Connection, done, failure
from tests.interleaving.turns import SteppedSession
from tests.interleaving.witness import Witness

PLACES = {
    "f": ("free", ""), "g": ("free", "g"), "o": ("lanes", "a"), "p": ("lanes", "b"),
    "l": ("limited", "a"), "m": ("limited", "b"), "n": ("limited", "c"), "d": ("free", "d"),
    "q": ("fragile", "a"), "r": ("fragile", "b"),
}  # fmt: skip
"""Channels and keys. Messages of `d` are delayed."""
WEIGHTS = {
    "put:f:2": 2, "put:g:1": 1, "put:o:2": 2, "put:p:1": 1, "put:l:2": 2, "put:m:2": 1,
    "put:n:1": 0.5, "put:d:1": 1, "put:f:1!": 0.5, "put:o:1!": 0.5, "put:l:1!": 0.5,
    "put:q:2": 1, "put:r:2": 0.5, "claim:fragile": 2, "claim:fragile!": 0.7, "elapse": 1,
    "claim:free": 3, "claim:free!": 1.5, "claim:limited": 3, "claim:limited!": 1.5,
    "claim:lanes": 3, "claim:lanes!": 1.5, "complete": 3, "retry": 0.7, "retry!": 0.7, "release": 1,
    "complete:atomic": 1, "retry:atomic": 0.5,
    "rescue": 2, "cancel:N": 1, "cancel:N!": 0.7, "promote": 1, "route": 4,
    "flow": 1, "flow!": 0.3,
    "publish:2": 1, "publish:1!": 0.5, "sequence": 1.5, "dispatch": 1, "suspend": 1, "signal:N": 1,
}  # fmt: skip
"""How often each operation is chosen; N is a number."""
WAIT = {"name": "wait:go", "number": 1, "kind": "signal", "state": "waiting", "signals": ["go"]}
ARE_DUE = """
UPDATE pgqueue_message SET run_at = 'epoch'
WHERE id IN (SELECT id FROM pgqueue_message WHERE state = 'scheduled' FOR UPDATE SKIP LOCKED)
"""
ELAPSE = """
UPDATE pgqueue_breaker SET open_until = open_until - interval '1 day'
WHERE (channel, key) IN (
    SELECT channel, key FROM pgqueue_breaker WHERE open_until > statement_timestamp()
    FOR UPDATE SKIP LOCKED);
UPDATE pgqueue_lane SET wake_at = wake_at - interval '1 day'
WHERE (channel, key) IN (
    SELECT channel, key FROM pgqueue_lane WHERE wake_at > statement_timestamp()
    FOR UPDATE SKIP LOCKED)
"""
"""Each breaker opens until a time of its own, also after its pause: so it is known again."""
HOUR = timedelta(hours=1)
AT_ONCE = 2
"""Messages of one claim."""


class Undone(Exception):
    """The transaction of an operation is rolled back."""


def work(witness: Witness, *names: str) -> Callable[[SteppedSession], None]:
    """Return a function by which a session does operations."""

    def do(session: SteppedSession) -> None:
        for name in names:
            operate(witness, session.number, session.connection, name)

    return do


def operate(witness: Witness, number: int, connection: Connection, name: str) -> None:
    """Do one operation, and have the witness note its result."""
    verb, *given = name.rstrip("!").split(":")
    try:
        VERBS[verb](witness, number, connection, given, name.endswith("!"))
    except Undone:
        pass
    except DeadlockDetected as error:
        witness.broken.append(f"deadlock: {name} of session {number}: {error.diag.message_primary}")


def _put(
    witness: Witness, number: int, connection: Connection, given: list[str], undo: bool
) -> None:
    channel, key = PLACES[given[0]]
    ordered = channel == "lanes"
    later = HOUR if given[0] == "d" else None
    ids: list[int] = []
    try:
        with connection.transaction():
            for _ in range(int(given[1])):
                ids += factories.enqueue(
                    connection, channel=channel, key=key, ordered=ordered, run_after=later
                )
            if undo:
                raise Undone
    except Undone:
        witness.undone.update(ids)
        return
    witness.note_stored(channel, key, ids, ordered=ordered)


def _flow(
    witness: Witness, number: int, connection: Connection, given: list[str], undo: bool
) -> None:
    """Store a child with two parents, which runs whatever becomes of them."""
    ids: list[int] = []
    try:
        with connection.transaction():
            graph = Graph(connection, {"a": "", "b": "", "c": "ab run"}, channel="free")
            ids = list(graph.ids.values())
            if undo:
                raise Undone
    except Undone:
        witness.undone.update(ids)
        return
    witness.note_stored("free", "", ids, ordered=False)
    *parents, child = ids
    witness.parents[child] = parents


def _claim(
    witness: Witness, number: int, connection: Connection, given: list[str], over: bool
) -> None:
    [channel] = given
    breakers = witness.breakers() if channel == "fragile" else {}
    worker, length = uuid4(), OVER if over else LEASE
    if channel in ("free", "events"):
        found = factories.claim(connection, channel, limit=AT_ONCE, lease=length, worker_id=worker)
    else:
        found = claim_governed.claim(
            connection, channel, EVERY_TURN, AT_ONCE, worker_id=worker, lease=length
        ).claims
    witness.note_claimed(number, found)
    witness.note_let_through(breakers, found)


def _own(witness: Witness, number: int) -> list[Claim]:
    claims, witness.claims[number] = witness.claims[number], []
    # Two claims of a message, of which one was lost, are settled apart, as by two workers.
    return list({each.id: each for each in reversed(claims)}.values())


def _settled_in(connection: Connection, given: list[str]) -> AbstractContextManager[object]:
    """Return the transaction of an atomic task, or what begins none."""
    return connection.transaction() if given == ["atomic"] else nullcontext()


def _complete(
    witness: Witness, number: int, connection: Connection, given: list[str], undo: bool
) -> None:
    claims = _own(witness, number)
    with _settled_in(connection, given):
        ids = settle.complete(connection, [done(each) for each in claims])
    witness.note_ended(claims, ids, succeeded=True)


def _retry(
    witness: Witness, number: int, connection: Connection, given: list[str], later: bool
) -> None:
    claims = _own(witness, number)
    delay = HOUR if later else timedelta()
    with _settled_in(connection, given):
        ids = settle.retry(connection, [failure(each, delay=delay) for each in claims])
    witness.note_ended(claims, ids, succeeded=False)
    witness.note_failed(each for each in claims if each.id in ids - witness.asked)


def _release(witness: Witness, number: int, connection: Connection, *_: object) -> None:
    claims = _own(witness, number)
    witness.note_ended(claims, settle.release(connection, claims), succeeded=False)


def _suspend(witness: Witness, number: int, connection: Connection, *_: object) -> None:
    claims = _own(witness, number)
    waits = [
        Suspension(each, json.dumps([WAIT]), None, None, True, False, False) for each in claims
    ]
    witness.note_ended(claims, settle.suspend(connection, waits), succeeded=False)


def _signal(
    witness: Witness, number: int, connection: Connection, given: list[str], undo: bool
) -> None:
    for id in witness.chosen(int(given[0])):
        if signalling.send(connection, id, "go", "1") == "sent":
            witness.signalled.add(id)


def _rescue(witness: Witness, number: int, connection: Connection, *_: object) -> None:
    rescued = lease.rescue(connection, max_lost=1000)
    witness.note_taken_away(each.id for each in rescued)


def _cancel(
    witness: Witness, number: int, connection: Connection, given: list[str], undo: bool
) -> None:
    with connection.transaction():
        came_to = cancel.cancel(connection, witness.chosen(int(given[0])))
        if undo:
            raise Undone
    witness.cancelled |= came_to.ended
    witness.asked |= came_to.asked


def _promote(witness: Witness, number: int, connection: Connection, *_: object) -> None:
    connection.execute(ARE_DUE)
    promote.promote(connection)


def _route(witness: Witness, number: int, connection: Connection, *_: object) -> None:
    route.route(connection, after=0)


def _elapse(witness: Witness, number: int, connection: Connection, *_: object) -> None:
    """Let the pauses of breakers end."""
    connection.execute(ELAPSE)


def _publish(
    witness: Witness, number: int, connection: Connection, given: list[str], undo: bool
) -> None:
    began = witness.turn
    names = [f"e{began}.{number}.{each}" for each in range(int(given[0]))]
    witness.unpublished.update(names)
    with connection.transaction():
        for name in names:
            event = NewEvent("interleaved", "", json.dumps(name), "{}")
            publish.publish(Tuples(connection), event)
        if undo:
            raise Undone
    witness.unpublished.difference_update(names)
    witness.published += [(name, began, witness.turn) for name in names]


def _sequence(witness: Witness, number: int, connection: Connection, *_: object) -> None:
    sequence.sequence(connection)


def _dispatch(witness: Witness, number: int, connection: Connection, *_: object) -> None:
    with connection.transaction():
        dispatch.step(connection)


VERBS: dict[str, Callable[[Witness, int, Connection, list[str], bool], None]] = {
    "put": _put,
    "flow": _flow,
    "claim": _claim,
    "complete": _complete,
    "retry": _retry,
    "release": _release,
    "suspend": _suspend,
    "signal": _signal,
    "rescue": _rescue,
    "cancel": _cancel,
    "promote": _promote,
    "route": _route,
    "elapse": _elapse,
    "publish": _publish,
    "sequence": _sequence,
    "dispatch": _dispatch,
}
