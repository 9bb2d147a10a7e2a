"""Relays to a Redis, and what handles messages from outside."""

from __future__ import annotations

import os
import time
from functools import cache
from typing import Any

import redis
from django.db import connection

from pgqueue import RecordedEvent, TaskContext, relay, subscribe, task

PATIENT: dict[str, Any] = {"max_attempts": 1000, "backoff": [0.1]}


@cache
def streams() -> Any:
    """Return the client of this process."""
    return redis.Redis.from_url(os.environ["REDIS_URL"], socket_timeout=5)


# Each attempt is one of those that are made once a minute.
@relay("chaos.**", name="to redis", start="beginning", backoff=[0])
def to_redis(event: RecordedEvent) -> None:
    """Hand over an event, as the guide does."""
    stream, id = f"chaos:{event.key}", f"{event.position}-0"
    try:
        streams().xadd(stream, {"number": event.payload["number"]}, id=id)
    except redis.ResponseError:
        if not streams().xrange(stream, id, id):
            raise


def leave(message_id: int, number: int, attempt: int) -> None:
    """Leave the row that is counted, and take a while with it."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO chaos_effect (number, message_id, attempt) VALUES (%s, %s, %s)",
            [number, message_id, attempt],
        )
    time.sleep(0.005)


@task(takes_context=True, channel="received", **PATIENT)
def handle(context: TaskContext, number: int) -> None:
    """Handle a message that a task was named for."""
    leave(int(context.id), number, context.attempt)


@subscribe("external.**", name="external", start="beginning", atomic=True, takes_context=True,
           channel="received too", **PATIENT)  # fmt: skip
def handle_event(context: TaskContext, event: RecordedEvent) -> None:
    """Handle one that was published."""
    leave(int(context.id), event.payload, context.attempt)
