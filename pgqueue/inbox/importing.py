"""Move messages from the tables of pg-transactional-outbox."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

from django.db import DatabaseError, connections, transaction
from psycopg.sql import SQL as Text
from psycopg.sql import Identifier

from pgqueue.codec.scalars import as_number
from pgqueue.conf import settings
from pgqueue.database.sql_files import load
from pgqueue.engine import received
from pgqueue.engine.culprits import by_halves, in_words
from pgqueue.exceptions import (
    ChannelFull,
    InvalidEvent,
    InvalidMessage,
    InvalidTenant,
    PayloadTooLarge,
)
from pgqueue.inbox.aggregates import AggregateMessage
from pgqueue.inbox.receiving import REMEMBERED, known_as
from pgqueue.operating import importers
from pgqueue.operating.importers import ImportReport, Moving, SourceMissing, move_some, rows_of
from pgqueue.tasks import tenants

SQL = load(__name__)

SOURCES = {"transactional-outbox": "outbox", "transactional-inbox": "inbox"}
"""The sources, and the default names of their tables."""


class WaitingAggregate(NamedTuple):
    """An unhandled message of an aggregate. `position` gives the order of arrival."""

    id: str
    position: str
    aggregate_type: str
    aggregate_id: str
    message_type: str
    segment: str | None
    concurrency: Any
    payload: str
    metadata: str
    locked_until: datetime | None


def move(source: str, *, table: str = "", sender: str = "", dry_run: bool = False) -> ImportReport:
    """Publish the messages of an outbox, or receive the messages of an inbox.

    One transaction moves 1 000 messages, and deletes them in their table. So a second run does not
    move them again.

    Args:
        source: one of SOURCES.
        table: the table's name, if it is not the default name: "NAME" or "SCHEMA.NAME".
        sender: for an inbox: the source of its messages.
        dry_run: roll back each transaction.

    Raises:
        SourceMissing: the queue's database does not have the table.
        InvalidMessage: the sender is invalid.
    """
    report, alias = ImportReport(), settings().database
    table = table or SOURCES[source]
    schema, _, name = table.rpartition(".")
    found = rows_of(alias, SQL["table_named"], schema=schema or None, name=name)
    if not found:
        raise SourceMissing(
            f"The database {alias!r} has no table {table}: name it by --table. "
            "Messages are moved in one transaction, within one database."
        )
    own = Identifier(*found[0])
    is_inbox = source == "transactional-inbox"
    names = _tenants() if is_inbox else []
    if is_inbox:
        known_as("id", sender)  # refuse an invalid sender before each message fails because of it
        report.remembered = _remember_ended(own, sender, names, alias, report, dry_run=dry_run)
    after = ""
    while True:
        with transaction.atomic(using=alias):
            rows = rows_of(alias, _of(own, "aggregates"), after=after, limit=importers.BATCH)
            waiting = [WaitingAggregate(*row) for row in rows]
            moving = Moving[WaitingAggregate](
                take=lambda each, part: _take_message(
                    each, sender if is_inbox else None, names, alias, part
                ),
                delete=lambda waiting: rows_of(
                    alias, _of(own, "aggregates_delete"), ids=[each.id for each in waiting]
                ),
                name=lambda each: f"{each.aggregate_type}.{each.message_type}",
            )
            move_some(waiting, moving, alias, report)
            if dry_run:
                transaction.set_rollback(True, using=alias)
        if len(waiting) < importers.BATCH:
            break
        after = waiting[-1].position
    for kind, message, count in rows_of(alias, _of(own, "aggregates_abandoned")):
        report.left[f"{kind}.{message}: it was abandoned there"] += count
    return report


def _remember_ended(
    table: Identifier,
    sender: str,
    names: Sequence[str],
    alias: str,
    report: ImportReport,
    *,
    dry_run: bool,
) -> int:
    """Store the ids that an inbox has handled or abandoned: its senders may repeat them."""
    count, after = 0, ""

    def some(known: Sequence[str]) -> int:
        with transaction.atomic(using=alias):
            return len(received.remember(connections[alias], list(known), lasting=REMEMBERED))

    def leave(id: str, error: Exception) -> None:
        report.left[f"an id that was handled there: {in_words(error)}"] += 1

    def remember(known: Sequence[str]) -> int:
        with transaction.atomic(using=alias):
            number = sum(by_halves(some, known, leave))
            if dry_run:
                transaction.set_rollback(True, using=alias)
        return number

    while True:
        rows = rows_of(alias, _of(table, "aggregates_ended"), after=after, limit=importers.BATCH)
        ids = [id for (id,) in rows]
        known = [known_as(id, sender) for id in ids]
        count += remember(known)
        for name in names:  # a transaction for each: there may be thousands of tenants
            remember(_of_tenants([name], known))
        if len(ids) < importers.BATCH:
            return count
        after = ids[-1]


def _tenants() -> list[str]:
    """Return the names of the tenants that may receive a message again."""
    with suppress(InvalidTenant):  # there are none, or nobody tells their names
        return tenants.every()
    return []


def _of_tenants(names: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return ids as they are remembered in each tenant: an inbox does not tell their tenants."""
    return [tenants.own_key(id, {tenants.TENANT: name}) for name in names for id in known]


def _take_message(
    waiting: WaitingAggregate,
    sender: str | None,
    names: Sequence[str],
    alias: str,
    report: ImportReport,
) -> bool:
    """Publish a message of an outbox, or receive one of an inbox; report a refused message."""
    try:
        message = AggregateMessage(
            id=waiting.id,
            aggregate_type=waiting.aggregate_type,
            aggregate_id=waiting.aggregate_id,
            message_type=waiting.message_type,
            segment=waiting.segment,
            concurrency=waiting.concurrency,
            payload=json.loads(waiting.payload, parse_float=as_number),
            metadata=json.loads(waiting.metadata, parse_float=as_number),
            locked_until=waiting.locked_until,
        )
        with transaction.atomic(using=alias):
            if sender is None:
                message.publish(database=alias)
            else:
                message.receive(source=sender, database=alias)
                if elsewhere := _of_tenants(names, [known_as(str(waiting.id), sender)]):
                    received.remember(connections[alias], elsewhere, lasting=REMEMBERED)
    except (
        *(ChannelFull, InvalidEvent, InvalidMessage, PayloadTooLarge),
        *(TypeError, ValueError, RecursionError, DatabaseError),
    ) as error:
        report.leave(f"{waiting.aggregate_type}.{waiting.message_type}", error)
        return False
    report.moved[message.topic] += 1
    return True


def _of(table: Identifier, statement: str) -> Any:
    """Return a statement on this table."""
    text: Any = SQL[statement]
    return Text(text).format(table=table)
