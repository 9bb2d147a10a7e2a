"""Events that a group has given up, as dead letters: a replay calls the group's handler again."""

from __future__ import annotations

import json

from pgqueue.engine import errors
from pgqueue.engine.groups import Parked
from pgqueue.events.consumers import Consumer, find
from pgqueue.events.recorded import RecordedEvent
from pgqueue.exceptions import InvalidGroup
from pgqueue.tasks import task


@task(max_attempts=1)
def handle(group: str, event: RecordedEvent) -> None:
    """Handle an event that was given up."""
    _handle(group, event)


@task(max_attempts=1, atomic=True)
def handle_atomically(group: str, event: RecordedEvent) -> None:
    """Handle an event that an atomic group has given up: its effects happen exactly once, too."""
    _handle(group, event)


def _handle(group: str, event: RecordedEvent) -> None:
    consumer = find(group)
    if consumer is None:
        raise InvalidGroup(f"No handler is declared for the group {group!r} here.")
    consumer.handle([event])


def parked(consumer: Consumer, event: RecordedEvent, error: BaseException, failures: int) -> Parked:
    """Return the dead letter of an event."""
    described = json.loads(errors.describe(error, attempt=failures, worker=""))
    replayed = handle_atomically if consumer.atomic else handle
    return Parked(
        channel=f"group:{consumer.name}",
        key=event.key,
        task=replayed.name,
        payload=replayed.codec.encode((consumer.name, event), {}),
        errors=json.dumps([described]),
        failures=failures,
    )
