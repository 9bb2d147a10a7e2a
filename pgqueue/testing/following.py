"""Give positions to published events in a test, and hand them to subscriptions and groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django.db import connections, transaction

from pgqueue.database.paths import own_path
from pgqueue.engine import dispatch, log, readers
from pgqueue.engine import groups as engine
from pgqueue.engine.sequence import catch_up
from pgqueue.engine.values import Connection
from pgqueue.events import consumers, groups, subscriptions
from pgqueue.events.consumers import Consumer
from pgqueue.events.consuming import GroupReader
from pgqueue.events.leases import Held
from pgqueue.events.recorded import RecordedEvent
from pgqueue.exceptions import EndlessEvents
from pgqueue.testing.claiming import LEASE, lend
from pgqueue.testing.savepoints import savepoints

ROUNDS = 1000
"""The most rounds of one call: each handles the events that the round before has published."""
LAST = 10


class Followers:
    """The subscriptions and the groups of the project, for one call of `run_all`."""

    def __init__(self, alias: str, *, retries: bool, raise_errors: bool) -> None:
        self._alias = alias
        self._retries = retries
        self._raise_errors = raise_errors
        self._groups: list[Consumer] | None = None
        self._rounds = 0

    def follow(self) -> bool:
        """Hand the next events to subscriptions and groups; return whether messages may be ready.

        Raises:
            EndlessEvents: there was something to do in too many rounds.
        """
        with lend(self._alias) as connection:
            if not log.is_anything_waiting(connection) and not log.bounds(connection).head:
                return False  # no event was ever published
            own = self._declared()
            catch_up(connection)
            has_found = _dispatch(connection)
            for each in own:
                reader = _Reader(each, retries=self._retries, raise_errors=self._raise_errors)
                has_found |= reader.read(connection)
            self._rounds += has_found
            if self._rounds > ROUNDS:
                raise EndlessEvents(ROUNDS, _last_topics(connection))
        return has_found

    def _declared(self) -> list[Consumer]:
        """Store the declared subscriptions and groups; return the groups."""
        if self._groups is None:
            consumers.discover()
            self._groups = [each for each in consumers.declared() if each.alias == self._alias]
            # In a transaction nothing gets a position. So a start "now" is before the events that
            # the test has published.
            with transaction.atomic(using=self._alias):
                subscriptions.synchronize(database=self._alias)
                for each in self._groups:
                    groups.make(
                        each.name,
                        partitions=each.partitions,
                        start=each.start,
                        database=self._alias,
                    )
        return self._groups


def _dispatch(connection: Connection) -> bool:
    """Make messages of the next events; return whether there were events."""
    has_found = False
    while dispatch.has_work(connection):
        with connection.transaction():
            step = dispatch.step(connection)
        has_found |= step.events > 0
        if step.is_last:
            break
    return has_found


def _last_topics(connection: Connection) -> list[str]:
    head = log.bounds(connection).head
    stretch = log.read(connection, after=max(head - LAST, 0), limit=LAST)
    return sorted({event.topic for event in stretch.events})


class _Reader(GroupReader):
    """Reads for a group in the thread and on the connection of the test."""

    def __init__(self, consumer: Consumer, *, retries: bool, raise_errors: bool) -> None:
        def handle(given: Any) -> Any:
            with savepoints():
                return consumer.handler(given)

        super().__init__(replace(consumer, handler=handle), lease=LEASE)
        self._retries = retries
        self._raise_errors = raise_errors
        self._errors: list[BaseException] = []

    def read(self, connection: Connection) -> bool:
        """Handle events until none is left, or waits for its retry; return whether there were any.

        Raises:
            BaseException: the first error of the handler, if this was asked for.
        """
        connections[self._consumer.alias].ensure_connection()
        has_moved = False
        try:
            self._rebalance(connection)
            self._hasten()
            while self._serve_each(connection):
                has_moved = True
                if self._errors and self._raise_errors:
                    raise self._errors[0]
                self._rebalance(connection)
            return has_moved
        finally:
            engine.release(connection, self._consumer.name, self.id, list(self._held))
            readers.retire(connection, self.id)

    def _try(
        self,
        connection: Connection,
        held: Held,
        events: Sequence[RecordedEvent],
        *,
        moves: bool = True,
    ) -> bool:
        with own_path():
            return super()._try(connection, held, events, moves=moves)

    def _hasten(self) -> None:
        if self._retries:
            for each in self._held.values():
                each.retry_at = 0.0

    def _failed(
        self,
        connection: Connection,
        held: Held,
        events: Sequence[RecordedEvent],
        error: BaseException,
    ) -> bool:
        is_given_up = super()._failed(connection, held, events, error)
        self._hasten()
        has_stopped = held.number not in self._held
        # The events of a batch are handled again one by one: then the failing one is known.
        if len(events) == 1 and (is_given_up or has_stopped or not self._retries):
            error.add_note(f"The group {self._consumer.name!r} handled the event {events[0]}.")
            self._errors.append(error)
        return is_given_up
