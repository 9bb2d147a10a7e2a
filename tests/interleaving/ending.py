"""The end of an interleaving: one session runs the rest to its end, and checks the tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from pgqueue.engine import flows, signalling, waking
from tests.factories import Connection
from tests.interleaving.operations import operate
from tests.interleaving.witness import Witness

ROUNDS = 20
"""A message needs some: it was lost, waits for a place, or for the message before it."""
PATIENT = 3
"""The round after which all messages get the signal that some wait for."""
LIVE = "SELECT id, channel, key, state FROM pgqueue_message ORDER BY id"
LANES = """
SELECT key, state FROM pgqueue_lane WHERE channel = ANY (SELECT channel FROM pgqueue_message)
"""
ENDED = "SELECT id, outcome FROM pgqueue_history WHERE id = ANY (%s)"
LEFT_OVER = """
UPDATE pgqueue_message SET lease_until = 'epoch', lease_for = '1 second' WHERE state = 'running'
"""
LOG = "SELECT position, payload #>> '{}' FROM pgqueue_event WHERE position > %s ORDER BY position"
HEAD = "SELECT coalesce(max(position), 0) FROM pgqueue_event"
DISPATCHED = """
SELECT (payload ->> 'position')::bigint FROM pgqueue_history WHERE channel = 'events' ORDER BY 1
"""
HELD = "SELECT id FROM pgqueue_message WHERE state = 'held' AND id = ANY (%s)"


def end(witness: Witness, connection: Connection, *, head: int, has_locks: bool) -> None:
    """Run everything to its end, and check what the tables promise.

    Args:
        head: the last position of the log before the first operation.
        has_locks: whether the router may have met locked messages, which it leaves to the duty.
    """
    witness.look()
    # A worker that has its lease settles some time; here it died, and its lease ends.
    connection.execute(LEFT_OVER)
    operate(witness, -1, connection, "route")
    missed = waking.ring_missed(connection), flows.ring_stale(connection)
    if any(missed) and not has_locks:
        witness.broken.append(f"bell: the router missed {missed[0]} signals, {missed[1]} parents")
    _run_to_the_end(witness, connection)
    _check_messages(witness, connection)
    _check_events(witness, connection, head)


def _run_to_the_end(witness: Witness, connection: Connection) -> None:
    before: list[Any] = []
    for number in range(ROUNDS):
        live = connection.execute(LIVE).fetchall()
        if number and not live:
            return
        if number > PATIENT + 1 and live == before:
            break
        before = live
        for name in _needed(witness, live, is_first=not number):
            operate(witness, -1, connection, name)
        if number == PATIENT:
            for (id,) in connection.execute(HELD, [list(witness.signalled)]).fetchall():
                witness.broken.append(f"signal: {id} waits, and its signal was sent")
            for id, *_ in live:
                signalling.send(connection, id, "go", "1")
    lanes = connection.execute(LANES).fetchall()
    witness.broken.append(f"stuck: {live} never ran; lanes: {lanes}")


def _needed(witness: Witness, live: list[Any], *, is_first: bool) -> Iterator[str]:
    """Return the operations that messages or events wait for."""
    states = {state for *_, state in live}
    if "running" in states:
        yield "rescue"
    if "scheduled" in states:
        yield "promote"
    if is_first and witness.published:
        yield from ("sequence", "dispatch")
    channels = {channel for _, channel, *_ in live}
    if "fragile" in channels:
        yield "elapse"
    yield "route"
    yield from (f"claim:{channel}" for channel in sorted(channels))
    if channels:
        yield "complete"


def _check_messages(witness: Witness, connection: Connection) -> None:
    ids = [*witness.stored, *witness.undone]
    outcomes: dict[int, list[str]] = {}
    for id, outcome in connection.execute(ENDED, [ids]):
        outcomes.setdefault(id, []).append(outcome)
    for id in witness.undone & outcomes.keys():
        witness.broken.append(f"lost: {id} was rolled back, and exists")
    for id in witness.stored:
        found = outcomes.get(id, [])
        allowed = {"cancelled"} if id in witness.cancelled else {"succeeded"}
        if id in witness.asked and id not in witness.cancelled:
            allowed = {"succeeded", "cancelled"}
        if not any(text.startswith("stuck") for text in witness.broken) and (
            len(found) != 1 or found[0] not in allowed
        ):
            witness.broken.append(f"lost: {id} came to {found}, and not to one of {allowed}")
        if witness.ended[id] > 1:
            witness.broken.append(f"fence: {id} succeeded {witness.ended[id]} times")


def _check_events(witness: Witness, connection: Connection, head: int) -> None:
    rows = connection.execute(LOG, [head]).fetchall()
    if [position for position, _ in rows] != list(range(head + 1, head + 1 + len(rows))):
        witness.broken.append(f"position: {[position for position, _ in rows]} after {head}")
    dispatched = [position for (position,) in connection.execute(DISPATCHED)]
    if dispatched != [position for position, _ in rows]:
        witness.broken.append(f"dispatch: the messages {dispatched} of the events {rows}")
    names = [name for _, name in rows]
    expected = Counter(name for name, *_ in witness.published)
    if Counter(names) != expected:
        witness.broken.append(f"event: the log has {names}, and {list(expected)} were committed")
        return
    place = {name: index for index, name in enumerate(names)}
    for one, _, committed in witness.published:
        for other, began, _ in witness.published:
            if committed < began and place[one] > place[other]:
                witness.broken.append(f"position: {one} was committed before {other}, and follows")


def reset(connection: Connection) -> int:
    """Empty the tables that sessions write, and return the last position of the log."""
    connection.execute(
        "DELETE FROM pgqueue_message; DELETE FROM pgqueue_lane; DELETE FROM pgqueue_bell; "
        "DELETE FROM pgqueue_signal; DELETE FROM pgqueue_step; DELETE FROM pgqueue_history; "
        "DELETE FROM pgqueue_event_inbox; DELETE FROM pgqueue_tally; DELETE FROM pgqueue_blocked; "
        "DELETE FROM pgqueue_dependency; DELETE FROM pgqueue_failed_member; "
        "DELETE FROM pgqueue_flow; DELETE FROM pgqueue_breaker"
    )
    [(head,)] = connection.execute(HEAD).fetchall()
    return int(head)
