"""Stream the event log to all clients of a process: each event is read and formatted once.

The feed registers a client first. Then another thread reads the client's missed events, up to the
feed's position at the registration. Newer events wait behind the missed ones, so the client gets
each event exactly once.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import timedelta
from functools import partial
from time import monotonic
from typing import NamedTuple

import psycopg

from pgqueue import signals
from pgqueue.engine import identity, log
from pgqueue.engine.culprits import tell
from pgqueue.engine.log import LogStretch
from pgqueue.engine.sequence import advance
from pgqueue.engine.values import Connection
from pgqueue.events.growth import GrowthWaiter
from pgqueue.events.reading import first_unreadable, is_own, read_stretch
from pgqueue.events.recorded import RecordedEvent
from pgqueue.exceptions import EventsRemoved, InvalidSubscription, PositionAhead
from pgqueue.options.filters import Filter
from pgqueue.sse.matching import PAGE, chunks_of, fails, of_any
from pgqueue.sse.missed import CatchingUp, LogClient, ReplayLimits, reason_of
from pgqueue.streams import wire
from pgqueue.streams.client import WENT_WRONG
from pgqueue.streams.source import LINGER, StreamSource
from pgqueue.threads.service import NO_NAP

TELL_EVERY = 1.0
"""The shortest time, in seconds, between two updates of Last-Event-ID without an event."""
PATIENCE = 1.0
"""The longest time, in seconds, for which a blocked event loop delays the others."""
NOWHERE = -1


class EventClient(LogClient):
    """A stream of events of the log, which is a client of the feed."""

    __slots__ = ("_feed",)

    def __init__(
        self,
        wanted: Filter,
        *,
        last_event_id: str,
        after: int | None,
        mark: str,
        limits: ReplayLimits,
    ) -> None:
        super().__init__(wanted, last_event_id=last_event_id, after=after, mark=mark, limits=limits)
        self._feed: EventFeed | None = None

    def join(self, alias: str) -> None:
        """Join the feed, until `leave()`."""
        self._feed = EventFeed.serve(alias, self)

    def leave(self) -> None:
        """Leave the feed."""
        if self._feed:
            self._feed.leave(self)

    def beat(self) -> bytes:
        """Return a heartbeat: the delivered position, or an empty comment."""
        id = self._feed.delivered.get(self.loop) if self._feed and self.has_begun else None
        return wire.comment("") if id is None else wire.position(id)


class EventFeed(StreamSource[EventClient]):
    """Reads the log as it grows, and sends each client its events."""

    def __init__(self, alias: str) -> None:
        super().__init__(alias)
        self.name = "sse feed"
        self.delivered: dict[asyncio.AbstractEventLoop, str] = {}
        """The id up to which a loop's clients have all events. Each loop writes its own entry."""
        self._clients: dict[Filter, set[EventClient]] = {}
        self._loops: dict[asyncio.AbstractEventLoop, int] = defaultdict(int)
        self._waiter = GrowthWaiter(alias, self.wake)
        self._catching_up = CatchingUp(alias)
        # Only the feed's thread uses these.
        self._position = NOWHERE
        self._told = NOWHERE
        self._told_at = 0.0
        self._identity = ""
        self._mark = ""
        self._known: Connection | None = None
        self._under_way: list[threading.Event] = []

    def run(self) -> None:
        """Read until stopped."""
        self._catching_up.start()
        super().run()

    def tick(self) -> timedelta:
        """Send the next events; return the time until the next tick."""
        if self.has_ended():
            return NO_NAP
        connection = self._session.connection
        with self._lock:
            is_idle = not self._clients and not self._coming
        if is_idle:
            # The next client begins at the end of the log.
            self._position = NOWHERE
            self._waiter.close()
            return LINGER / 2
        is_behind = advance(connection)
        if connection is not self._known:
            self._look_again(connection)
        self._admit(connection)
        if self._pass_on(connection):
            return NO_NAP
        nap = self._waiter.nap(is_behind=is_behind)
        return timedelta(seconds=min(nap, self._until_told(connection)))

    def finish(self) -> None:
        """Close the connections."""
        self._waiter.close()
        self._catching_up.stop()
        self._catching_up.stopped(timedelta(seconds=2))
        super().finish()

    # --- Clients

    def _forget(self, client: EventClient) -> None:
        clients = self._clients.get(client.wanted, set())
        if client not in clients:
            return
        clients.remove(client)
        if not clients:
            del self._clients[client.wanted]
        self._loops[client.loop] -= 1
        if not self._loops[client.loop]:
            del self._loops[client.loop]
            self.delivered.pop(client.loop, None)

    def _is_unused(self) -> bool:
        return not self._clients

    def _admit(self, connection: Connection) -> None:
        """Register the new clients: each gets all events after the current position."""
        with self._lock:
            coming = list(self._coming)
        if not coming:
            return
        bounds = log.bounds(connection)
        if self._position == NOWHERE:
            self._position = bounds.head
        # A client from another process may be ahead of this process for a moment.
        there = [each for each in coming if not self._position < (each.after or 0) <= bounds.head]
        with self._lock:
            for client in there:
                if client not in self._coming:
                    continue  # it left
                self._coming.remove(client)
                self._clients.setdefault(client.wanted, set()).add(client)
                self._loops[client.loop] += 1
        for client in there:
            self._catching_up.add(client, self._position)
        self._say_position(connection)

    def _look_again(self, connection: Connection) -> None:
        """Reset all clients if a new connection leads to another log, or to an earlier state."""
        self._known = connection
        # The mark is kept: the next connection may lead to another log, too.
        if self._position == NOWHERE or not self._mark:
            return
        if not identity.is_marked(connection, self._told, self._mark):
            self._begin_anew(connection, "restored")
            self._say_position(connection)

    def _until_told(self, connection: Connection) -> float:
        """Send the position if it is time; return the seconds until the next time."""
        if self._told == self._position:
            return float("inf")
        left = self._told_at + TELL_EVERY - monotonic()
        if left <= 0:
            self._say_position(connection)
        return max(left, 0)

    def _say_position(self, connection: Connection) -> None:
        """Let each loop note its clients' position, behind the events that it has already got."""
        with self._lock:
            loops = list(self._loops)
        self._told, self._told_at = self._position, monotonic()
        self._identity = identity.of(connection)
        self._mark = identity.mark(self._identity, identity.of_event(connection, self._told))
        for loop in loops:
            self.tell(loop, partial(self._note, loop, wire.id_of(self._told, self._mark)))

    def _note(self, loop: asyncio.AbstractEventLoop, upto: str) -> None:
        if loop in self._loops:
            self.delivered[loop] = upto

    def _each_of(self, loop: asyncio.AbstractEventLoop) -> list[EventClient]:
        each = [client for clients in self._clients.values() for client in clients]
        return [client for client in each if client.loop is loop]

    # --- Events

    def _pass_on(self, connection: Connection) -> bool:
        """Read the next events, and send them; return whether the log has grown."""
        with self._lock:
            filters = list(self._clients)
        after = self._position
        try:
            stretch = read_stretch(connection, of_any(filters), after=after, limit=PAGE)
        except (EventsRemoved, PositionAhead) as error:
            self._begin_anew(connection, reason_of(error))
            return True
        except psycopg.Error as error:
            stretch = self._without_unreadable(connection, filters, error)
        if stretch.upto == after:
            return False
        if stretch.events:
            self._waiter.found()
            events = [RecordedEvent.of(each) for each in stretch.events]
            try:
                chunks = chunks_of(connection, filters, events, self._identity)
            except (psycopg.Error, InvalidSubscription) as error:
                if not (
                    is_own(error) and self._has_ended_culprits(connection, filters, events, error)
                ):
                    raise
                return True
            self._hand_over(self._id_at(connection, stretch), chunks)
        self._position = stretch.upto
        self._until_told(connection)
        return True

    def _without_unreadable(
        self, connection: Connection, filters: Sequence[Filter], error: Exception
    ) -> LogStretch:
        """Read up to an unreadable event; if it is the next one, send a reset in its place."""
        after, wanted = self._position, of_any(filters)
        position = first_unreadable(
            connection, error, after=after, condition=wanted.sql, parameters=wanted.parameters
        )
        if position == after + 1:
            tell(self.name, row=f"pgqueue_event at {position}", error=error)
            self._reset(connection, "unreadable", position)
            return LogStretch([], position, 0, position)
        return read_stretch(connection, wanted, after=after, limit=PAGE, reach=position - 1 - after)

    def _id_at(self, connection: Connection, stretch: LogStretch) -> str:
        """Return the id of the position up to which a stretch was read."""
        if stretch.events[-1].position == stretch.upto:
            marker: int | None = identity.marker_of(stretch.events[-1].created_at)
        else:
            marker = identity.of_event(connection, stretch.upto)
        return wire.id_of(stretch.upto, identity.mark(self._identity, marker))

    def _hand_over(self, upto: str, chunks: dict[Filter, tuple[bytes, int]]) -> None:
        """Give each loop the events for its clients, in one call."""
        by_loop: dict[asyncio.AbstractEventLoop, list[Share]] = defaultdict(list)
        with self._lock:
            for wanted, (chunk, count) in chunks.items():
                for client in self._clients.get(wanted, ()):
                    by_loop[client.loop].append(Share(client, chunk, count))
        # While a loop sends one batch, the feed reads the next one. With more batches, the loop's
        # clients would seem to be slow.
        for each in self._under_way:
            each.wait(PATIENCE)
        self._under_way = []
        for loop, shares in by_loop.items():
            done = threading.Event()
            self._under_way.append(done)
            self.tell(loop, partial(self._deliver, loop, upto, shares, done))

    def _deliver(
        self,
        loop: asyncio.AbstractEventLoop,
        upto: str,
        shares: Sequence[Share],
        done: threading.Event,
    ) -> None:
        """Send their events to a loop's clients. The event loop calls this."""
        for client, chunk, events in shares:
            client.push(chunk, events)
            if client.is_over:
                self.leave(client)
        self._note(loop, upto)
        # Behind the clients that were just woken.
        loop.call_soon(done.set)

    def _has_ended_culprits(
        self,
        connection: Connection,
        filters: Iterable[Filter],
        events: Sequence[RecordedEvent],
        error: Exception,
    ) -> bool:
        """End the streams whose conditions PostgreSQL refuses; return whether one was ended."""
        conditional = [each for each in filters if each.path or each.condition]
        culprits = [each for each in conditional if fails(connection, each, events)]
        for wanted in culprits:
            with self._lock:
                clients = list(self._clients.get(wanted, ()))
            for client in clients:
                self.leave(client)
                self.tell(client.loop, partial(client.end, WENT_WRONG))
        if culprits:
            signals.send(signals.service_failed, type(self), service=self.name, error=error)
        return bool(culprits)

    def _begin_anew(self, connection: Connection, reason: str) -> None:
        """Send all clients a reset, as their next events are missing; go on at the log's end."""
        self._reset(connection, reason, log.bounds(connection).head)

    def _reset(self, connection: Connection, reason: str, position: int) -> None:
        """Send all clients a reset; go on at a position."""
        at, self._position = self._position, position
        mark = identity.mark_at(connection, position)
        chunk = wire.reset(reason, last_event_id=str(at), position=position, mark=mark)
        with self._lock:
            filters = list(self._clients)
        self._hand_over(wire.id_of(position, mark), dict.fromkeys(filters, (chunk, 1)))


class Share(NamedTuple):
    """The events for one client."""

    client: EventClient
    chunk: bytes
    events: int
