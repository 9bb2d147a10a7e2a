"""Events that a group has given up, as dead letters: a replay calls the group's handler again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pgqueue.codec.encoding import to_json
from pgqueue.engine import errors
from pgqueue.engine.groups import Parked
from pgqueue.events.consumers import Consumer, find
from pgqueue.events.recorded import RecordedEvent
from pgqueue.exceptions import InvalidGroup
from pgqueue.tasks import task


@task(max_attempts=1)
def handle(group: str, event: dict[str, Any]) -> None:
    """Handle an event that was given up."""
    consumer = find(group)
    if consumer is None:
        raise InvalidGroup(f"No handler is declared for the group {group!r} here.")
    consumer.handle([_read(event)])


def parked(consumer: Consumer, event: RecordedEvent, error: BaseException, failures: int) -> Parked:
    """Return the dead letter of an event."""
    described = json.loads(errors.describe(error, attempt=failures, worker=""))
    return Parked(
        channel=f"group:{consumer.name}",
        key=event.key,
        task=handle.name,
        payload=to_json({"args": [consumer.name, _written(event)], "kwargs": {}}),
        errors=json.dumps([described]),
        failures=failures,
    )


def _written(event: RecordedEvent) -> Mapping[str, Any]:
    # Texts as they are: what is in them has a meaning only to the event's own codec.
    return {
        "position": event.position,
        "topic": event.topic,
        "key": event.key,
        "payload": event.payload_json,
        "metadata": event.metadata_json,
        "created_at": event.created_at.isoformat(),
    }


def _read(given: Mapping[str, Any]) -> RecordedEvent:
    return RecordedEvent(
        given["position"],
        given["topic"],
        given["key"],
        given["payload"],
        given["metadata"],
        datetime.fromisoformat(given["created_at"]),
    )
