from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from itertools import compress
from typing import Any, NamedTuple

import psycopg
from django.db import transaction
from psycopg.pq import TransactionStatus

from pgqueue.database.sql_files import load
from pgqueue.engine import copying
from pgqueue.engine.values import Cursors, Tuples, array, exact
from pgqueue.exceptions import BatchTooLarge, ChannelFull
from pgqueue.states import State

SQL = load(__name__)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
REPLACED = ("replaced", "collected")
"""The outcomes of an enqueue that changed a waiting message."""
LOCKED_KEYS = 500
"""Ordered lanes in one batch, at most: each takes a lock, and a server has about 10 000 locks."""


class Common(NamedTuple):
    """The properties that all messages of one enqueue share.

    Attributes:
        metadata: a JSON object's text.
        options: a JSON object's text, or None.
        run_at: when they are due; None: `run_after` from now, or else at once.
        expires_at: when they expire unless they were started; None: `expires_after` from now, or
            never.
        held_for: how long they wait for their two-phase commit; None: they are not held.
        ordered: they run one at a time in their lane, in the order of their transactions' commits.
        dedupe_for: how long their dedupe keys are remembered; None: while the message lives.
        replaces: whether they replace a waiting message with the same dedupe key.
        longest_wait: how long after it was first stored a message that is replaced again and again
            is due at the latest; None: there is no limit.
        parent_id: the message whose run enqueues them.
        flow_id: their flow.
        waits: whether they are held until their parents have ended.
    """

    channel: str
    task: str
    metadata: str
    options: str | None
    priority: int
    max_attempts: int
    run_at: datetime | None
    run_after: timedelta | None
    expires_at: datetime | None = None
    expires_after: timedelta | None = None
    held_for: timedelta | None = None
    ordered: bool = False
    dedupe_for: timedelta | None = None
    replaces: bool = False
    longest_wait: timedelta | None = None
    parent_id: int | None = None
    flow_id: int | None = None
    waits: bool = False


class Enqueued(NamedTuple):
    """Messages that were stored together, in the order of the call.

    Attributes:
        ids: None for a message that was dropped.
        came_of: the result for each message: stored, existing, replaced, collected or dropped. An
            existing message has the same dedupe key, and the id is its id.
        is_told: whether idle workers are notified when the transaction commits.
    """

    ids: Sequence[int | None]
    state: State
    run_at: datetime
    created_at: datetime
    is_told: bool
    came_of: Sequence[str]


def enqueue(
    connection: Cursors,
    common: Common,
    *,
    keys: Sequence[str],
    payloads: Iterable[str | None],
    bodies: Sequence[bytes | None] | None = None,
    dedupe_keys: Sequence[str | None] | None = None,
    ids: Sequence[int] | None = None,
) -> Enqueued:
    """Store one message for each key, in this order, in the transaction of `connection`.

    Outside of a transaction, several messages are stored in a transaction of their own.

    Args:
        keys: at least one key.
        payloads: JSON texts, as many as keys. The server stores some while the iterable makes the
            next ones. So the iterable must not use the same connection.
        ids: reserved ids, as many as keys; None: new ones.

    Raises:
        ChannelFull: a policy's max_size is reached.
        BatchTooLarge: policies bound the size of more than `LOCKED_KEYS` of the keys.
        ValueError: the counts differ, or ordered messages have more than `LOCKED_KEYS` keys.
    """
    if not keys or (ids and len(ids) != len(keys)):
        raise ValueError(f"There are {len(keys)} keys, and {len(ids or [])} ids.")
    if common.ordered and len(set(keys)) > LOCKED_KEYS:
        raise ValueError(f"Ordered messages may have at most {LOCKED_KEYS} keys at once.")
    if len(keys) == 1:
        if _is_plain(common) and not ids and (dedupe_keys is None or dedupe_keys[0] is None):
            [payload] = payloads
            return _now(connection, common, keys[0], payload, bodies[0] if bodies else None)
        return _each(connection, common, keys, payloads, bodies, dedupe_keys, ids)
    with _together(connection):
        if common.ordered:
            keep_order(connection, [(common.channel, key) for key in keys])
        if bodies is not None or dedupe_keys is not None:
            return _each(connection, common, keys, payloads, bodies, dedupe_keys, ids)
        with connection.cursor() as cursor:
            admitted = _admitted(cursor, common, keys)
            ids = ids or reserve(connection, len(keys))
            return _copy(connection, cursor, common, keys, payloads, ids, admitted)


def _together(connection: Any) -> AbstractContextManager[Any]:
    """Return a new transaction where the caller has none: locks must last until the end."""
    if isinstance(connection, psycopg.Connection):
        status = connection.info.transaction_status
        is_alone = connection.autocommit and status == TransactionStatus.IDLE
    else:
        is_alone = isinstance(connection, Tuples) or connection.get_autocommit()
    return begin(connection) if is_alone else nullcontext()


def begin(connection: Any) -> AbstractContextManager[Any]:
    """Begin a transaction, or a savepoint in an open one."""
    if isinstance(connection, psycopg.Connection):
        return connection.transaction()
    if isinstance(connection, Tuples):
        return connection.atomic()
    savepoint: AbstractContextManager[Any] = transaction.atomic(using=connection.alias)
    return savepoint


def keep_order(connection: Cursors, lanes: Iterable[tuple[str, str]]) -> None:
    """Wait until open transactions that enqueued ordered messages in these lanes have ended."""
    _lock(connection, "keep_order", lanes)


def keep_room(connection: Cursors, lanes: Iterable[tuple[str, str]]) -> None:
    """Wait until open transactions that enqueued in lanes of limited size have ended."""
    each = set(lanes)
    with connection.cursor() as cursor:
        _check_count(cursor, each)
    _lock(connection, "rooms", [*each, *{(channel, None) for channel, _ in each}])


def _check_count(cursor: Any, lanes: Collection[tuple[str, str]]) -> None:
    """Check the number of keys where a policy limits the size of each key.

    Raises:
        BatchTooLarge: there are more keys than one batch may lock.
    """
    if len(lanes) <= LOCKED_KEYS:
        return
    cursor.execute(SQL["bounds_keys"], {"channels": list({channel for channel, _ in lanes})})
    if cursor.fetchone() == (True,):
        raise BatchTooLarge


def _lock(connection: Cursors, statement: str, pairs: Iterable[tuple[str, str | None]]) -> None:
    each = list(pairs)
    if not each:
        return
    with connection.cursor() as cursor:
        channels, keys = map(list, zip(*each, strict=True))
        cursor.execute(SQL[statement], {"channels": channels, "keys": keys})


def _is_plain(common: Common) -> bool:
    """Return whether the messages are due at once, need no lock, and are of no flow."""
    return (
        common.run_at is None
        and common.run_after is None
        and common.held_for is None
        and common.flow_id is None
        and not common.ordered
    )


def _now(
    connection: Cursors, common: Common, key: str, payload: str | None, body: bytes | None
) -> Enqueued:
    """Store one plain message."""
    with connection.cursor() as cursor:
        cursor.execute(
            SQL["enqueue_now"],
            {
                "channel": common.channel,
                "key": key,
                "task": common.task,
                "payload": payload,
                "body": body,
                "metadata": common.metadata,
                "options": common.options,
                "priority": common.priority,
                "max_attempts": common.max_attempts,
                "expires_at": common.expires_at,
                "expires_after": exact(common.expires_after),
                "parent_id": common.parent_id,
            },
        )
        [said] = cursor.fetchone()
        id, created, told, came_of = said.split(" ")
        if came_of == "full":
            raise _full(cursor, common.channel, key)
    created_at = EPOCH + timedelta(microseconds=int(created))
    ids = (None if id == "-" else int(id),)
    return Enqueued(ids, State.READY, created_at, created_at, told == "true", (came_of,))


def _full(cursor: Any, channel: str, key: str) -> ChannelFull:
    """Return the error for a channel, or a key, without room for one more message."""
    cursor.execute(SQL["rooms"], {"channels": [channel] * 2, "keys": [None, key]})
    rooms = {key: room for _, key, room in cursor.fetchall() if room is not None}
    # Messages may have ended since. The channel or key with the least room was full.
    fullest = min(rooms, key=rooms.__getitem__, default=None)
    return _no_room(cursor, channel, fullest, wanted=1, room=rooms.get(fullest, 0))


def _no_room(cursor: Any, channel: str, key: str | None, *, wanted: int, room: int) -> ChannelFull:
    """Return the error with the number of messages of the channel or key, and its max_size."""
    cursor.execute(SQL["max_sizes"], {"channel": channel, "key": key})
    sizes = cursor.fetchone()
    most = sizes[0 if key is None else 1] or 0
    return ChannelFull(
        f"The {'' if key is None else f'key {key!r} of the '}channel {channel!r} has no room for "
        f"{wanted} more: it has {most - room} messages that wait or run, and the max_size of its "
        f"policy is {most}. Enqueue again later, or raise max_size: Channel({channel!r}).policy()."
    )


def _each(
    connection: Cursors,
    common: Common,
    keys: Sequence[str],
    payloads: Iterable[str | None],
    bodies: Sequence[bytes | None] | None,
    dedupe_keys: Sequence[str | None] | None,
    ids: Sequence[int] | None,
) -> Enqueued:
    """Store messages one by one, by the function that plain SQL uses."""
    if common.longest_wait is not None:
        unbound = common._replace(longest_wait=None)
        with _together(connection):
            stored = _each(connection, unbound, keys, payloads, bodies, dedupe_keys, ids)
            return _bound(connection, common.longest_wait, stored)
    if len(keys) > 1:
        # First wait for all locks, then store: other transactions may wait for the stored rows.
        keep_room(connection, [(common.channel, key) for key in keys])
        if common.ordered:
            ids = ids or reserve(connection, len(keys))
    nothing = [None] * len(keys)
    given = zip(
        keys, payloads, bodies or nothing, dedupe_keys or nothing, ids or nothing, strict=True
    )
    parameters = _parameters(common)
    with connection.cursor() as cursor:
        if len(keys) == 1:
            [(key, payload, body, dedupe_key, id)] = given
            own = {"key": key, "payload": payload, "body": body, "dedupe_key": dedupe_key, "id": id}
            cursor.execute(SQL["enqueue"], {**parameters, **own})
        else:
            columns = map(list, zip(*given, strict=True))
            names = ("keys", "payloads", "bodies", "dedupe_keys", "ids")
            cursor.execute(
                SQL["enqueue_each"], {**parameters, **dict(zip(names, columns, strict=True))}
            )
        rows = cursor.fetchall()
        ids, states, run_ats, created_ats, told, came_of = zip(*rows, strict=True)
        if "full" in came_of:
            raise _full(cursor, common.channel, keys[came_of.index("full")])
    return Enqueued(ids, State(states[0]), run_ats[0], created_ats[0], any(told), came_of)


def _parameters(common: Common) -> dict[str, Any]:
    return {
        **common._asdict(),
        "run_after": exact(common.run_after),
        "expires_after": exact(common.expires_after),
        "held_for": exact(common.held_for),
        "dedupe_for": exact(common.dedupe_for),
    }


def is_remembered(connection: Cursors, channel: str, dedupe_key: str) -> bool:
    """Return whether a dedupe key is remembered, whatever became of its message."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["is_remembered"], {"channel": channel, "dedupe_key": dedupe_key})
        return bool(cursor.fetchone()[0])


def _bound(connection: Cursors, longest_wait: timedelta, stored: Enqueued) -> Enqueued:
    """Have the messages that were replaced wait no longer than so long since they were stored."""
    pairs = zip(stored.ids, stored.came_of, strict=True)
    replaced = [id for id, came_of in pairs if id is not None and came_of == "replaced"]
    if not replaced:
        return stored
    with connection.cursor() as cursor:
        given = {"ids": array(replaced), "longest_wait": exact(longest_wait)}
        cursor.execute(SQL["bound_wait"], given)
        bound = {id: row for id, *row in cursor.fetchall()}
    state, run_at, _ = bound.get(stored.ids[0], (stored.state, stored.run_at, False))
    is_told = stored.is_told or any(told for _, _, told in bound.values())
    return stored._replace(state=State(state), run_at=run_at, is_told=is_told)


def _admitted(cursor: Any, common: Common, keys: Sequence[str]) -> list[bool] | None:
    """Return for each message whether its channel and its key have room; None: all have room."""
    _check_count(cursor, {(common.channel, key) for key in keys})
    asked = [None, *set(keys)]
    cursor.execute(SQL["rooms"], {"channels": [common.channel] * len(asked), "keys": asked})
    rooms = {key: room for _, key, room in cursor.fetchall() if room is not None}
    wanted: dict[str | None, int] = {**Counter(keys), None: len(keys)}
    full = [key for key, room in rooms.items() if wanted[key] > room]
    if not full:
        return None
    cursor.execute(SQL["drops"], {"channel": common.channel})
    if cursor.fetchone() == (False,):
        key = full[0]
        raise _no_room(cursor, common.channel, key, wanted=wanted[key], room=rooms[key])
    admitted = []
    for key in keys:
        bounds = [bound for bound in (None, key) if bound in rooms]
        admitted.append(all(rooms[bound] > 0 for bound in bounds))
        if admitted[-1]:
            for bound in bounds:
                rooms[bound] -= 1
    return admitted


def _copy(
    connection: Cursors,
    cursor: Any,
    common: Common,
    keys: Sequence[str],
    payloads: Iterable[str | None],
    ids: Sequence[int],
    admitted: Sequence[bool] | None,
) -> Enqueued:
    """Store many messages by COPY, which is cheaper than INSERT but does not check for conflicts.

    A producer's role has no right to COPY: a function of the database stores each of its messages.
    """
    cursor.execute(SQL["begun"], {**_parameters(common), "keys": list(set(keys))})
    state, run_at, created_at, expires_at, lease_until, governed, may_copy = cursor.fetchone()
    if not may_copy:
        return _each(connection, common, keys, payloads, None, None, ids)
    ruled = set(keys) if common.ordered else set(governed or ())
    rest = (common.channel, common.task, common.metadata, common.options, common.priority,
            common.max_attempts, state, run_at, created_at, expires_at, lease_until,
            common.ordered, common.parent_id, common.flow_id)  # fmt: skip
    rows: Iterable[tuple[int, str, str | None]] = zip(ids, keys, payloads, strict=True)
    kept: Sequence[int | None] = ids
    if admitted is not None:
        rows = compress(rows, admitted)
        kept = [id if is_in else None for id, is_in in zip(ids, admitted, strict=True)]
    copying.send(cursor, SQL["copy"], _lines(rows, ruled, rest))
    stored = array(id for id in kept if id is not None)
    cursor.execute(
        SQL["copied"],
        {
            "channel": common.channel,
            "state": state,
            "run_at": run_at,
            "keys": sorted(ruled),
            "ids": stored,
        },
    )
    is_told = cursor.fetchone()[0]
    came_of = ["dropped" if id is None else "stored" for id in kept]
    return Enqueued(kept, State(state), run_at, created_at, is_told, came_of)


def _lines(
    rows: Iterable[tuple[int, str, str | None]], governed: set[str], rest: Iterable[object]
) -> Iterator[str]:
    """Yield rows as text for COPY; all end with the same columns."""
    end = "\t".join("\\N" if value is None else copying.escaped(str(value)) for value in rest)
    for id, key, payload in rows:
        text = "\\N" if payload is None else copying.escaped(payload)
        yield f"{id}\t{copying.escaped(key)}\t{text}\t{key in governed}\t{end}\n"


def reserve(connection: Cursors, count: int) -> list[int]:
    """Reserve message ids for messages that are stored later, and return them."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["reserve"], {"count": count})
        ids: list[int] = cursor.fetchone()[0]
    return ids
