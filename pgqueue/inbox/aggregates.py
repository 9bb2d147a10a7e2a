"""Messages of aggregates, as in pg-transactional-outbox, and their form in the event log."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal
from uuid import UUID, uuid4

import psycopg

from pgqueue.events.later import publish_later
from pgqueue.events.publishing import publish
from pgqueue.exceptions import InvalidEvent
from pgqueue.inbox.receiving import REMEMBERED, Received, receive_external
from pgqueue.tasks import Task, TaskResult
from pgqueue.values.error_words import shown

AGGREGATE = "aggregate"
"""The key in an event's metadata for the columns of an aggregate's message that events lack."""
CONCURRENCIES = ("sequential", "parallel")
NO_WORD = re.compile(r"[*\s]+")


@dataclass(frozen=True, kw_only=True)
class AggregateMessage:
    """A message of an aggregate: the columns of a table of pg-transactional-outbox.

    Attributes:
        id: the message's own id. "": `publish()` gives the message a random UUID, as the outbox's
            table does; `receive()` refuses it.
        segment: the scope of the order; None: the aggregate.
        concurrency: "sequential", or "parallel" for a message that may be handled beside others of
            its segment. For an event this is only a hint: its subscription decides.
        metadata: a dict; None: no metadata, as in a column that may be NULL.
        locked_until: the time to publish or handle it; None: at once.
    """

    aggregate_type: str
    aggregate_id: str
    message_type: str
    payload: Any = None
    id: str | UUID = ""
    segment: str | None = None
    concurrency: Literal["sequential", "parallel"] = "sequential"
    metadata: Mapping[str, Any] | None = None
    locked_until: datetime | None = None

    def __post_init__(self) -> None:
        if self.concurrency not in CONCURRENCIES:
            raise InvalidEvent(
                f"concurrency={shown(self.concurrency)}: it must be 'sequential' or 'parallel'."
            )
        if not isinstance(self.metadata, Mapping | None):
            raise InvalidEvent(f"metadata={shown(self.metadata)}: it must be a dict.")

    @property
    def topic(self) -> str:
        """The aggregate's type, a dot, and the message's type; "_" for invalid characters."""
        return NO_WORD.sub("_", f"{self.aggregate_type}.{self.message_type}")

    @property
    def key(self) -> str:
        """The segment, or else the aggregate's id."""
        return self.aggregate_id if self.segment is None else self.segment

    @property
    def known(self) -> dict[str, Any]:
        """Its metadata, with further columns under `AGGREGATE`."""
        own = {
            "type": self.aggregate_type,
            "id": self.aggregate_id,
            "message_type": self.message_type,
            "message_id": str(self.id),
            "concurrency": self.concurrency,
        }
        return {**(self.metadata or {}), AGGREGATE: own}

    def publish(
        self, *, database: str | None = None, connection: psycopg.Connection[Any] | None = None
    ) -> TaskResult[None] | None:
        """Publish it in the caller's transaction, instead of storing it in an outbox.

        Returns:
            The delayed message that will publish it, if it has `locked_until`.

        Raises:
            InvalidEvent: the event is invalid.
        """
        named = self if str(self.id) else replace(self, id=uuid4())
        own: dict[str, Any] = {"key": self.key, "metadata": named.known}
        own |= {"database": database, "connection": connection}
        if self.locked_until is not None:
            return publish_later(self.topic, self.payload, run_after=self.locked_until, **own)
        publish(self.topic, self.payload, **own)
        return None

    def receive(
        self,
        to: Task[Any, Any] | None = None,
        *,
        source: str = "",
        remember_for: Any = REMEMBERED,
        database: str | None = None,
        connection: psycopg.Connection[Any] | None = None,
    ) -> Received:
        """Store it once in the caller's transaction, instead of storing it in an inbox.

        Args:
            to: the task that handles it, in the order of its segment if it is sequential; None: it
                is published.
            source, remember_for, database, connection: as for `receive_external`.

        Raises:
            InvalidMessage, InvalidArguments, InvalidEvent, ChannelFull: as in `receive_external`.
        """
        goal = self.topic if to is None else to.using(ordered=self.concurrency == "sequential")
        return receive_external(
            str(self.id),
            goal,
            self.payload,
            source=source,
            key=self.key,
            run_after=self.locked_until,
            remember_for=remember_for,
            metadata=self.known,
            database=database,
            connection=connection,
        )
