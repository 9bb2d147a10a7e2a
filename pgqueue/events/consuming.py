"""Read for a group: lease partitions, handle their events, and move their cursors.

A reader has two threads. One handles events; the other renews the leases of the partitions, even
while a handler takes long. The reader's share of the partitions changes as other readers come and
go. Between two batches it takes free partitions, or gives back partitions beyond its share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import Context
from datetime import timedelta
from functools import partial
from time import monotonic
from typing import Any
from uuid import uuid4

import psycopg
from django.db import Error, connections, transaction

from pgqueue import signals
from pgqueue.database import django_connections, guard, session_state
from pgqueue.database.connections import Session
from pgqueue.engine import groups as engine
from pgqueue.engine import log, readers
from pgqueue.engine.culprits import leave_out, may_be_a_row
from pgqueue.engine.errors import RERUNS, is_conflict, pause
from pgqueue.engine.groups import LEASE, Partition
from pgqueue.engine.sequence import advance
from pgqueue.engine.values import Connection
from pgqueue.events import groups
from pgqueue.events.consumers import Consumer
from pgqueue.events.failures import Failures, PartitionStopped
from pgqueue.events.growth import GrowthWaiter
from pgqueue.events.leases import Held, LeaseRenewal, Lost
from pgqueue.events.reading import (
    ConditionFailed,
    check_bounds,
    first_unreadable,
    in_condition,
)
from pgqueue.events.recorded import RecordedEvent
from pgqueue.events.suspects import alone
from pgqueue.exceptions import EventsRemoved, PositionAhead
from pgqueue.threads.service import NO_NAP, Service
from pgqueue.values.escaping import logger_of

logger = logger_of("pgqueue")

PAGE = 500
"""The number of events that are read at once for a handler that takes them one by one."""
COMMIT_EVERY = 0.1
"""Seconds between moves of the cursor, for events that are handled one by one."""
REBALANCE_EVERY = 1.0
SHORTEST_NAP = 0.001
LONGEST_NAP = 1.0


class Unread(Exception):
    """The next event of the log is unreadable."""

    def __init__(self, position: int, error: Exception) -> None:
        super().__init__(position)
        self.position = position
        self.error = error


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
        self._connection: Connection | None = None
        self._timeline = ""
        self._leases = LeaseRenewal(consumer, self.id, self.wake, lease=lease)
        self._failing = Failures(consumer, self.id)
        self._held: dict[int, Held] = {}
        self._partitions = 0
        self._rebalance_at = 0.0
        self._waiter = GrowthWaiter(consumer.alias, self.wake)

    def run(self) -> None:
        """Read until stopped."""
        django_connections.begin_thread()
        self._leases.start()
        try:
            super().run()
        finally:
            # Otherwise no other reader could take over.
            self._leases.stop()

    def tick(self) -> timedelta:
        """Handle the next events of each partition; return the nap."""
        connection = self._session.connection
        if connection is not self._connection:
            self._go_back(connection)
            self._connection = connection
        self._rebalance(connection)
        is_behind = advance(connection)
        has_moved = self._serve_each(connection)
        django_connections.close_old_connections()
        if has_moved:
            self._waiter.found()
            return NO_NAP
        django_connections.close_idle_connections()
        waiting = [each.retry_at - monotonic() for each in self._held.values() if each.failures]
        nap = min(self._waiter.nap(is_behind=is_behind), LONGEST_NAP, *waiting)
        return timedelta(seconds=max(nap, SHORTEST_NAP))

    def _serve_each(self, connection: Connection) -> bool:
        """Handle the next events of each partition; return whether a cursor has moved."""
        has_moved = False
        failed: list[tuple[Held, Exception]] = []
        held = list(self._held.values())
        for each in held:
            if self._stopping.is_set():
                break
            try:
                has_moved |= self._serve(connection, each)
            except Exception as error:
                if not may_be_a_row(connection, error):
                    raise
                failed.append((each, error))
        if failed and len(failed) == len(held):  # no partition's fault
            raise failed[0][1]
        for each, raised in failed:
            # For example, its cursor's row refuses updates: the other partitions go on.
            service = engine.reading(self._consumer.name)
            leave_out(connection, service, engine.CURSORS, each.number, error=raised)
            self._held.pop(each.number, None)
        return has_moved

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
            # Other readers take over when the leases have ended.
            signals.send(signals.service_failed, type(self), service=self.name, error=error)
        self._session.close()

    # --- Partitions

    def _go_back(self, connection: Connection) -> None:
        """Lose each partition whose cursor is before the last known position.

        The server may be a standby that lacked the last moves. If it was promoted since, it may
        also lack the effects of events that were handled behind the cursor. The rebalance leases
        the partition again, at its cursor.
        """
        timeline = engine.timeline(connection)
        is_promoted = timeline != self._timeline
        for each in engine.positions(connection, [self._consumer.name]) if self._held else ():
            held = self._held.get(each.partition)
            if held is None:
                continue
            if each.position < (held.position if is_promoted else held.stored):
                self._lose(held)
        # Last: if a statement has failed, the next connection must see the promotion, too.
        self._timeline = timeline

    def _rebalance(self, connection: Connection) -> None:
        now = monotonic()
        for number in self._leases.lost(set(self._held)):
            self._lose(self._held[number])
        if now < self._rebalance_at:
            return
        self._rebalance_at = now + REBALANCE_EVERY
        count = engine.partitions_of(connection, self._consumer.name)
        if count is None or count != self._partitions:
            # The group is new, or was deleted and created again, perhaps with other partitions.
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
            self._held[each.number] = Held.of(each, self._reach)
            if each.lost:
                self._tell_of_loss(each)
        # The group may have been created again just before the partitions were leased.
        self._partitions = engine.partitions_of(connection, name) or self._partitions
        self._leases.note(set(self._held))

    @property
    def _reach(self) -> int:
        """The number of events behind its cursor that a reader may have begun."""
        return self._consumer.batch or (1 if self._consumer.atomic else PAGE)

    def _tell_of_loss(self, taken: Partition) -> None:
        logger.warning(
            "A reader of the group %s was lost: its process ended, or was cut off. The next %d "
            "events of partition %d are handled one by one: one of them may be the cause",
            *(self._consumer.name, self._reach, taken.number),
        )

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
        if not held.suspected:
            return self._serve_next(connection, held)
        with alone(self._stopping) as is_alone:
            return is_alone and self._serve_next(connection, held)

    def _serve_next(self, connection: Connection, held: Held) -> bool:
        is_alone = held.suspected or held.position < held.alone_until
        try:
            stretch = self._read(connection, held, 1 if is_alone else self._consumer.batch or PAGE)
        except Unread as unread:
            event = RecordedEvent.unread(unread.position)
            return self._failed(connection, held, [event], unread.error)
        except ConditionFailed as failed:
            event = RecordedEvent.of(failed.event)
            return self._failed(connection, held, [event], failed.error)
        events = [RecordedEvent.of(each) for each in stretch.events]
        if not events:
            if held.suspected and stretch.upto >= stretch.head:
                self._acquit(connection, held, held.suspected)  # the partition had no such event
            if stretch.upto == held.stored:
                return False
            self._commit(connection, held, stretch.upto)
            return True
        if self._is_culprit(held, events[0]):
            note = partial(self._failing.give_up_culprit, connection, held, events[0])
            handled = self._gives_up(held, note)
        else:
            handled = self._handle_each(connection, held, events)
        if handled and held.number in self._held and stretch.upto > held.stored:
            self._commit(connection, held, stretch.upto)
        if handled and held.suspected:
            self._acquit(connection, held, 1)
        return True

    def _read(self, connection: Connection, held: Held, limit: int) -> log.LogStretch:
        wanted = self._consumer.filter
        condition, parameters = wanted.sql, wanted.parameters
        if self._partitions > 1:
            condition += " AND pgqueue_partition_v1(e.key, %(partitions)s) = %(partition)s"
            parameters |= {"partitions": self._partitions, "partition": held.number}
        given: dict[str, Any] = {"condition": condition, "parameters": parameters}
        after = held.position
        try:
            reach = self._stretch_of(held)
            stretch = log.read(connection, after=after, limit=limit, reach=reach, **given)
        except psycopg.Error as error:
            position = first_unreadable(connection, error, after=after, **given)
            if position == after + 1:
                raise Unread(position, error) from error
            before = position - 1 - after
            stretch = log.read(connection, after=after, limit=limit, reach=before, **given)
        try:
            check_bounds(held.position, stretch)
        except (EventsRemoved, PositionAhead):
            # The next rebalance takes it again, as the last one: so the others go on before, and
            # a reset takes effect.
            self._lose(held)
            raise
        return in_condition(connection, wanted, stretch)

    def _stretch_of(self, held: Held) -> int:
        """Return the number of positions that the next read may look through."""
        return log.REACH

    def _handle_each(
        self, connection: Connection, held: Held, events: Sequence[RecordedEvent]
    ) -> bool:
        """Handle events; return whether all of them were handled."""
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
        """Handle events together; return whether they were handled or given up."""
        upto = events[-1].position
        context = guard.context()
        try:
            self._leases.check(held.number)
            if held.suspected:
                self._note_begin(connection, held, events[0])
            if self._consumer.atomic:
                if not self._handle_unless_in_conflict(context, held, events):
                    return False
            else:
                context.run(self._consumer.handle, events)
        except Lost:
            self._lose(held)
            return False
        except BaseException as error:
            # Even SystemExit: a handler does not end its reader. The failure is logged in the
            # context variables that the handler has left: its trace, its log fields.
            return context.run(self._failed, connection, held, events, error)
        finally:
            # Keep old connections: without CONN_MAX_AGE each event would open a new one.
            django_connections.close_changed_connections()
        held.position, held.failures = upto, 0
        if self._consumer.atomic:
            held.stored = upto
        elif moves:
            self._commit(connection, held, upto)
        return True

    def _handle_unless_in_conflict(
        self, context: Context, held: Held, events: Sequence[RecordedEvent]
    ) -> bool:
        """Handle events, and again after a conflict with another transaction, as atomic tasks.

        Args:
            context: the context of the first call; each further call has its own.

        Returns:
            False: the reader stops before the events were handled.
        """
        for is_last in (*[False] * RERUNS, True):
            try:
                context.run(self._handle_atomically, held, events)
                return True
            except Exception as error:
                if is_last or not is_conflict(error):
                    raise
            if self._stopping.wait(pause()):
                return False
            self._leases.check(held.number)
            context = guard.context()
        return True

    def _handle_atomically(self, held: Held, events: Sequence[RecordedEvent]) -> None:
        """Handle events and move the cursor in one transaction: changes happen exactly once."""
        django = self._watched()
        with transaction.atomic(using=django.alias, durable=True):
            self._consumer.handle(events)
            if not engine.commit(
                django,
                self._consumer.name,
                held.number,
                self.id,
                upto=events[-1].position,
                after=held.position,
                stored=held.stored,
            ):
                raise Lost

    def _watched(self) -> Any:
        """Return Django's connection, whose session state is watched."""
        django = connections[self._consumer.alias]
        django.ensure_connection()
        own = django.connection
        if not session_state.is_watched(own):  # the connection is older than this reader
            session_state.watch(own)
        return django

    def _commit(self, connection: Connection, held: Held, upto: int) -> None:
        name, stored = self._consumer.name, held.stored
        if engine.commit(connection, name, held.number, self.id, upto=upto, stored=stored):
            held.position = held.stored = upto
            held.failures = 0
        else:
            self._lose(held)

    # --- Losses

    def _note_begin(self, connection: Connection, held: Held, event: RecordedEvent) -> None:
        """Store the start of the handler for a suspected event.

        Raises:
            Lost: another reader holds the partition.
        """
        name = self._consumer.name
        if not engine.begin(connection, name, held.number, self.id, suspect=event.position):
            raise Lost

    def _acquit(self, connection: Connection, held: Held, count: int) -> None:
        """Reduce the number of suspected events by `count`."""
        held.suspected -= count
        if not held.suspected:
            held.suspect, held.lost = None, 0
            engine.acquit(connection, self._consumer.name, held.number, self.id)

    def _is_culprit(self, held: Held, event: RecordedEvent) -> bool:
        return event.position == held.suspect and held.lost >= max(self._consumer.max_lost, 2)

    def excuse(self) -> None:
        """Note that this process ends by request during a handler: its event is no cause.

        A thread other than the reader's calls this.
        """
        alias = self._consumer.alias
        try:
            with connections[alias].wrap_database_errors:
                engine.excuse(connections[alias], self._consumer.name, self.id)
        except Error as error:
            signals.send(signals.service_failed, type(self), service=self.name, error=error)

    # --- Failures

    def _failed(
        self,
        connection: Connection,
        held: Held,
        events: Sequence[RecordedEvent],
        error: BaseException,
    ) -> bool:
        """Note a failure; return whether the event was given up."""
        return self._gives_up(held, partial(self._failing.note, connection, held, events, error))

    def _gives_up(self, held: Held, note: Callable[[], bool]) -> bool:
        """Return whether `note` gave an event up. The reader may lose its partition by that."""
        try:
            return note()
        except Lost:
            self._lose(held)
        except PartitionStopped:
            self._held.pop(held.number, None)
        return False
