"""Given-up events as dead letters.

A replay calls the group's handler again, or matches the event with subscriptions once more.
"""

from __future__ import annotations

import json

from pgqueue.database.connections import borrow
from pgqueue.engine import errors, matching
from pgqueue.engine.groups import Parked
from pgqueue.events.consumers import Consumer, find_consumer
from pgqueue.events.reading import read_stretch
from pgqueue.events.recorded import RecordedEvent
from pgqueue.exceptions import EventsRemoved, InvalidGroup, PGQueueError
from pgqueue.options.filters import Filter
from pgqueue.tasks import TaskContext, task


@task(max_attempts=1)
def handle(group: str, event: RecordedEvent) -> None:
    """Handle an event that a group has given up."""
    _handle(group, event)


@task(max_attempts=1, atomic=True)
def handle_atomically(group: str, event: RecordedEvent) -> None:
    """Handle an event that an atomic group has given up: changes happen exactly once, too."""
    _handle(group, event)


@task(channel=matching.CHANNEL, max_attempts=1, atomic=True, takes_context=True)
def dispatch(context: TaskContext, position: int, names: list[str]) -> int:
    """Match an event that was set aside with subscriptions; return the number of new messages.

    Raises:
        EventsRemoved: the event was removed from the log meanwhile.
    """
    with borrow(context.database) as connection:
        stored = matching.match_again(connection, position, names)
        # Afterwards: an event that still exists was matched, whenever retention drops events.
        if not matching.exists(connection, position):
            raise _removed(position)
        return stored


@task(max_attempts=1, takes_context=True)
def handle_unread(context: TaskContext, group: str, position: int) -> None:
    """Read and handle an event that could not be read."""
    _handle(group, _read(context, position))


@task(max_attempts=1, atomic=True, takes_context=True)
def handle_unread_atomically(context: TaskContext, group: str, position: int) -> None:
    """Read and handle an event that an atomic group could not read."""
    _handle(group, _read(context, position))


def _handle(group: str, event: RecordedEvent) -> None:
    consumer = find_consumer(group)
    if consumer is None:
        raise InvalidGroup(f"No handler is declared for the group {group!r} here.")
    consumer.handle([event])


def _read(context: TaskContext, position: int) -> RecordedEvent:
    # The dead letter is in the database of its event's log.
    with borrow(context.database) as connection:
        try:
            stretch = read_stretch(connection, Filter(), after=position - 1, limit=1, reach=1)
        except EventsRemoved as error:
            raise _removed(position) from error
    if not stretch.events:
        raise _removed(position)
    return RecordedEvent.of(stretch.events[0])


def _removed(position: int) -> EventsRemoved:
    """Return the error of a dead letter whose event is no longer in the log."""
    remedy = "Discard this dead letter, or put the event back into the log."
    return EventsRemoved(position - 1, position, remedy=remedy)


def parked(consumer: Consumer, event: RecordedEvent, error: BaseException, failures: int) -> Parked:
    """Return the dead letter of an event."""
    described = json.loads(errors.describe(error, attempt=failures, worker=""))
    is_read = bool(event.topic)
    tasks = (handle, handle_atomically) if is_read else (handle_unread, handle_unread_atomically)
    replayed = tasks[consumer.atomic]
    try:
        payload = replayed.codec.encode((consumer.name, event if is_read else event.position), {})
    except (PGQueueError, ValueError, RecursionError):
        # It is too large for a message, for example: the replay reads it from the log.
        replayed = (handle_unread, handle_unread_atomically)[consumer.atomic]
        payload = replayed.codec.encode((consumer.name, event.position), {})
    return Parked(
        channel=f"group:{consumer.name}",
        key=event.key,
        task=replayed.name,
        payload=payload,
        errors=json.dumps([described]),
        failures=failures,
    )
