"""Publish events, in the caller's transaction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any

import psycopg
from asgiref.sync import sync_to_async
from django.db import connections, transaction

from pgqueue.calls import tracing
from pgqueue.codec import raw
from pgqueue.codec.scalars import Unstorable
from pgqueue.conf import settings
from pgqueue.database.migration_check import needing_tables
from pgqueue.engine import publish as engine
from pgqueue.engine.publish import Condition, NewEvent
from pgqueue.engine.values import Cursors, Tuples
from pgqueue.events import typed
from pgqueue.events.acting import acting
from pgqueue.events.conditions import Since, as_conditions, error_of
from pgqueue.events.typed import Event
from pgqueue.exceptions import InvalidEvent, InvalidMessage, InvalidTask
from pgqueue.options.filters import as_topic
from pgqueue.tasks import tenants
from pgqueue.tasks.options import checked_message
from pgqueue.values.error_words import checked_option, shown
from pgqueue.values.names import as_key

BATCH = 10_000
EMPTY = "{}"


def publish(
    event: str | Event,
    payload: Any = None,
    *,
    key: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    expect: int | None = None,
    if_none_since: Since | list[Since] | None = None,
    database: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> None:
    """Publish an event, which readers may read now or later, in the order of the log.

    The event is part of the transaction that is open on the queue's database, or on `connection`.
    It gets its position after the commit, and a rollback removes it.

    Args:
        event: a topic, such as "order.paid"; or an instance of a subclass of `Event`.
        payload: any JSON value, or dates, Decimals, UUIDs, sets and similar values. Not with an
            instance of `Event`, which is its own payload.
        key: partitioned groups, too, read the events of one key in their order. None: the key that
            the event's class declares, or "".
        metadata: a dict that travels with the event.
        expect: publish only if the last event of this topic and key is at this position.
            `NO_EVENT`: only if there is none yet. None: no condition. Until the end of the
            transaction, other publishers with conditions on the same topic and key wait.
        if_none_since: publish only if no event of another topic and key is after a position.
            Give a tuple (topic, key, position), or a list of such tuples. None: no condition.
        database: the alias of the queue's database, if not the one of `PGQUEUE`.
        connection: a psycopg connection to publish on, for example of another framework.

    Raises:
        InvalidEvent: the topic, the key, the payload, the metadata or a condition is invalid.
        PayloadTooLarge: the payload takes more than 16 MiB.
        PositionConflict: a condition is not met. Nothing is published.
        PositionAhead: the position of a condition is after the end of the log.
    """
    outbox, new = Outbox(database, connection), made(event, payload, key=key, metadata=metadata)
    if expect is None and if_none_since is None:
        outbox.store(new)
    else:
        outbox.store_if(new, as_conditions(new, expect, if_none_since))


async def apublish(
    event: str | Event,
    payload: Any = None,
    *,
    key: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    expect: int | None = None,
    if_none_since: Since | list[Since] | None = None,
    database: str | None = None,
) -> None:
    """Publish an event from async code, as `publish` does."""
    await sync_to_async(publish)(
        event,
        payload,
        key=key,
        metadata=metadata,
        expect=expect,
        if_none_since=if_none_since,
        database=database,
    )


def publish_many(
    events: Iterable[Event | tuple[Any, ...]],
    *,
    metadata: Mapping[str, Any] | None = None,
    database: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> int:
    """Publish events in their order, all or none, 10 000 at a time by COPY.

    Args:
        events: instances of subclasses of `Event`, or tuples (topic, payload) or (topic, payload,
            key).
        metadata: a dict that travels with each event.
        database, connection: as for `publish`.

    Returns:
        The number of published events.

    Raises:
        InvalidEvent: an event is invalid. Then no event is published.
        PayloadTooLarge: a payload takes more than 16 MiB.
    """
    outbox = Outbox(database, connection)
    if not isinstance(events, Iterable):
        raise InvalidEvent(f"events={shown(events)}: there is nothing to iterate over.")
    checked = iter(_made(each, metadata) for each in events)
    count = 0
    with outbox.together():
        # Make a batch before it goes out: the iterable of events may use the same connection.
        while batch := list(islice(checked, BATCH)):
            outbox.store_many(batch)
            count += len(batch)
    return count


async def apublish_many(
    events: Iterable[Event | tuple[Any, ...]],
    *,
    metadata: Mapping[str, Any] | None = None,
    database: str | None = None,
) -> int:
    """Publish events from async code, as `publish_many` does."""
    return await sync_to_async(publish_many)(events, metadata=metadata, database=database)


def _made(given: Any, metadata: Mapping[str, Any] | None) -> NewEvent:
    if isinstance(given, Event):
        return made(given, metadata=metadata)
    if not isinstance(given, tuple) or not 1 <= len(given) <= 3:
        raise InvalidEvent(
            f"{shown(given)} must be (topic, payload) or (topic, payload, key), or an Event."
        )
    topic, payload, key = (*given, None, None)[:3]
    return made(topic, payload, key=key, metadata=metadata)


def made(
    event: str | Event,
    payload: Any = None,
    *,
    key: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> NewEvent:
    """Return an event as it is stored, with the actor in its metadata.

    Raises:
        InvalidEvent: the topic, the key, the payload or the metadata is invalid.
        PayloadTooLarge: the payload takes more than 16 MiB.
    """
    own: dict[str, Any] = {}
    if isinstance(event, Event):
        if payload is not None:
            raise InvalidEvent(f"{type(event).__name__} is its own payload: pass no other payload.")
        topic, text = event.topic, typed.encode(event)
        key = typed.key_of(event) if key is None else key
        own = {typed.VERSION: event.version}
    else:
        topic = as_topic(event)
        try:
            encoded = raw.encode(f"the payload of the event {topic!r}", payload)
        except InvalidMessage as error:
            raise InvalidEvent(str(error)) from error
        text = encoded  # type: ignore[assignment]
    return NewEvent(topic, _key(key), text, _metadata(own, metadata))


def _key(key: str | None) -> str:
    if key is None:
        return ""
    return checked_option(as_key, "key", key, InvalidEvent)


def _metadata(own: Mapping[str, Any], given: Mapping[str, Any] | None) -> str:
    who = acting()
    if not (own or given or who):
        return tenants.carried(EMPTY)
    try:
        checked: dict[str, Any] = checked_message({"metadata": given or {}})["metadata"]
    except (InvalidMessage, InvalidTask, Unstorable) as error:
        raise InvalidEvent(str(error)) from error
    acts = {"acting": who} if who else {}
    return tenants.carried(json.dumps({**acts, **checked, **own}))


def create(
    event: str | Event, payload: Any, *, key: str | None, metadata: Mapping[str, Any] | None
) -> NewEvent:
    """Return an event that another thread will store. It belongs to the current trace."""
    new = made(event, payload, key=key, metadata=metadata)
    with tracing.sending(new.topic, operation="create") as sending:
        return _carrying(new, sending)


def _sending(events: Sequence[NewEvent]) -> tracing.Sending:
    topics = {event.topic for event in events} if tracing.tracer else set()
    return tracing.sending(topics.pop() if len(topics) == 1 else None, count=len(events))


def _carrying(event: NewEvent, sending: tracing.Sending) -> NewEvent:
    metadata = sending.metadata(event.metadata)
    return event if metadata is event.metadata else event._replace(metadata=metadata)


class Outbox:
    """Stores events on the queue's database or on a given connection.

    Raises:
        InvalidEvent: the database is unknown, or the connection is not psycopg's.
    """

    def __init__(self, database: str | None, connection: psycopg.Connection[Any] | None) -> None:
        try:
            checked_message({"database": database})
        except InvalidMessage as error:
            raise InvalidEvent(str(error)) from error
        if connection is not None and not isinstance(connection, psycopg.Connection):
            raise InvalidEvent(f"connection={shown(connection)} is not a psycopg.Connection.")
        self.alias = database or settings().database
        self._connection = connection

    @property
    def cursors(self) -> Cursors:
        """The connection on which events are stored."""
        return connections[self.alias] if self._connection is None else Tuples(self._connection)

    def together(self) -> AbstractContextManager[Any]:
        """Store all events of the block, or none."""
        if self._connection is None:
            return transaction.atomic(using=self.alias)
        return Tuples(self._connection).atomic()

    def store(self, event: NewEvent) -> None:
        """Store one event."""
        with needing_tables(self.alias), tracing.sending(event.topic) as sending:
            engine.publish(self.cursors, _carrying(event, sending))

    def store_if(self, event: NewEvent, conditions: Sequence[Condition]) -> None:
        """Store one event if all conditions are met.

        Raises:
            PositionConflict: a condition is not met.
            PositionAhead: the position of a condition is after the end of the log.
        """
        with needing_tables(self.alias), tracing.sending(event.topic) as sending:
            unmet = engine.publish_if(self.cursors, _carrying(event, sending), conditions)
            if unmet:
                raise error_of(unmet)

    def store_many(self, events: Sequence[NewEvent]) -> None:
        """Store events by COPY, in a transaction."""
        with needing_tables(self.alias), _sending(events) as sending:
            carrying = [_carrying(each, sending) for each in events] if tracing.tracer else events
            if self._connection is not None:
                engine.publish_many(Tuples(self._connection), carrying)
                return
            django = connections[self.alias]
            with django.wrap_database_errors:  # Django's cursors do this, except for COPY
                engine.publish_many(django, carrying)
