"""Match events with the filters of all clients, and format each event once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

import psycopg

from pgqueue.engine import identity, log
from pgqueue.engine.values import Connection
from pgqueue.events.reading import is_own, meeting
from pgqueue.events.recorded import RecordedEvent
from pgqueue.exceptions import InvalidSubscription
from pgqueue.options.filters import Filter, as_regex
from pgqueue.streams import wire
from pgqueue.values.instants import aware

PAGE = 500
"""The maximum of events in one read."""
MOST_PATTERNS = 100
"""The maximum of topic patterns in a query. With more, the feed reads all events, and filters."""


def of_any(filters: Iterable[Filter]) -> Filter:
    """Return a filter that matches at least the events which any of the filters matches."""
    each = list(filters)
    topics = {topic for wanted in each for topic in wanted.topics}
    if len(topics) > MOST_PATTERNS or any(wanted.wants_all_topics for wanted in each):
        return Filter()
    return Filter(tuple(sorted(topics)))


def chunks_of(
    connection: Connection,
    filters: Iterable[Filter],
    events: Sequence[RecordedEvent],
    ours: str,
) -> dict[Filter, tuple[bytes, int]]:
    """Return the formatted events of each filter that matches any, and their number."""
    blocks: dict[int, bytes] = {}

    def formatted(event: RecordedEvent) -> bytes:
        if event.position not in blocks:
            blocks[event.position] = recorded(ours, event)
        return blocks[event.position]

    chunks = {}
    for wanted, found in matched_by(connection, filters, events).items():
        if found:
            chunks[wanted] = b"".join(map(formatted, found)), len(found)
    return chunks


def matched_by(
    connection: Connection, filters: Iterable[Filter], events: Sequence[RecordedEvent]
) -> dict[Filter, list[RecordedEvent]]:
    """Return the events that each filter matches. PostgreSQL checks the payloads."""
    matched = {
        wanted: [
            each
            for each in events
            if _wants_topic(wanted.topics, each.topic) and wanted.key in (None, each.key)
        ]
        for wanted in filters
    }
    conditional = [wanted for wanted, found in matched.items() if wanted.path and found]
    if conditional:
        asked = [
            (number, event.position)
            for number, wanted in enumerate(conditional)
            for event in matched[wanted]
        ]
        met = set(log.meeting(connection, conditional, asked))
        for number, wanted in enumerate(conditional):
            matched[wanted] = [e for e in matched[wanted] if (number, e.position) in met]
    return {wanted: _in_condition(connection, wanted, found) for wanted, found in matched.items()}


def _in_condition(
    connection: Connection, wanted: Filter, events: list[RecordedEvent]
) -> list[RecordedEvent]:
    """Return the events that meet a filter's condition in SQL."""
    if wanted.condition is None or not events:
        return events
    return meeting(connection, wanted.condition, events)


def fails(connection: Connection, wanted: Filter, events: Sequence[RecordedEvent]) -> bool:
    """Return whether PostgreSQL refuses a filter's conditions for these events."""
    try:
        matched_by(connection, [wanted], events)
    except InvalidSubscription:
        return True
    except psycopg.Error as error:
        if not is_own(error):
            raise
        return True
    return False


@lru_cache(10_000)
def _wants_topic(patterns: tuple[str, ...], topic: str) -> bool:
    return not patterns or any(_compiled(pattern).match(topic) for pattern in patterns)


@lru_cache(1000)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(as_regex(pattern).removesuffix("$") + r"\Z")


def recorded(ours: str, event: RecordedEvent) -> bytes:
    """Return a formatted event, with a mark of the database's identity."""
    marker = identity.marker_of(aware(event.created_at))
    return wire.recorded(event, mark=identity.mark(ours, marker))
