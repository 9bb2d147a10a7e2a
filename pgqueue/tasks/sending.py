"""Send raw messages: a payload or a body on a channel, without a task."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Unpack

import psycopg
from asgiref.sync import sync_to_async
from django.db import connections, transaction

from pgqueue.calls import tracing
from pgqueue.codec import raw
from pgqueue.conf import settings
from pgqueue.database.migration_check import needing_tables
from pgqueue.engine import enqueue as engine
from pgqueue.engine.values import Tuples
from pgqueue.exceptions import DuplicateMessage, InvalidMessage
from pgqueue.tasks import tenants
from pgqueue.tasks.current import running_in
from pgqueue.tasks.options import (
    ASSUMED_BY_CLAIMS,
    READ_BY_CLAIMS,
    MessageOptions,
    checked_message,
    travelling,
)

BATCH = 10_000


def send(
    channel: str,
    payload: Any = None,
    *,
    body: bytes | None = None,
    key: str = "",
    dedupe_key: str | None = None,
    database: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
    **options: Unpack[MessageOptions],
) -> int | None:
    """Store a raw message, for a receiver of `channel`, or for the channel's handler.

    The message is part of the transaction that is open on the queue's database, or on
    `connection`. Receivers see it after the commit, and a rollback removes it.

    Args:
        payload: any JSON value, or dates, Decimals, UUIDs, sets and similar values.
        body: bytes of any format. A message may have both a payload and a body, or neither.
        key: the sub-queue inside the channel. Keys take turns.
        priority: -100 to 100. Higher first within a key.
        weight: 1 to 100, for how many messages it counts in the limits of its channel and its key,
            `max_running` and `rate`. If a limit is lower, the message counts for the whole limit.
        run_after: an aware datetime, or seconds or a timedelta from now.
        expires_at: an aware datetime at which the message ends unless it was received before.
        ttl: the same as seconds or a timedelta from now.
        ordered: the ordered messages of a key are received one at a time, in the order in which
            their transactions committed.
        dedupe_key: while the message lives, no second message on the channel may have this key.
        dedupe_for: seconds or a timedelta from now. The dedupe_key is remembered for this time even
            if the message ends sooner.
        on_conflict: the reaction to a second message with the same dedupe_key. "return" the first
            one's id; "replace" the first one, if it was not received yet; "raise" DuplicateMessage.
        longest_wait: seconds or a timedelta. A message that is replaced again and again is due this
            long after the first of them was sent at the latest.
        hold_for: seconds or a timedelta. The message is held, and not received, until it is
            committed within this time.
        metadata: a dict that travels with the message.
        max_attempts: the number of failures after which it is dead. None: as `PGQUEUE` says.
        database: the alias of the queue's database, if not the one of `PGQUEUE`.
        connection: a psycopg connection to send on, for example of another framework.

    Returns:
        The message's id, or the id of an earlier message with the same dedupe key. None: the
        channel is full, and its policy drops new messages.

    Raises:
        InvalidMessage: an option is unknown or invalid, or the payload is not storable.
        PayloadTooLarge: the payload or the body takes more than 16 MiB.
        ChannelFull: a policy's max_size is reached.
        DuplicateMessage: another message has its dedupe key.
    """
    outbox = _Outbox(channel, options, database, connection)
    bodies = None if body is None else [body]
    [id] = outbox.store([payload], bodies, keys=[key], dedupe_keys=[dedupe_key])
    return id


async def asend(
    channel: str,
    payload: Any = None,
    *,
    body: bytes | None = None,
    key: str = "",
    dedupe_key: str | None = None,
    database: str | None = None,
    **options: Unpack[MessageOptions],
) -> int | None:
    """Store a raw message, from async code."""
    return await sync_to_async(send)(
        channel,
        payload,
        body=body,
        key=key,
        dedupe_key=dedupe_key,
        database=database,
        **options,
    )


def send_many(
    channel: str,
    payloads: Iterable[Any] | None = None,
    *,
    bodies: Iterable[bytes | None] | None = None,
    key: str | Callable[[Any], str] = "",
    dedupe_key: Callable[[Any], str | None] | None = None,
    database: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
    **options: Unpack[MessageOptions],
) -> list[int | None]:
    """Store a raw message for each of `payloads` or `bodies`, or for each pair: all or none.

    Without bodies and dedupe keys, 10 000 at a time by COPY.

    Args:
        key, dedupe_key: functions of the payload; of the body, where there are only bodies.
        options: the options of `send`, the same for all messages.

    Returns:
        The return value of `send` for each message, in this order.

    Raises:
        ValueError: the numbers of bodies and payloads differ.
        Exception: each error of `send`, for any message.
    """
    outbox = _Outbox(channel, options, database, connection)
    key_of = key if callable(key) else lambda _: key
    dedupe_key_of = dedupe_key or (lambda _: None)
    pairs = _pairs(payloads, bodies)
    ids: list[int | None] = []
    # These go out together, so that locks are taken in the order of all keys.
    count = None if dedupe_key or options.get("ordered") else BATCH
    with outbox.together():
        while batch := list(islice(pairs, count)):
            own_payloads, own_bodies = zip(*batch, strict=True)
            named = own_bodies if payloads is None else own_payloads
            ids += outbox.store(
                own_payloads,
                None if bodies is None else own_bodies,
                keys=list(map(key_of, named)),
                dedupe_keys=list(map(dedupe_key_of, named)),
            )
    return ids


async def asend_many(
    channel: str,
    payloads: Iterable[Any] | None = None,
    *,
    bodies: Iterable[bytes | None] | None = None,
    key: str | Callable[[Any], str] = "",
    dedupe_key: Callable[[Any], str | None] | None = None,
    database: str | None = None,
    **options: Unpack[MessageOptions],
) -> list[int | None]:
    """Store many raw messages, from async code."""
    return await sync_to_async(send_many)(
        channel,
        payloads,
        bodies=bodies,
        key=key,
        dedupe_key=dedupe_key,
        database=database,
        **options,
    )


def _pairs(
    payloads: Iterable[Any] | None, bodies: Iterable[bytes | None] | None
) -> Iterator[tuple[Any, bytes | None]]:
    if bodies is None:
        return ((payload, None) for payload in payloads or ())
    if payloads is None:
        return ((None, body) for body in bodies)
    return zip(payloads, bodies, strict=True)


class _Outbox:
    """Stores raw messages of one channel that share their options."""

    def __init__(
        self,
        channel: str,
        options: MessageOptions,
        database: str | None,
        connection: psycopg.Connection[Any] | None,
    ) -> None:
        given = checked_message({**options, "channel": channel, "database": database})
        if connection is not None and not isinstance(connection, psycopg.Connection):
            raise InvalidMessage(f"connection={connection!r} is not a psycopg.Connection.")
        self._channel: str = given["channel"]
        self._alias: str = given["database"] or settings().database
        self._connection = connection
        self._on_conflict = given.get("on_conflict", "return")
        self._metadata = given.get("metadata", {})
        self._common = _common(given, None if connection else running_in(self._alias))

    def together(self) -> AbstractContextManager[Any]:
        """Store all messages of the block, or none."""
        if self._connection is None:
            return transaction.atomic(using=self._alias)
        return Tuples(self._connection).atomic()

    def store(
        self,
        payloads: Sequence[Any],
        bodies: Sequence[bytes | None] | None,
        *,
        keys: Sequence[str],
        dedupe_keys: Sequence[str | None],
    ) -> list[int | None]:
        """Store a message for each payload, and return their ids."""
        what = f"the payload for the channel {self._channel!r}"
        own_keys = [tenants.own_key(each, self._metadata) for each in dedupe_keys]
        for key, own_key in zip(keys, own_keys, strict=True):
            checked_message({"key": key, "dedupe_key": own_key})
        with tracing.sending(self._channel, task="", count=len(keys)) as sending:
            stored = self._run(
                self._common._replace(metadata=sending.metadata(self._common.metadata)),
                keys=keys,
                payloads=[raw.encode(what, payload) for payload in payloads],
                bodies=None if bodies is None else [self._checked(body) for body in bodies],
                dedupe_keys=own_keys if any(key is not None for key in own_keys) else None,
            )
            sending.stored(stored.ids, stored.came_of)
        if self._on_conflict == "raise" and "existing" in stored.came_of:
            first = stored.came_of.index("existing")
            raise DuplicateMessage(
                f"Message {stored.ids[first]} of the channel {self._channel!r} has the dedupe "
                f"key {dedupe_keys[first]!r}."
            )
        return list(stored.ids)

    def _checked(self, body: bytes | None) -> bytes | None:
        checked: bytes | None = checked_message({"body": body})["body"]
        raw.check_size(f"the body for the channel {self._channel!r}", len(checked or b""))
        return checked

    def _run(self, common: engine.Common, **messages: Any) -> engine.Enqueued:
        with needing_tables(self._alias):
            if self._connection is not None:
                return engine.enqueue(Tuples(self._connection), common, **messages)
            django = connections[self._alias]
            with django.wrap_database_errors:  # Django's cursors do this, except for COPY
                return engine.enqueue(django, common, **messages)


def _common(given: dict[str, Any], parent_id: int | None) -> engine.Common:
    due: datetime | timedelta | None = given.get("run_after")
    return engine.Common(
        channel=given["channel"],
        task="",
        metadata=tenants.carried(json.dumps(given.get("metadata", {}))),
        options=travelling({**ASSUMED_BY_CLAIMS, **given}, ASSUMED_BY_CLAIMS, READ_BY_CLAIMS),
        priority=given.get("priority", 0),
        max_attempts=given.get("max_attempts") or settings().max_attempts,
        run_at=due if isinstance(due, datetime) else None,
        run_after=due if isinstance(due, timedelta) else None,
        expires_at=given.get("expires_at"),
        expires_after=given.get("ttl"),
        held_for=given.get("hold_for"),
        ordered=given.get("ordered", False),
        dedupe_for=given.get("dedupe_for"),
        replaces=given.get("on_conflict") == "replace",
        longest_wait=given.get("longest_wait"),
        parent_id=parent_id,
    )
