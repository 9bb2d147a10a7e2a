"""Follow the log: iterate over its events as they come."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
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
from pgqueue.threads.service import backoff_after

PAGE = 500
"""Events that are held in memory, at most."""
ROUND = 1.0
"""Seconds that a wait in another thread lasts, at most: so it ends soon after it is closed."""
LONGEST_BACKOFF = timedelta(seconds=2)


class Tail:
    """The events after a position, also those to come; any thread may close it. See `tail()`."""

    def __init__(
        self,
        *,
        after: int | None,
        topics: str | Iterable[str] | None,
        where: Mapping[str, Any] | None,
        database: str | None,
    ) -> None:
        self._filter = as_filter(topics, where)
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
        """The last position that was looked at; None: it has not begun."""
        return self._after

    def __enter__(self) -> Tail:
        self._begin()
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[RecordedEvent]:
        """Yield events until it is closed.

        Raises:
            EventsRemoved: it was too slow, and retention has removed what is next.
            PositionAhead: the log does not go so far.
            UnreadableEvent: the next event is unreadable, for example damaged.
            psycopg.OperationalError: the database is away as the loop begins. Later on the loop
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
        await asyncio.to_thread(self._begin)
        return self

    async def __aexit__(self, *raised: object) -> None:
        await asyncio.to_thread(self.close)

    async def __aiter__(self) -> AsyncIterator[RecordedEvent]:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, thread_name_prefix="pgqueue tail") as thread:
            try:
                while not self._is_closed:
                    while self._events and not self._is_closed:
                        yield self._events.popleft()
                    await loop.run_in_executor(thread, self._fill)
            finally:
                self.close()

    def close(self) -> None:
        """End the iteration, also one that another thread waits in; doing so again is fine."""
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
            if self._after is None and not self._is_closed:
                with needing_tables(self._alias):
                    catch_up(self._session.connection)
                    self._after = log.bounds(self._session.connection).head
                self._has_looked = True

    def _fill(self) -> None:
        """Read the next events; wait a while where there are none."""
        try:
            self._begin()
            # Cleared before it looks: what comes after that ends the wait.
            self._grown.clear()
            if self._is_closed or self._has_read():
                return
            self._grown.wait(min(self._waiter.nap(is_behind=self._is_behind), ROUND))
        finally:
            if self._is_closed:
                self.close()  # what another thread could not: it was in use

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
                # The connection broke while it was unused: another one is tried at once.
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
    database: str | None = None,
) -> Tail:
    """Iterate over events as they come, without end; `for` and `async for` alike.

        with tail(topics="order.*") as events:
            for event in events: ...

    It keeps 500 events in memory at most, and nothing in the database: who wants to continue later
    remembers the position of the last event, or uses a group.

    Args:
        after: a position; None: the end of the log, as it begins.
        topics: patterns such as "order.paid", "order.*" or "**"; None: all.
        where: conditions on payloads: `{"total__gte": 100}`.
        database: the alias of the queue's database, if not the one of `PGQUEUE`.

    Raises:
        InvalidFilter: the topics or the conditions can't be.
        ValueError: the position, or the alias, can't be.
    """
    return Tail(after=after, topics=topics, where=where, database=database)
