"""Follow the log: iterate over its events as they come."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

from pgqueue import signals
from pgqueue.database.connections import AWAY, Session
from pgqueue.database.migration_check import needing_tables
from pgqueue.engine import log
from pgqueue.engine.sequence import advance, catch_up
from pgqueue.events.growth import GrowthWaiter
from pgqueue.events.reading import as_alias, as_position, read_or_name
from pgqueue.events.recorded import RecordedEvent
from pgqueue.options.filters import as_filter
from pgqueue.options.sql_conditions import SQLCondition, as_sql_condition
from pgqueue.threads.service import backoff_after

PAGE = 500
"""The maximum number of events that are held in memory."""
ROUND = 1.0
"""The longest wait in another thread, in seconds. So the wait ends soon after a close."""
LONGEST_BACKOFF = timedelta(seconds=2)


class Tail:
    """The events after a position, including future ones. Any thread may close it. See `tail()`."""

    def __init__(
        self,
        *,
        after: int | None,
        topics: str | Iterable[str] | None,
        where: Mapping[str, Any] | None,
        key: str | None,
        condition: SQLCondition | None,
        database: str | None,
    ) -> None:
        self._filter = replace(as_filter(topics, where, key), condition=condition)
        self._alias = as_alias(database)
        self._after = None if after is None else as_position(after)
        self._session = Session(self._alias, name="tail")
        self._events: deque[RecordedEvent] = deque()
        self._grown = threading.Event()
        self._waiter = GrowthWaiter(self._alias, self._grown.set)
        self._using = threading.Lock()
        self._is_behind = False
        self._is_closed = False
        self._closing = threading.Event()
        self._has_looked = False
        self._failures = 0

    @property
    def position(self) -> int | None:
        """The last position that was read; None: the iteration has not begun."""
        return self._after

    def __enter__(self) -> Tail:
        self._begin()
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[RecordedEvent]:
        """Yield events until it is closed.

        Raises:
            EventsRemoved: the loop was too slow: retention has removed the next events.
            PositionAhead: the position is after the end of the log.
            UnreadableEvent: the next event is unreadable, for example damaged, or the predicate
                fails with it.
            InvalidFilter: the predicate is invalid, or the database cannot evaluate it.
            psycopg.OperationalError: the database is away at the start of the loop. Later the loop
                waits until the database is back.
        """
        try:
            while not self._is_closed:
                while self._events and not self._is_closed:
                    yield self._events.popleft()
                self._fill()
        finally:
            self.close()

    async def __aenter__(self) -> Tail:
        try:
            await asyncio.to_thread(self._begin)
        except BaseException:
            self.close()
            raise
        return self

    async def __aexit__(self, *raised: object) -> None:
        await asyncio.to_thread(self.close)

    async def __aiter__(self) -> AsyncIterator[RecordedEvent]:
        loop = asyncio.get_running_loop()
        thread = ThreadPoolExecutor(1, thread_name_prefix="pgqueue tail")
        try:
            while not self._is_closed:
                while self._events and not self._is_closed:
                    yield self._events.popleft()
                await loop.run_in_executor(thread, self._fill)
        finally:
            self.close()
            # The event loop does not wait for a read that is under way: its thread closes the
            # session.
            thread.shutdown(wait=False)

    def close(self) -> None:
        """End the iteration, even if another thread waits in it. A second close does nothing."""
        self._is_closed = True
        self._closing.set()
        self._grown.set()
        self._waiter.close()
        if self._using.acquire(blocking=False):
            try:
                self._session.close()
            finally:
                self._using.release()

    def _begin(self) -> None:
        with self._using:
            try:
                if self._after is None and not self._is_closed:
                    with needing_tables(self._alias):
                        catch_up(self._session.connection)
                        self._after = log.bounds(self._session.connection).head
                    self._has_looked = True
            finally:
                if self._is_closed:  # by another thread, which left the session open
                    self._session.close()

    def _fill(self) -> None:
        """Read the next events; if there are none, wait a while."""
        try:
            self._begin()
            # Cleared before the read: events that come after the read end the wait.
            self._grown.clear()
            if self._is_closed or self._has_read():
                return
            self._grown.wait(min(self._waiter.nap(is_behind=self._is_behind), ROUND))
        finally:
            if self._is_closed:
                self.close()  # another thread could not close the session while it was in use

    def _has_read(self) -> bool:
        with self._using:
            return self._look()

    def _look(self) -> bool:
        """Read the next events; return whether to look again at once."""
        was_open = self._session.is_open
        try:
            has_moved = self._look_once()
        except AWAY as error:
            self._session.close_after(error)
            if was_open and not self._session.is_open and not self._failures:
                # The connection broke while it was idle: try a new one at once.
                self._failures = 1
                return self._look()
            if not self._has_looked:
                raise
            self._failures += 1
            signals.send(signals.service_failed, type(self), service="tail", error=error)
            nap = backoff_after(self._failures, longest=LONGEST_BACKOFF)
            self._closing.wait(min(nap.total_seconds(), ROUND))
            return True
        self._has_looked, self._failures = True, 0
        return has_moved

    def _look_once(self) -> bool:
        after = self._after or 0
        with needing_tables(self._alias):
            connection = self._session.connection
            self._is_behind = advance(connection)
            stretch = read_or_name(connection, self._filter, after=after, limit=PAGE)
        self._events.extend(map(RecordedEvent.of, stretch.events))
        has_moved = stretch.upto > after
        self._after = stretch.upto
        if stretch.events:
            self._waiter.found()
        return has_moved


def tail(
    *,
    after: int | None = None,
    topics: str | Iterable[str] | None = None,
    where: Mapping[str, Any] | None = None,
    key: str | None = None,
    predicate: str = "",
    params: Mapping[str, Any] | None = None,
    database: str | None = None,
) -> Tail:
    """Iterate over events in real time without end, by `for` or `async for`.

        with tail(topics="order.*") as events:
            for event in events: ...

    A tail keeps at most 500 events in memory, and stores nothing in the database. To continue
    later, store the position of the last event, or use a group.

    Args:
        after: a position. None: the end of the log at the start of the iteration.
        topics: patterns such as "order.paid", "order.*" or "**". None: all topics.
        where: conditions on payloads: `{"total__gte": 100}`.
        key: the key of the events; "": events without a key. None: any key.
        predicate: a further condition in SQL, as subscriptions have it. It reads an event `e`
            (position, topic, key, payload, metadata, created_at) and `s.params`. "": none.
        params: a dict that the predicate reads as `s.params`.
        database: the alias of the queue's database, if not the one of `PGQUEUE`.

    Raises:
        InvalidFilter: the topics, the conditions or the key are invalid. Iteration raises it for a
            predicate that is invalid, or that the database cannot evaluate.
        ValueError: the position or the alias is invalid.
    """
    return Tail(
        after=after,
        topics=topics,
        where=where,
        key=key,
        condition=as_sql_condition(predicate, params),
        database=database,
    )
