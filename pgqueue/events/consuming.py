"""Read for a group: take partitions, have their events handled, and move their cursors.

A reader has one thread that handles, and one that renews its leases meanwhile, however long a
handler takes. Its share of the partitions changes as other readers come and go: it takes what is
free, and gives back what is beyond its share between two batches.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from typing import Any
from uuid import uuid4

import psycopg
from django.db import close_old_connections, connections, transaction

from pgqueue import signals
from pgqueue.connections import Session
from pgqueue.engine import groups as engine
from pgqueue.engine import log, readers
from pgqueue.engine.groups import LEASE, Partition
from pgqueue.engine.sequence import advance
from pgqueue.engine.values import Connection
from pgqueue.events import groups
from pgqueue.events.consumers import Consumer
from pgqueue.events.growth import Waiter
from pgqueue.events.parked import parked
from pgqueue.events.reading import check_bounds
from pgqueue.events.recorded import RecordedEvent
from pgqueue.exceptions import EventsRemoved, PositionAhead
from pgqueue.quantities import as_timedelta
from pgqueue.redaction import Hidden, stand_in
from pgqueue.retries import Exponential
from pgqueue.service import NO_NAP, Service
from pgqueue.tasks import redacting

logger = logging.getLogger("pgqueue")

PAGE = 500
"""Events that are read at once where the handler takes them one by one."""
COMMIT_EVERY = 0.1
"""Seconds after which the cursor follows events that are handled one by one."""
REBALANCE_EVERY = 1.0
SHORTEST_NAP = 0.001
LONGEST_NAP = 1.0


@dataclass(eq=False)
class Held:
    """A partition that this reader has, and how far it is.

    Attributes:
        stored: where its cursor is, as far as is known: a commit may have been in vain.
        alone_until: up to there events are handled one at a time, so that one which fails is known.
        retry_at: by the monotonic clock.
    """

    number: int
    position: int
    failures: int
    retry_at: float
    stored: int
    alone_until: int = 0

    @classmethod
    def of(cls, partition: Partition) -> Held:
        """Return what was taken."""
        retry_at = monotonic() + partition.retry_in
        alone_until = partition.position + 1 if partition.failures else 0
        number, position, failures, _ = partition
        return cls(number, position, failures, retry_at, position, alone_until)


class Lost(Exception):
    """A partition is another reader's by now, or nobody's; or its cursor is not where it was."""


class GroupReader(Service):
    """Reads for one group until it is stopped."""

    longest_backoff = timedelta(seconds=2)
    longest_step = float("inf")

    def __init__(self, consumer: Consumer, *, lease: timedelta = LEASE) -> None:
        super().__init__()
        self.name = f"group {consumer.name}"
        self._consumer = consumer
        self._lease = lease
        self.id = uuid4()
        self._session = Session(consumer.alias, name="group")
        self._leases = Leases(consumer, self, lease=lease)
        self._held: dict[int, Held] = {}
        self._partitions = 0
        self._rebalance_at = 0.0
        self._waiter = Waiter(consumer.alias, self.wake)

    def run(self) -> None:
        """Read until stopped."""
        self._leases.start()
        try:
            super().run()
        finally:
            # Also where a handler ended the thread: else nobody could take over.
            self._leases.stop()

    def tick(self) -> timedelta:
        """Handle what is there of each partition; return how long to nap."""
        connection = self._session.connection
        self._rebalance(connection)
        is_behind = advance(connection)
        has_moved = False
        for held in list(self._held.values()):
            if self._stopping.is_set():
                break
            has_moved |= self._serve(connection, held)
        close_old_connections()
        if has_moved:
            self._waiter.found()
            return NO_NAP
        waiting = [each.retry_at - monotonic() for each in self._held.values() if each.failures]
        nap = min(self._waiter.nap(is_behind=is_behind), LONGEST_NAP, *waiting)
        return timedelta(seconds=max(nap, SHORTEST_NAP))

    def finish(self) -> None:
        """Give back the partitions, and close the connections."""
        self._waiter.close()
        self._leases.stop()
        self._leases.stopped(timedelta(seconds=2))
        try:
            if self._session.is_open:
                connection = self._session.connection
                engine.release(connection, self._consumer.name, self.id, list(self._held))
                readers.retire(connection, self.id)
        except psycopg.Error as error:
            # The lease runs out instead.
            signals.send(signals.service_failed, type(self), service=self.name, error=error)
        self._session.close()

    # --- Partitions

    def _rebalance(self, connection: Connection) -> None:
        now = monotonic()
        for number in self._leases.lost(set(self._held)):
            self._lose(self._held[number])
        if now < self._rebalance_at:
            return
        self._rebalance_at = now + REBALANCE_EVERY
        count = engine.partitions_of(connection, self._consumer.name)
        if count is None or count != self._partitions:
            # It is new, or was deleted and made anew, perhaps with other partitions.
            self._held.clear()
            self._partitions = count or self._make()
        readers.beat(connection, self.id, group=self._consumer.name)
        name = self._consumer.name
        excess = engine.excess(connection, name, has=len(self._held), lease=self._lease)
        if excess:
            given = sorted(self._held)[-excess:]
            for number in given:
                del self._held[number]
            engine.release(connection, name, self.id, given)
        for each in engine.take(connection, name, self.id, held=self._held, lease=self._lease):
            self._held[each.number] = Held.of(each)
        # It may have been made anew just before they were taken; later, and they would be lost.
        self._partitions = engine.partitions_of(connection, name) or self._partitions
        self._leases.note(set(self._held))

    def _make(self) -> int:
        consumer = self._consumer
        return groups.make(
            consumer.name,
            partitions=consumer.partitions,
            start=consumer.start,
            database=consumer.alias,
        )

    def _lose(self, held: Held) -> None:
        self._held.pop(held.number, None)
        self._rebalance_at = 0.0

    # --- Events

    def _serve(self, connection: Connection, held: Held) -> bool:
        """Handle the next events of a partition; return whether its cursor has moved."""
        if held.failures and monotonic() < held.retry_at:
            return False
        is_alone = held.position < held.alone_until
        stretch = self._read(connection, held, 1 if is_alone else self._consumer.batch or PAGE)
        events = [RecordedEvent.of(each) for each in stretch.events]
        if not events:
            if stretch.upto == held.stored:
                return False
            self._commit(connection, held, stretch.upto)
            return True
        handled = self._handle(connection, held, events)
        if handled and stretch.upto > held.stored:
            self._commit(connection, held, stretch.upto)
        return True

    def _read(self, connection: Connection, held: Held, limit: int) -> log.Stretch:
        wanted = self._consumer.filter
        condition, parameters = wanted.sql, wanted.parameters
        if self._partitions > 1:
            condition += " AND pgqueue_partition_v1(e.key, %(partitions)s) = %(partition)s"
            parameters |= {"partitions": self._partitions, "partition": held.number}
        stretch = log.read(
            connection, after=held.position, limit=limit, condition=condition, parameters=parameters
        )
        try:
            check_bounds(held.position, stretch)
        except (EventsRemoved, PositionAhead):
            # Taken again next, and then it is the last: the others go on, and a reset is seen.
            self._lose(held)
            raise
        return stretch

    def _handle(self, connection: Connection, held: Held, events: Sequence[RecordedEvent]) -> bool:
        """Have events handled; return whether all of them were."""
        if self._consumer.batch is not None:
            return self._try(connection, held, events)
        committed_at = monotonic()
        for event in events:
            if self._stopping.is_set() or held.number not in self._held:
                break
            if not self._try(connection, held, [event], moves=False):
                return False
            if not self._consumer.atomic and monotonic() - committed_at > COMMIT_EVERY:
                self._commit(connection, held, held.position)
                committed_at = monotonic()
        if not self._consumer.atomic:
            self._commit(connection, held, held.position)
        return held.position == events[-1].position

    def _try(
        self,
        connection: Connection,
        held: Held,
        events: Sequence[RecordedEvent],
        *,
        moves: bool = True,
    ) -> bool:
        """Have events handled together; return whether they were, or were given up."""
        upto = events[-1].position
        try:
            self._leases.check(held.number)
            if self._consumer.atomic:
                self._handle_atomically(held, events)
            else:
                self._consumer.handle(events)
        except Lost:
            self._lose(held)
            return False
        except Exception as error:
            return self._failed(connection, held, events, error)
        held.position, held.failures = upto, 0
        if self._consumer.atomic:
            held.stored = upto
        elif moves:
            self._commit(connection, held, upto)
        return True

    def _handle_atomically(self, held: Held, events: Sequence[RecordedEvent]) -> None:
        """Handle events and move the cursor in one transaction: the effects happen exactly once."""
        alias = self._consumer.alias
        with transaction.atomic(using=alias, durable=True):
            self._consumer.handle(events)
            if not engine.commit(
                connections[alias],
                self._consumer.name,
                held.number,
                self.id,
                upto=events[-1].position,
                after=held.position,
            ):
                raise Lost

    def _commit(self, connection: Connection, held: Held, upto: int) -> None:
        if engine.commit(connection, self._consumer.name, held.number, self.id, upto=upto):
            held.position = held.stored = upto
            held.failures = 0
        else:
            self._lose(held)

    # --- Failures

    def _failed(
        self,
        connection: Connection,
        held: Held,
        events: Sequence[RecordedEvent],
        error: Exception,
    ) -> bool:
        """Note a failure; return whether the event was given up, so that the next one follows."""
        name, event = self._consumer.name, events[0]
        hidden = redacting.hiding_of_events(events)
        shown = stand_in(error, hidden)
        if len(events) > 1:
            # Which of them it was is not known.
            logger.warning(
                "%s and %d more failed in the group %s: each is tried by itself, now",
                *(event, len(events) - 1, name),
                exc_info=shown,
            )
            held.alone_until = events[-1].position
            return False
        failures = held.failures + 1
        delay = self._delay(error, failures, hidden)
        is_last = failures >= self._consumer.max_attempts or delay is None
        then = self._in_words(None if is_last else delay)
        level = logging.ERROR if is_last else logging.WARNING
        logger.log(level, "%s failed in the group %s: %s", event, name, then, exc_info=shown)
        if is_last or delay is None:
            return self._give_up(connection, held, event, shown, failures)
        held.failures = failures
        held.retry_at = monotonic() + delay.total_seconds()
        self._note(connection, held, shown, delay)
        return False

    def _give_up(
        self,
        connection: Connection,
        held: Held,
        event: RecordedEvent,
        error: BaseException,
        failures: int,
    ) -> bool:
        held.failures = failures
        if self._consumer.on_failure == "stop":
            self._note(connection, held, error, None)
            self._held.pop(held.number, None)
            return False
        try:
            self._park(connection, held, event, parked(self._consumer, event, error, failures))
        except Lost:
            self._lose(held)
            return False
        held.position, held.stored, held.failures = event.position, event.position, 0
        return True

    def _park(
        self, connection: Connection, held: Held, event: RecordedEvent, letter: engine.Parked
    ) -> None:
        with connection.transaction():
            engine.park(connection, letter)
            if not engine.commit(
                connection,
                self._consumer.name,
                held.number,
                self.id,
                upto=event.position,
                after=held.position,
            ):
                raise Lost

    def _note(
        self, connection: Connection, held: Held, error: BaseException, delay: timedelta | None
    ) -> None:
        if engine.fail(
            connection,
            self._consumer.name,
            held.number,
            self.id,
            upto=held.position,
            failures=held.failures,
            error=f"{type(error).__name__}: {error}".replace("\x00", "")[:1000],
            retry_after=delay,
        ):
            held.stored = held.position
        else:
            self._lose(held)

    def _in_words(self, delay: timedelta | None) -> str:
        if delay is not None:
            return f"tried again in {delay.total_seconds():.1f} s"
        return "dead letter" if self._consumer.on_failure == "park" else "the partition stops there"

    def _delay(self, error: Exception, failures: int, hidden: Hidden) -> timedelta | None:
        result: Any = Failed(failures)
        try:
            delay = self._consumer.backoff(error, result)
            return None if delay is None else max(as_timedelta(delay), NO_NAP)
        except Exception as second:
            shown = stand_in(second, hidden)
            logger.error("The backoff of the group %s failed", self._consumer.name, exc_info=shown)
            return timedelta(seconds=Exponential()(error, result))


@dataclass(frozen=True)
class Failed:
    """What a backoff is given of an event: how often it has failed."""

    failures: int


class Leases(Service):
    """Renews a reader's leases while its handler runs."""

    longest_backoff = timedelta(seconds=1)

    def __init__(self, consumer: Consumer, reader: GroupReader, *, lease: timedelta) -> None:
        super().__init__()
        self.name = f"leases of the group {consumer.name}"
        self._group = consumer.name
        self._reader = reader
        self._lease = lease
        self._session = Session(consumer.alias, name="group leases")
        self._lock = threading.Lock()
        self._noted: set[int] = set()
        self._lost: set[int] = set()

    def note(self, partitions: set[int]) -> None:
        """Renew these from now on."""
        with self._lock:
            self._noted = partitions
            self._lost -= partitions

    def lost(self, partitions: set[int]) -> set[int]:
        """Return which of these were lost."""
        with self._lock:
            return self._lost & partitions

    def check(self, partition: int) -> None:
        """Raise Lost if a partition was."""
        with self._lock:
            if partition in self._lost:
                raise Lost

    def tick(self) -> timedelta:
        """Renew them all."""
        connection = self._session.connection
        with self._lock:
            noted = set(self._noted)
        readers.beat(connection, self._reader.id, group=self._group)
        kept = engine.renew(connection, self._group, self._reader.id, lease=self._lease)
        with self._lock:
            self._lost |= noted - kept
        if noted - kept:
            self._reader.wake()
        return self._lease / 3

    def finish(self) -> None:
        """Close the connection."""
        self._session.close()
