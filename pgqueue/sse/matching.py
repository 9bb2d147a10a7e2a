"""Match events with the filters of all clients, and format each event once."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import psycopg

from pgqueue.engine import identity, log
from pgqueue.engine.values import Connection
from pgqueue.events.reading import is_own, meeting
from pgqueue.events.recorded import RecordedEvent
from pgqueue.exceptions import InvalidSubscription
from pgqueue.options.filters import Filter, as_regex
from pgqueue.options.sql_conditions import SQLCondition
from pgqueue.streams import wire
from pgqueue.values.instants import aware

PAGE = 500
"""The maximum of events in one read."""
MOST_PATTERNS = 100
"""The maximum of topic patterns in a query. With more, the feed reads all events, and filters."""
MOST_PAIRS = 20_000
"""The maximum of pairs of a condition and an event in a statement."""


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
    """Return the events that each filter matches. PostgreSQL checks the payloads.

    Filters with the same topics, conditions or condition in SQL share its evaluation.
    """
    matched = _by_topic_and_key(filters, events)
    conditional = {wanted: found for wanted, found in matched.items() if wanted.path and found}
    if conditional:
        met = _meeting(connection, conditional)
        for wanted in conditional:
            positions = met[_conditions_of(wanted)]
            matched[wanted] = [each for each in matched[wanted] if each.position in positions]
    return _in_conditions(connection, matched)


def _by_topic_and_key(
    filters: Iterable[Filter], events: Sequence[RecordedEvent]
) -> dict[Filter, list[RecordedEvent]]:
    by_topics: dict[tuple[str, ...], dict[str | None, list[RecordedEvent]]] = {}
    matched = {}
    for wanted in filters:
        if wanted.topics not in by_topics:
            by_topics[wanted.topics] = _by_key(wanted.topics, events)
        matched[wanted] = by_topics[wanted.topics].get(wanted.key, [])
    return matched


def _by_key(
    topics: tuple[str, ...], events: Sequence[RecordedEvent]
) -> dict[str | None, list[RecordedEvent]]:
    """Return the events that match the topics by their keys; None has the events of all keys."""
    found: dict[str | None, list[RecordedEvent]] = defaultdict(list)
    for each in events:
        if _wants_topic(topics, each.topic):
            found[None].append(each)
            found[each.key].append(each)
    return found


def _meeting(
    connection: Connection, matched: Mapping[Filter, Iterable[RecordedEvent]]
) -> dict[Filter, set[int]]:
    """Return the positions of the events that meet the conditions of filters, by `_conditions_of`.

    A statement has a bounded number of pairs: with thousands of conditions, it would last longer
    than a statement may.
    """
    asked: dict[Filter, set[int]] = defaultdict(set)
    for wanted, found in matched.items():
        asked[_conditions_of(wanted)].update(each.position for each in found)
    pairs = [(wanted, position) for wanted, found in asked.items() for position in found]
    met: dict[Filter, set[int]] = {wanted: set() for wanted in asked}
    for start in range(0, len(pairs), MOST_PAIRS):
        part = pairs[start : start + MOST_PAIRS]
        numbers = {
            wanted: number for number, wanted in enumerate(dict.fromkeys(w for w, _ in part))
        }
        conditions = list(numbers)
        given = [(numbers[wanted], position) for wanted, position in part]
        for number, position in log.meeting(connection, conditions, given):
            met[conditions[number]].add(position)
    return met


@lru_cache(10_000)
def _conditions_of(wanted: Filter) -> Filter:
    return Filter(where=wanted.where)


def _in_conditions(
    connection: Connection, matched: Mapping[Filter, list[RecordedEvent]]
) -> dict[Filter, list[RecordedEvent]]:
    """Return the events that meet the filters' conditions in SQL."""
    asked: dict[SQLCondition, dict[int, RecordedEvent]] = defaultdict(dict)
    for wanted, found in matched.items():
        if wanted.condition is not None:
            asked[wanted.condition].update((each.position, each) for each in found)
    met = {
        condition: {each.position for each in meeting(connection, condition, list(found.values()))}
        for condition, found in asked.items()
        if found
    }
    return {
        wanted: found
        if wanted.condition is None
        else [each for each in found if each.position in met.get(wanted.condition, ())]
        for wanted, found in matched.items()
    }


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
