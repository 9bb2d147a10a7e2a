"""Receive messages of other systems, each once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import psycopg
from asgiref.sync import sync_to_async

from pgqueue.database.migration_check import needing_tables
from pgqueue.engine import received
from pgqueue.events.later import publish_later
from pgqueue.events.publishing import Outbox, made
from pgqueue.events.typed import Event
from pgqueue.exceptions import InvalidMessage, InvalidTask
from pgqueue.tasks import Task, TaskResult, tenants
from pgqueue.tasks.options import checked_message
from pgqueue.values.error_words import checked_option, shown
from pgqueue.values.names import CHANNEL_LIMIT, KEY_LIMIT, as_key, as_text
from pgqueue.values.number_checks import as_duration

REMEMBERED = timedelta(days=30)
SOURCE_LIMIT = CHANNEL_LIMIT
ID_LIMIT = KEY_LIMIT - SOURCE_LIMIT - 1
EXTERNAL = "external"
"""The key in the metadata for the id and the source of a received message."""


@dataclass(frozen=True)
class Received:
    """The outcome of a message from another system. It is true if the message is new.

    Attributes:
        is_new: whether the message was stored now. If not, it was stored before. Or a task
            handles it, and the full channel of the task drops new messages.
        message: the message of its task; with `run_after`, the delayed message that will publish
            the event; None: there is none.
    """

    is_new: bool
    message: TaskResult[Any] | None = None

    def __bool__(self) -> bool:
        return self.is_new


def receive_external(
    message_id: str,
    to: Task[Any, Any] | str | Event | None = None,
    payload: Any = None,
    *,
    source: str = "",
    key: str | None = None,
    run_after: datetime | timedelta | float | None = None,
    remember_for: float | timedelta = REMEMBERED,
    metadata: Mapping[str, Any] | None = None,
    database: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> Received:
    """Store a message of another system, unless one with this id was stored before.

        receive_external("evt_7", book, {"order": 7}, source="shop")           # a task
        receive_external("evt_7", "shop.order.paid", {"order": 7}, source="shop")  # the event log
        with transaction.atomic():
            if receive_external("evt_7", source="shop"):                       # here and now
                ...

    The message is part of the transaction that is open on the queue's database, or on
    `connection`. Acknowledge it to its sender after the commit. If two transactions receive the
    same message, the second one waits for the first.

    Args:
        message_id: the sender's id of the message, the same in each repetition.
        to: a task, a topic, a typed event or None. A task is enqueued with the payload and runs
            atomically: its changes in the queue's database happen once. A topic or an event is
            published once, for any number of subscriptions. None: only the id is stored, so that
            the caller handles the message in the same transaction.
        payload: the argument of the task, or the payload of the event.
        source: the name of the sender. Ids are unique within a source, and within a tenant.
        key: the key of the message or the event; None: as the task or the event's class says.
        run_after: an aware datetime, or seconds or a timedelta from now. A task's message waits
            until then, and an event is published then.
        remember_for: seconds or a timedelta for which its id is remembered.
        metadata: a dict that travels with it. In addition, `metadata["external"]` has the message's
            id and source.
        database: the alias of the queue's database, if not the task's or the one of `PGQUEUE`.
        connection: a psycopg connection to store it on, for example of another framework.

    Returns:
        Whether it is new, and the message of its task.

    Raises:
        InvalidMessage: the id, the source or another option is invalid. For a task, the source, the
            id and the name of the tenant have more than 1000 bytes together.
        InvalidArguments: the payload does not fit the task.
        InvalidEvent: the event is invalid.
        ChannelFull: a policy's max_size is reached. A delayed event is also refused where the
            channel drops further messages.
    """
    id, span = known_as(message_id, source), lasting(remember_for)
    given = {} if metadata is None else metadata
    checked_message({"metadata": given, "database": database})
    told = {**given, EXTERNAL: {"id": message_id, "source": source}}
    if isinstance(to, Task):
        own: dict[str, Any] = {"key": key, "run_after": run_after, "database": database}
        own = {name: value for name, value in own.items() if value is not None}
        own |= {"metadata": {**to.metadata, **told}, "dedupe_for": span, "connection": connection}
        return _enqueue(to, payload, dedupe_key=_own_key(id, own["metadata"]), **own)
    outbox, id = Outbox(database, connection), tenants.own_key(id, told)
    if to is None:
        if any(each is not None for each in (payload, key, run_after, metadata)):
            raise InvalidMessage("to=None: only the id is stored: pass no payload and no options.")
        return Received(_remember(outbox, id, span))
    _check_goal(to)
    event = made(to, payload, key=key, metadata=told)
    with outbox.together():
        if not _remember(outbox, id, span):
            return Received(False)
        if run_after is None:
            outbox.store(event)
            return Received(True)
        due: dict[str, Any] = {"run_after": run_after, "key": key, "metadata": told}
        later = publish_later(to, payload, database=database, connection=connection, **due)
        return Received(True, later)


async def areceive_external(
    message_id: str,
    to: Task[Any, Any] | str | Event | None = None,
    payload: Any = None,
    *,
    source: str = "",
    key: str | None = None,
    run_after: datetime | timedelta | float | None = None,
    remember_for: float | timedelta = REMEMBERED,
    metadata: Mapping[str, Any] | None = None,
    database: str | None = None,
) -> Received:
    """Store a message of another system once, from async code, as `receive_external` does."""
    return await sync_to_async(receive_external)(
        message_id,
        to,
        payload,
        source=source,
        key=key,
        run_after=run_after,
        remember_for=remember_for,
        metadata=metadata,
        database=database,
    )


def known_as(message_id: Any, source: Any) -> str:
    """Return the text under which a message is remembered: its source and its id.

    Raises:
        InvalidMessage: its id or its source is invalid.
    """
    try:
        if ":" in as_text(source, SOURCE_LIMIT):
            raise ValueError("it must be a name without colons.")
    except (TypeError, ValueError) as error:
        raise InvalidMessage(f"source={shown(source)}: {error}") from error
    try:
        if message_id == "":
            raise ValueError("it must not be empty.")
        return f"{source}:{as_text(message_id, ID_LIMIT)}"
    except (TypeError, ValueError) as error:
        raise InvalidMessage(f"message_id={shown(message_id)}: {error}") from error


def lasting(remember_for: Any) -> timedelta:
    """Return the duration for which an id is remembered.

    Raises:
        InvalidMessage: the value is invalid.
    """
    return checked_option(as_duration, "remember_for", remember_for, InvalidMessage)


def _own_key(id: str, metadata: Mapping[str, Any]) -> tenants.StoredKey:
    key = tenants.own_key(id, metadata)
    try:
        return tenants.StoredKey(as_key(key))
    except ValueError as error:
        raise InvalidMessage(
            f"message_id={shown(id)}, with its source and the name of its tenant: {error}"
        ) from error


def _enqueue(task: Task[Any, Any], payload: Any, **options: Any) -> Received:
    try:
        # Atomic, so that its changes happen once; stored in this transaction, and not on commit.
        once = task.using(
            atomic=task.atomic or True, on_conflict="return", enqueue_on_commit=False, **options
        )
    except InvalidTask as error:
        raise InvalidMessage(str(error)) from error
    message = once.enqueue(payload)
    return Received(message.came_of == "stored", message)


def _remember(outbox: Outbox, id: str, span: timedelta) -> bool:
    with needing_tables(outbox.alias):
        return bool(received.remember(outbox.cursors, [id], lasting=span))


def _check_goal(to: Any) -> None:
    if not isinstance(to, str | Event):
        raise InvalidMessage(
            f"to={shown(to)}: it must be a task of pgqueue, a topic, an Event or None."
        )
