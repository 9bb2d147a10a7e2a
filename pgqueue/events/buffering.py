"""Publish many events together, a little later, outside of the callers' transactions."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from time import monotonic
from typing import Any
from weakref import WeakSet

from django.db import connections

from pgqueue.calls.stand_ins import stand_in
from pgqueue.conf import settings
from pgqueue.database.connections import Session
from pgqueue.engine import publish as engine
from pgqueue.engine.culprits import by_halves
from pgqueue.engine.publish import NewEvent
from pgqueue.engine.values import Tuples
from pgqueue.events.publishing import create
from pgqueue.events.typed import Event
from pgqueue.exceptions import InvalidEvent, InvalidMessage
from pgqueue.redaction import Hidden
from pgqueue.tasks import redacting
from pgqueue.tasks.options import checked_message
from pgqueue.threads.service import Service
from pgqueue.values.error_words import shown
from pgqueue.values.escaping import logger_of
from pgqueue.values.number_checks import as_count, as_duration

logger = logger_of("pgqueue")

LAST_TRIES = 5.0
TRY_EVERY = 0.25  # seconds

_all: WeakSet[BufferedPublisher] = WeakSet()


class BufferedPublisher:
    """Collects events of all threads, and publishes them together, outside of any transaction.

        publisher = BufferedPublisher(flush_every=0.5)
        publisher.publish("page.seen", {"path": "/"})

    It publishes the collected events after `flush_every`, at `max_batch` events, at `flush()`, and
    at an orderly end of the process. If the database is away, it keeps the events and retries. At
    the end of the process, unpublished events are logged in full. A killed process loses its
    collected events. A forked child starts without events, and its parent keeps them.

    Args:
        flush_every: the longest wait of an event, in seconds or as a timedelta.
        max_batch: the maximum number of events that are published at once.
        max_buffered: the maximum number of events that are kept while the database is away. Then
            `publish()` waits for the database.
        database: the alias of the queue's database, if not the one of `PGQUEUE`.

    Raises:
        InvalidEvent: an option is invalid.
    """

    def __init__(
        self,
        *,
        flush_every: float | timedelta = 1.0,
        max_batch: int = 2500,
        max_buffered: int = 100_000,
        database: str | None = None,
    ) -> None:
        try:
            self._every = as_duration(flush_every).total_seconds()
            self._most = as_count(max_batch)
            self._bound = as_count(max_buffered)
            checked_message({"database": database})
        except (TypeError, ValueError, InvalidMessage) as error:
            given = (shown(flush_every), shown(max_batch), shown(max_buffered))
            raise InvalidEvent(
                f"flush_every={given[0]}, max_batch={given[1]}, max_buffered={given[2]}: {error}"
            ) from error
        self._alias = database or settings().database
        self._is_closed = False
        self._begin()
        _all.add(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._flushing = threading.Lock()
        self._events: list[NewEvent] = []
        self._due_at = float("inf")
        # Not Django's connection: `flush()` may be called in a transaction.
        self._session = Session(self._alias, name="publisher")
        self._flusher: _Flusher | None = None

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
            InvalidEvent: the event is invalid, or the publisher is closed.
            PayloadTooLarge: the payload takes more than 16 MiB.
            django.db.OperationalError: the database is away, and `max_buffered` events wait.
        """
        new = create(event, payload, key=key, metadata=metadata)
        if len(self._events) >= self._bound:
            self.flush()
        with self._lock:
            if self._is_closed:
                raise InvalidEvent("This publisher is closed.")
            if self._flusher is None:
                flusher = _Flusher(self, self._session)
                self._close_at_exit()
                flusher.start()
                # Last: a task's timeout may strike before.
                self._flusher = flusher
            if not self._events:
                # First: a timeout may strike at each step, and an event must be due at some time.
                self._due_at = monotonic() + self._every
            self._events.append(new)
            count = len(self._events)
            if count == 1 or count >= self._most:
                self._flusher.wake()

    def flush(self) -> None:
        """Publish the events that were collected before; return after the commit.

        Raises:
            django.db.OperationalError: the database is away; the events are retried later.
        """
        with self._flushing, connections[self._alias].wrap_database_errors:
            left = len(self._events)
            while left > 0 and (batch := self._events[: self._most]):
                left -= self._store(batch)

    def close(self) -> None:
        """Publish the remaining events, and end. A second close does nothing.

        If a task's timeout interrupts it, the next call goes on; the end of the process is one.
        """
        with self._lock:
            self._is_closed = True
        if self._flusher is not None:
            self._flusher.stop()
            if not self._flusher.stopped(timedelta(seconds=LAST_TRIES)):
                self._session.cut()
        self._flush_or_log()
        self._session.close()
        atexit.unregister(self.close)

    def _close_at_exit(self) -> None:
        atexit.register(self.close)
        if "multiprocessing" in sys.modules:  # it takes 10 ms to import
            from multiprocessing import parent_process, util

            if parent_process() is not None:
                # A process that multiprocessing has forked ends without atexit.
                util.Finalize(None, self.close, exitpriority=0)

    def __enter__(self) -> BufferedPublisher:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def flush_due(self) -> float:
        """Publish the events if they are due; return the seconds until the next are due."""
        if monotonic() >= self._due_at or len(self._events) >= self._most:
            self.flush()
        with self._lock:
            return self._due_at - monotonic() if self._events else self._every

    def _store(self, batch: list[NewEvent]) -> int:
        """Publish events in one transaction; return their number.

        An event that PostgreSQL refuses is logged, and the others are published.
        """

        def some(events: Sequence[NewEvent]) -> None:
            self._insert(events)
            self._remove(len(events))

        def log(event: NewEvent, error: Exception) -> None:
            _log_unpublished(event, error)
            self._remove(1)

        list(by_halves(some, batch, log))
        return len(batch)

    def _insert(self, batch: Sequence[NewEvent]) -> None:
        connection = self._session.connection
        with connection.transaction():
            engine.publish_many(Tuples(connection), batch)

    def _remove(self, count: int) -> None:
        with self._lock:
            del self._events[:count]
            self._due_at = monotonic() + self._every

    def _flush_or_log(self) -> None:
        until = monotonic() + LAST_TRIES
        while True:
            try:
                return self.flush()
            except Exception:
                if monotonic() < until:
                    time.sleep(TRY_EVERY)
                    continue
                logger.exception(
                    "%d events could not be published. They follow.", len(self._events)
                )
                for each in self._events:
                    _log_unpublished(each)
                return self._events.clear()


class _Flusher(Service):
    """The thread of a publisher."""

    longest_backoff = timedelta(seconds=2)

    def __init__(self, publisher: BufferedPublisher, session: Session) -> None:
        super().__init__()
        self.name = "buffered publisher"
        self._publisher = publisher
        self._session = session

    def tick(self) -> timedelta:
        """Publish the events if they are due; return the time until the next are due."""
        return timedelta(seconds=max(self._publisher.flush_due(), 0.001))


def _log_unpublished(event: NewEvent, error: BaseException | None = None) -> None:
    by_names, given = redacting.fields(), event._asdict()
    texts = {name: given[name] for name in ("payload", "metadata") if given[name]}
    hidden = Hidden(value for text in texts.values() for value in by_names.values(text))
    shown = given | {name: by_names.redact(text) for name, text in texts.items()}
    logger.error(
        "An event could not be published: %s", shown, exc_info=error and stand_in(error, hidden)
    )


def _begin_in_child() -> None:
    for publisher in _all:
        publisher._begin()


if hasattr(os, "register_at_fork"):
    # The child has no flushing thread, and another thread may have held a lock at the fork.
    os.register_at_fork(after_in_child=_begin_in_child)
