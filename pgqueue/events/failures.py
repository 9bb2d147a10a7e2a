"""The failures of a group's events: the wait for the next attempt, and the end of an event."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from typing import Any
from uuid import UUID

from pgqueue.calls.stand_ins import stand_in
from pgqueue.database import guard
from pgqueue.engine import groups as engine
from pgqueue.engine.values import Connection
from pgqueue.events.consumers import Consumer
from pgqueue.events.dead_events import parked
from pgqueue.events.leases import Held, Lost
from pgqueue.events.recorded import RecordedEvent
from pgqueue.exceptions import ReaderLost
from pgqueue.options.retries import Exponential
from pgqueue.redaction import Hidden
from pgqueue.tasks import redacting
from pgqueue.threads.service import NO_NAP
from pgqueue.values.escaping import logger_of
from pgqueue.values.number_checks import LONGEST, as_timedelta

logger = logger_of("pgqueue")


@dataclass(frozen=True)
class FailedEvent:
    """The argument of a backoff: the number of an event's failures."""

    failures: int


class PartitionStopped(Exception):
    """The partition stops at an event that was given up, as its group declares."""


class Failures:
    """Notes the failures of a group's events for one reader."""

    def __init__(self, consumer: Consumer, reader_id: UUID) -> None:
        self._consumer = consumer
        self._reader_id = reader_id

    def note(
        self,
        connection: Connection,
        held: Held,
        events: Sequence[RecordedEvent],
        error: BaseException,
    ) -> bool:
        """Note the failure of events; return whether the event was given up.

        Raises:
            Lost: the reader no longer holds the partition.
            PartitionStopped: the partition stops at the event.
        """
        name, event = self._consumer.name, events[0]
        hidden = redacting.hiding_of_events(events)
        shown = stand_in(error, hidden)
        if len(events) > 1:
            # It is unknown which of the events failed.
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
        self._store(connection, held, shown, delay)
        return False

    def note_hand_over(
        self, connection: Connection, held: Held, error: BaseException, *, failures: int
    ) -> None:
        """Note that the user's function failed at the hand-over of a rebuild.

        Raises:
            Lost: the reader no longer holds the partition.
            PartitionStopped: the partition stops; an operator resumes the rebuild.
        """
        hidden = redacting.hiding_of_events([])
        shown, delay = stand_in(error, hidden), self._delay(error, failures, hidden)
        if failures >= self._consumer.max_attempts:
            delay = None
        logger.error(
            "The hand-over of the group %s failed: %s",
            *(self._consumer.name, self._in_words(delay)),
            exc_info=shown,
        )
        held.failures = failures
        held.retry_at = monotonic() + (delay or NO_NAP).total_seconds()
        self._store(connection, held, shown, delay)
        if delay is None:
            raise PartitionStopped

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
            self._store(connection, held, error, None)
            raise PartitionStopped
        self._park(connection, held, event, parked(self._consumer, event, error, failures))
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
                self._reader_id,
                upto=event.position,
                after=held.position,
                stored=held.stored,
            ):
                raise Lost

    def _store(
        self, connection: Connection, held: Held, error: BaseException, delay: timedelta | None
    ) -> None:
        if not engine.fail(
            connection,
            self._consumer.name,
            held.number,
            self._reader_id,
            upto=held.position,
            failures=held.failures,
            error=f"{type(error).__name__}: {error}".replace("\x00", "")[:1000],
            retry_after=delay,
            stored=held.stored,
        ):
            raise Lost
        held.stored = held.position

    def _in_words(self, delay: timedelta | None) -> str:
        if delay is not None:
            return f"tried again in {delay.total_seconds():.1f} s"
        return "dead letter" if self._consumer.on_failure == "park" else "the partition stops there"

    def _delay(self, error: BaseException, failures: int, hidden: Hidden) -> timedelta | None:
        result: Any = FailedEvent(failures)
        try:
            delay = guard.call(self._consumer.backoff, error, result)
            return None if delay is None else min(max(as_timedelta(delay), NO_NAP), LONGEST)
        except BaseException as second:
            shown = stand_in(second, hidden)
            logger.error("The backoff of the group %s failed", self._consumer.name, exc_info=shown)
            return timedelta(seconds=Exponential()(error, result))

    def give_up_culprit(self, connection: Connection, held: Held, event: RecordedEvent) -> bool:
        """Give up the event that has ended its readers' processes; return whether it was given up.

        Raises:
            Lost, PartitionStopped: as `note` does.
        """
        name, lost, error = self._consumer.name, held.lost, ReaderLost(held.lost)
        logger.error(
            "%s in the group %s has lost its reader %d times: %s",
            *(event, name, lost, self._in_words(None)),
        )
        return self._give_up(connection, held, event, error, lost)
