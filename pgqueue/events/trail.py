"""The trail of a table's row: its events in the log.

The log has no index by key, since such an index would slow down every producer. So a search goes
back one partition at a time, and stops after the time that a page may take. In this time it reads
some millions of events, or a hundred million with the Bloom filters of `IndexTrail`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from time import monotonic
from typing import Any

from django.db import connections
from django.db.models import Model

from pgqueue.conf import settings
from pgqueue.database.migration_check import needing_tables
from pgqueue.engine import log
from pgqueue.engine.sequence import catch_up
from pgqueue.events.recorded import RecordedEvent
from pgqueue.events.tables import EVENTS, parts_of_model, topic_of

LIMIT = 100
LOOK_FOR = 2.0
"""Seconds after which the search ends."""


@dataclass(frozen=True)
class Trail:
    """The result of a search.

    Attributes:
        events: the found events, the newest first.
        since: the time before which there may be further events; None: the log has no others.
    """

    events: list[RecordedEvent]
    since: datetime | None


def trail(
    topic: str | Sequence[str],
    key: str,
    *,
    limit: int = LIMIT,
    look_for: float = LOOK_FOR,
    database: str | None = None,
) -> Trail:
    """Return the newest events of a row, searched backwards through the log.

    With a schema for each tenant, these are events of all tenants' rows with this key.

    Args:
        topic: the topic of the table without its last word: `shop_order`; or the full topics.
        key: the key of the row.
        limit: the maximum number of events.
        look_for: seconds after which the search ends.
        database: the alias of the queue's database, if not the one of `PGQUEUE`.
    """
    topics = [f"{topic}.{event}" for event in EVENTS] if isinstance(topic, str) else topic
    alias = database or settings().database
    with needing_tables(alias), connections[alias].wrap_database_errors:
        django = connections[alias]
        django.ensure_connection()
        if not django.in_atomic_block and django.get_autocommit():
            catch_up(django.connection)
        return _look_back(django, topics, key, limit, monotonic() + look_for)


def _look_back(connection: Any, topics: Sequence[str], key: str, limit: int, until: float) -> Trail:
    events: list[RecordedEvent] = []
    parts = log.partitions(connection)
    for number, part in enumerate(parts, 1):
        room = limit - len(events)
        found = log.read_backwards(connection, part, topics=topics, key=key, limit=room)
        events += map(RecordedEvent.of, found)
        if len(events) >= limit:
            return Trail(events, events[-1].created_at)
        if monotonic() > until and number < len(parts):
            return Trail(events, log.time_after(connection, part.start))
    return Trail(events, None)


def topic_of_model(model: type[Model]) -> str:
    """Return the topic of a model's table, as in `TrackTable`."""
    return topic_of(parts_of_model(model._meta.db_table))


def key_of(obj: Model) -> str:
    """Return the key of a row, as in `TrackTable`: the text of its primary key."""
    key = obj.pk
    return (
        json.dumps([str(part) for part in key], ensure_ascii=False)
        if isinstance(key, tuple)
        else str(key)
    )
