"""Assertions on published events, whether they have a position already or not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import connections

from pgqueue.codec import raw
from pgqueue.database.migration_check import needing_tables
from pgqueue.engine import log, publish
from pgqueue.events import typed
from pgqueue.events.reading import as_alias, read_stretch
from pgqueue.events.recorded import RecordedEvent
from pgqueue.events.typed import Event
from pgqueue.exceptions import InvalidEvent
from pgqueue.options.filters import Filter, as_filter

SHOWN = 10
LIMIT = 10_000


def assert_published(
    event: str | type[Event] | Event,
    *,
    payload: Any = None,
    where: Mapping[str, Any] | None = None,
    key: str | None = None,
    count: int | None = None,
    database: str | None = None,
) -> list[RecordedEvent]:
    """Check that events were published; return them, in the order of the log.

    Events of the test's open transaction count. An event that has no position yet has position 0.

    Args:
        event: a topic, or a pattern such as "order.*"; or a class of `Event`; or an instance, whose
            payload the event has.
        payload: the whole payload; None: any payload.
        where: conditions on payloads, as for `read()`.
        key: the key of the event.
        count: the exact number of events; None: one or more.
        database: the alias of the queue's database, if not the one of `PGQUEUE`.

    Raises:
        AssertionError: fewer or more events were published. Its text lists the published events.
        InvalidFilter: the topic or the conditions are invalid.
        InvalidEvent, InvalidMessage: no event may have this payload.
        ValueError: the database is invalid.
    """
    topic: Any = event if isinstance(event, str) else getattr(event, "topic", event)
    wanted = _encoded(event, payload)
    alias = as_alias(database)
    matching = [
        each
        for each in _published(alias, as_filter(topic, where))
        if (key is None or each.key == key) and (wanted is None or _same(wanted, each.payload_json))
    ]
    if len(matching) == count or (count is None and matching):
        return matching
    given = {"payload": payload, "where": where, "key": key}
    if isinstance(event, Event):
        given["payload"] = event
    raise AssertionError(_text(alias, topic, given, count, len(matching)))


def assert_not_published(
    event: str | type[Event] | Event,
    *,
    payload: Any = None,
    where: Mapping[str, Any] | None = None,
    key: str | None = None,
    database: str | None = None,
) -> None:
    """Check that no such event was published.

    Args:
        event, payload, where, key, database: as for `assert_published`.

    Raises:
        AssertionError: a matching event was published.
        InvalidFilter, InvalidEvent, InvalidMessage, ValueError: as for `assert_published`.
    """
    assert_published(event, payload=payload, where=where, key=key, count=0, database=database)


def _encoded(event: Any, payload: Any) -> str | None:
    """Return the payload as it is stored; None: any payload."""
    if isinstance(event, Event):
        if payload is not None:
            raise InvalidEvent(f"{type(event).__name__} is its own payload: pass no other payload.")
        return typed.encode(event)
    return raw.encode("payload", payload)


def _same(wanted: str, stored: str | None) -> bool:
    return stored is not None and json.loads(wanted) == json.loads(stored)


def _published(alias: str, wanted: Filter) -> list[RecordedEvent]:
    """Return all published events that a filter matches, of the log and of its inbox."""
    django = connections[alias]
    with needing_tables(alias), django.wrap_database_errors:
        found, after = [], log.existing(django).floor
        while True:
            stretch = read_stretch(django, wanted, after=after, limit=LIMIT)
            found += stretch.events
            after = stretch.upto
            if after >= stretch.head:
                break
        found += publish.without_position(
            django, condition=wanted.sql, parameters=wanted.parameters
        )
    return [RecordedEvent.of(each) for each in found]


def _text(
    alias: str, topic: str, expected: Mapping[str, Any], count: int | None, matching: int
) -> str:
    given = ", ".join(f"{name}={value!r}" for name, value in expected.items() if value is not None)
    such = f"events of {topic}" + (f" with {given}" if given else "")
    wanted = "one or more" if count is None else str(count)
    lines = [f"Expected {wanted} {such}, found {matching}."]
    published: Sequence[RecordedEvent] = _published(alias, as_filter(None, None))
    if published:
        lines.append("The last published events:" if len(published) > SHOWN else "Published:")
    else:
        lines.append("No event was published, or its transaction was rolled back.")
    lines += [
        f"  {each.topic}: key={each.key!r}, {each.payload_json}" for each in published[-SHOWN:]
    ]
    return "\n".join(lines)
