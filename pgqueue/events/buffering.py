"""Publish many events together, a little later: for what needs no transaction of its own."""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Mapping
from datetime import timedelta
from time import monotonic
from typing import Any

import psycopg
from django.db import (
    InterfaceError,
    OperationalError,
    close_old_connections,
    connections,
    transaction,
)

from pgqueue.conf import settings
from pgqueue.engine import publish as engine
from pgqueue.engine.publish import NewEvent
from pgqueue.events.publishing import made
from pgqueue.events.typed import Event
from pgqueue.exceptions import InvalidEvent
from pgqueue.quantities import as_count, as_duration
from pgqueue.service import Service
from pgqueue.spelling import shown

logger = logging.getLogger("pgqueue")

AWAY = (OperationalError, InterfaceError, psycopg.OperationalError, psycopg.InterfaceError)
"""Errors after which the same events may be published when the database is back."""
LAST_TRIES = timedelta(seconds=10)


class BufferedPublisher(Service):
    """Collects events of all threads, and publishes them together, outside of any transaction.

        publisher = BufferedPublisher(flush_every=0.5)
        publisher.publish("page.seen", {"path": "/"})

    It publishes what it has after `flush_every`, as soon as there are `max_batch`, at `flush()`,
    and when the process ends in an orderly way. If the database is away it keeps them and tries
    again; what it can't publish in the end is logged in full. A process that is killed loses what
    it has.

    Args:
        flush_every: seconds or a timedelta that an event waits, at most.
        max_batch: events that are published at once.
        max_buffered: events that are kept while the database is away; beyond that, `publish()`
            waits for it.
        database: the alias of the queue's database, if not the one of `PGQUEUE`.

    Raises:
        InvalidEvent: an option can't be.
    """

    longest_backoff = timedelta(seconds=2)

    def __init__(
        self,
        *,
        flush_every: float | timedelta = 1.0,
        max_batch: int = 2500,
        max_buffered: int = 100_000,
        database: str | None = None,
    ) -> None:
        super().__init__()
        try:
            self._every = as_duration(flush_every)
            self._most = as_count(max_batch)
            self._bound = as_count(max_buffered)
        except (TypeError, ValueError) as error:
            given = (shown(flush_every), shown(max_batch), shown(max_buffered))
            raise InvalidEvent(
                f"flush_every={given[0]}, max_batch={given[1]}, max_buffered={given[2]}: {error}"
            ) from error
        self.name = "buffered publisher"
        self._alias = database or settings().database
        self._lock = threading.Lock()
        self._flushing = threading.Lock()
        self._events: list[NewEvent] = []
        self._due_at = float("inf")
        self._is_closed = False

    def publish(
        self,
        event: str | Event,
        payload: Any = None,
        *,
        key: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Collect an event.

        Args:
            event, payload, key, metadata: as for `pgqueue.publish`.

        Raises:
            InvalidEvent: it can't be published, or the publisher is closed.
            PayloadTooLarge: the payload takes more than 16 MiB.
            django.db.OperationalError: the database is away, and `max_buffered` events wait.
        """
        new = made(event, payload, key=key, metadata=metadata)
        with self._lock:
            if self._is_closed:
                raise InvalidEvent("This publisher is closed.")
            if self.ident is None:
                self.start()
                atexit.register(self.close)
            self._events.append(new)
            count = len(self._events)
            if count == 1:
                self._due_at = monotonic() + self._every.total_seconds()
        if count == 1 or count >= self._most:
            self.wake()
        if count > self._bound:
            self.flush()

    def flush(self) -> None:
        """Publish what was collected until now; return once that is committed.

        Raises:
            django.db.OperationalError: the database is away; it is tried again later.
        """
        with self._flushing:
            while batch := self._batch():
                self._store(batch)

    def close(self) -> None:
        """Publish what is left, and end. Closing it again does nothing."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        self.stop()
        if self.ident is not None and threading.current_thread() is not self:
            self.stopped(LAST_TRIES)
        self._flush_or_log()
        atexit.unregister(self.close)

    def __enter__(self) -> BufferedPublisher:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def tick(self) -> timedelta:
        """Publish what is due; return how long nothing is."""
        with self._lock:
            is_due = monotonic() >= self._due_at or len(self._events) >= self._most
        if is_due:
            self.flush()
        with self._lock:
            left = self._due_at - monotonic() if self._events else self._every.total_seconds()
        return timedelta(seconds=max(left, 0.001))

    def finish(self) -> None:
        """Close its connection."""
        connections[self._alias].close()

    def _batch(self) -> list[NewEvent]:
        with self._lock:
            return self._events[: self._most]

    def _store(self, batch: list[NewEvent]) -> None:
        """Publish some in one transaction; those that no database takes are logged."""
        close_old_connections()
        try:
            self._insert(batch)
        except AWAY:
            raise
        except Exception as error:
            for each in batch:
                self._store_alone(each, error)
        with self._lock:
            del self._events[: len(batch)]
            self._due_at = monotonic() + self._every.total_seconds()

    def _store_alone(self, event: NewEvent, error: Exception) -> None:
        try:
            self._insert([event])
        except AWAY:
            raise
        except Exception:
            logger.exception("An event could not be published: %s", event._asdict())

    def _insert(self, batch: list[NewEvent]) -> None:
        django = connections[self._alias]
        with transaction.atomic(using=self._alias), django.wrap_database_errors:
            engine.publish_many(django, batch)

    def _flush_or_log(self) -> None:
        try:
            self.flush()
        except Exception:
            with self._lock:
                left, self._events = self._events, []
            logger.exception("%d events could not be published. They follow.", len(left))
            for each in left:
                logger.error("An event could not be published: %s", each._asdict())
