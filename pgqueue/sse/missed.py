"""The events that a client has missed: they are read in a thread of their own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import NamedTuple

import psycopg

from pgqueue import signals
from pgqueue.database.connections import Session
from pgqueue.engine import identity, log
from pgqueue.events.reading import (
    ConditionFailed,
    check_bounds,
    in_condition,
    is_own,
    read_stretch,
)
from pgqueue.events.recorded import RecordedEvent
from pgqueue.exceptions import EventsRemoved, PositionAhead
from pgqueue.options.filters import Filter
from pgqueue.sse.matching import PAGE, recorded
from pgqueue.streams import wire
from pgqueue.streams.client import MOST_BYTES, WENT_WRONG, Client
from pgqueue.threads.service import NO_NAP, Service


class ReplayLimits(NamedTuple):
    """The maximum of missed events for a client, and their age. With more, it gets a reset."""

    events: int
    age: timedelta


class LogClient(Client):
    """A stream of events of the log.

    Attributes:
        wanted: the filter of the events.
        last_event_id: the browser's Last-Event-ID; "": the stream begins now.
        after: the position in it; None: it is invalid.
        mark: the mark in it, of the event at that position; "": none.
    """

    __slots__ = ("after", "last_event_id", "limits", "mark", "wanted")

    def __init__(
        self,
        wanted: Filter,
        *,
        last_event_id: str,
        after: int | None,
        mark: str,
        limits: ReplayLimits,
    ) -> None:
        super().__init__()
        self.wanted = wanted
        self.last_event_id = last_event_id
        self.after = after
        self.mark = mark
        self.limits = limits

    def leave(self) -> None:
        """Get no more events."""
        raise NotImplementedError


class CatchingUp(Service):
    """Reads the missed events of clients in its own thread, so the other clients need not wait."""

    longest_backoff = timedelta(seconds=1)
    longest_step = float("inf")

    def __init__(self, alias: str) -> None:
        super().__init__()
        self.name = "sse catching up"
        self._session = Session(alias, name="sse catching up")
        self._coming: deque[tuple[LogClient, int]] = deque()

    def add(self, client: LogClient, upto: int) -> None:
        """Add a client, which first gets its missed events up to a position."""
        self._coming.append((client, upto))
        self.wake()

    def tick(self) -> timedelta:
        """Send the new clients their missed events; return the time until the next tick."""
        # After a restart of a server, many clients come at once, with the same Last-Event-ID.
        known: dict[object, bytes] = {}
        while self._coming:
            if self._stopping.is_set():
                return NO_NAP
            client, upto = self._coming[0]
            request = client.wanted, client.last_event_id, client.limits, upto
            try:
                if request not in known:
                    known[request] = self._missed(client, upto)
            except Exception as error:
                # The error of one client, whatever it is, must not keep all others waiting.
                self._report_own(error)
                self._tell(client, partial(client.end, WENT_WRONG))
            else:
                self._tell(client, partial(client.begin, known[request]))
            self._coming.popleft()
        self._session.close()
        return timedelta(minutes=1)

    def _report_own(self, error: Exception) -> None:
        """Log an error of one client.

        Raises:
            psycopg.Error: the error concerns all clients, such as a lost connection.
        """
        if isinstance(error, psycopg.Error) and not is_own(error):
            raise error
        signals.send(signals.service_failed, type(self), service=self.name, error=error)

    def _tell(self, client: LogClient, call: Callable[[], None]) -> None:
        try:
            client.loop.call_soon_threadsafe(call)
        except RuntimeError:
            client.leave()  # its loop is closed

    def _missed(self, client: LogClient, upto: int) -> bytes:
        """Return the begin of a stream: the missed events or a reset, then the position."""
        mark = identity.mark_at(self._session.connection, upto)
        ready = wire.ready(upto, mark=mark)
        if not client.last_event_id:
            return ready
        try:
            return self._read(client, upto) + ready
        except (EventsRemoved, PositionAhead) as error:
            reason = reason_of(error)
        except NotSent as error:
            reason = str(error)
        except (psycopg.Error, ConditionFailed) as error:
            # Without a reset, the page would come back with the same id, and fail again.
            self._report_own(error)
            reason = "unreadable"
        reset = wire.reset(reason, last_event_id=client.last_event_id, position=upto, mark=mark)
        return reset + ready

    def _read(self, client: LogClient, upto: int) -> bytes:
        after, limits = client.after, client.limits
        if after is None:
            raise NotSent("invalid")
        connection = self._session.connection
        check_bounds(after, log.bounds(connection))
        if client.mark and not identity.is_marked(connection, after, client.mark):
            raise NotSent("restored")
        ours = identity.of(connection)
        if after < upto and log.is_next_older(connection, after=after, age=limits.age):
            raise NotSent("too_old")
        blocks: list[bytes] = []
        size = 0
        while after < upto:
            limit = min(limits.events - len(blocks) + 1, PAGE)
            stretch = read_stretch(connection, client.wanted, after=after, limit=limit)
            stretch = in_condition(connection, client.wanted, stretch)
            after = stretch.upto
            new = [
                recorded(ours, RecordedEvent.of(e)) for e in stretch.events if e.position <= upto
            ]
            blocks += new
            size += sum(map(len, new))
            if len(blocks) > limits.events or size > MOST_BYTES:
                raise NotSent("too_many")
        return b"".join(blocks)

    def finish(self) -> None:
        """Close the connection."""
        self._session.close()


class NotSent(Exception):
    """The missed events of a client are not sent. The text of the error is the reason."""


def reason_of(error: EventsRemoved | PositionAhead) -> str:
    """Return the reason of a reset, as browsers get it."""
    return "removed" if isinstance(error, EventsRemoved) else "ahead"
