"""Publish at a later time, by a delayed message whose task publishes the event."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import psycopg

from pgqueue.conf import settings
from pgqueue.engine.publish import NewEvent
from pgqueue.events.acting import SESSION_USER, said_by
from pgqueue.events.publishing import Outbox, made
from pgqueue.events.typed import Event
from pgqueue.exceptions import InvalidEvent, InvalidTask
from pgqueue.tasks import TaskContext, TaskResult, task
from pgqueue.tasks.dropping import refuse_dropped


@task(atomic=True, takes_context=True)
def publish_now(
    context: TaskContext, topic: str, key: str, payload: str | None, metadata: str
) -> None:
    """Publish an event, exactly once. Payload and metadata are JSON texts.

    If a producer's role has named the actor, the role is recorded in the metadata, too.
    """
    if role := context.metadata.get(SESSION_USER):
        metadata = json.dumps(said_by(role, json.loads(metadata)))
    Outbox(context.database, None).store(NewEvent(topic, key, payload, metadata))


def publish_later(
    event: str | Event,
    payload: Any = None,
    *,
    run_after: datetime | timedelta | float,
    key: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    channel: str | None = None,
    database: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> TaskResult[None]:
    """Publish an event at a later time, by a worker.

    The event gets its position at that time. Its metadata holds the current actor. Until then it is
    a delayed message of the task `pgqueue.events.later.publish_now`.

    Args:
        event, payload, key, metadata, database, connection: as for `publish`.
        run_after: an aware datetime, or seconds or a timedelta from now.
        channel: the channel of the message; None: the default channel.

    Returns:
        The message. After its `cancel()` nothing is published.

    Raises:
        InvalidEvent: the event or the time is invalid.
        PayloadTooLarge: the payload takes more than 16 MiB.
        ChannelFull: the channel is full, also where it drops further messages.
    """
    new = made(event, payload, key=key, metadata=metadata)
    try:
        own = publish_now.using(
            run_after=run_after,
            channel=channel,
            database=database or settings().database,
            connection=connection,
        )
    except InvalidTask as error:
        raise InvalidEvent(str(error)) from error
    message = own.enqueue(new.topic, new.key, new.payload, new.metadata)
    refuse_dropped(own.queue_name, message)  # an event is never dropped: the log has no size
    return message
