from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import random
from time import monotonic
from typing import Any, Protocol

import django.db
import psycopg
from django.db import close_old_connections

from pgqueue import signals
from pgqueue.database import guard
from pgqueue.engine import schedule as engine
from pgqueue.engine.culprits import by_halves
from pgqueue.engine.schedule import DeclaredSchedule, Scheduled
from pgqueue.engine.values import Connection
from pgqueue.exceptions import PGQueueError, TickMissed, UnknownTask
from pgqueue.options.schedules import rhythm_of
from pgqueue.options.ticks import LATE, Rhythm, to_do
from pgqueue.redaction import Hidden

LATEST = timedelta(seconds=1)
SOONEST = timedelta(milliseconds=5)
BESIDE_A_LOCK = timedelta(seconds=0.1)
DECLARE_EVERY = 20.0  # seconds: three times in the minute after which it would be forgotten
BATCH = 100
"""Schedules in a transaction, and messages of one of them. None is begun after so many of all."""
ASIDE_IF_BUSY = 5.0  # seconds
ASIDE_IF_IMPOSSIBLE = 60.0  # seconds: another worker may know the task


class TickMessage(Protocol):
    """The message of a tick: a `TaskResult`."""

    id: Any
    came_of: str


class Scheduling(Protocol):
    """The functions of a higher room that the duty needs: the module `tasks.scheduling`."""

    def declared(self, database: str) -> list[DeclaredSchedule]:
        """Return the schedules that the project has in its code."""

    def enqueue(
        self, scheduled: Scheduled, tick: datetime, connection: Connection
    ) -> TickMessage | None:
        """Store the message of a tick, in the transaction of `connection`; None: it has none."""

    def hiding(self, scheduled: Scheduled) -> Hidden:
        """Return the `Hidden` that removes a schedule's redacted arguments from texts."""


@dataclass(frozen=True)
class DoneTicks:
    """Ticks, each with the id of its message, None if it was skipped, or why it has no message."""

    ends: Sequence[tuple[datetime, int | BaseException | None]]

    @property
    def stored(self) -> list[tuple[datetime, int]]:
        """The ticks that have a message."""
        return [(tick, end) for tick, end in self.ends if isinstance(end, int)]

    @property
    def errors(self) -> list[BaseException]:
        """The reasons why ticks have no message."""
        return [end for _, end in self.ends if isinstance(end, BaseException)]


class Schedules:
    """Enqueue what schedules say, once at each tick.

    It is due when the next tick is, and at least every second: an operator may have added one.
    Each worker declares what its own code has, whichever of them does the ticks.
    """

    name = "schedule"

    def __init__(self, *, database: str, scheduling: Scheduling) -> None:
        self._database = database
        self._scheduling = scheduling
        self._definitions: dict[str, str] = {}
        self.did = {"enqueued": 0, "skipped": 0}
        self._declared_at = float("-inf")
        self._taken: set[str] = set()
        self._aside: dict[str, float] = {}
        self._kept: dict[str, datetime | None] = {}

    def may_run(self, answered_for: timedelta) -> bool:
        """Any process may."""
        return True

    def look(self, connection: Connection) -> bool:
        """Declare, now and then, what the code has; say whether a tick is due."""
        if monotonic() - self._declared_at >= DECLARE_EVERY:
            self._declare(connection)
        due_in = engine.next_due(connection, names=self._definitions, aside=self._left_aside())
        return due_in is not None and due_in <= timedelta()

    def run(self, connection: Connection) -> timedelta:
        """Enqueue the messages of the ticks that are due."""
        self.look(connection)
        due = engine.due(connection, names=self._definitions, aside=self._left_aside(), limit=BATCH)
        # Only the first that meets a lock is waited for. It must not be the same one each time:
        # the others may be free by then.
        due.sort(key=lambda each: random() if self._is_kept(each) else 0)  # noqa: S311
        done = Counter({"enqueued": 0, "skipped": 0})
        for each in due:
            if done.total() >= BATCH:
                break
            done.update(self._try(connection, each))
        self.did = dict(done)
        if len(due) == BATCH:
            return timedelta()
        again_in = engine.next_due(connection, names=self._definitions, aside=self._left_aside())
        if again_in is None:
            return LATEST
        if again_in <= timedelta() and not any(done.values()):
            return BESIDE_A_LOCK
        return min(max(again_in, SOONEST), LATEST)

    def _declare(self, connection: Connection) -> None:
        self._declared_at = monotonic()
        try:
            declared = self._scheduling.declared(self._database)
        except PGQueueError as error:
            # Schedules of operators, and the ones that were correct before, go on.
            self._failed(error, "schedules")
            return
        self._definitions = {each.name: each.definition for each in declared}
        with suppress(psycopg.errors.LockNotAvailable):  # the next time, then
            stored = by_halves(
                lambda some: engine.declare(connection, some),
                declared,
                lambda each, error: self._failed(error, f"schedule {each.name}"),
            )
            taken = {name for names in stored for name in names}
            for name in taken - self._taken:
                signals.send(signals.schedule_taken, type(self), name=name)
            self._taken = taken

    def _failed(self, error: Exception, service: str) -> None:
        signals.send(signals.service_failed, type(self), service=service, error=error)

    def _try(self, connection: Connection, scheduled: Scheduled) -> Mapping[str, int]:
        """Do the ticks of one schedule; return counts of their results. Its error is its own."""
        try:
            with connection.transaction():
                return self._do(connection, scheduled)
        except (psycopg.OperationalError, django.db.OperationalError) as error:
            # Another session has locked what it needs, for example: it is tried again.
            if connection.closed:
                raise
            self._kept[scheduled.name] = scheduled.next_at
            self._set_aside(scheduled, ASIDE_IF_BUSY)
            engine.hurry(connection)
            if scheduled.next_at and scheduled.now - scheduled.next_at >= LATE:
                # The first line alone: the next ones name a place, another one each time.
                self._note(connection, scheduled, error, _said(error).partition("\n")[0])
        except BaseException as error:
            if connection.closed:
                raise
            self._set_aside(scheduled, ASIDE_IF_IMPOSSIBLE)
            self._note(connection, scheduled, error, _said(error))
        return {}

    def _note(
        self, connection: Connection, scheduled: Scheduled, error: BaseException, said: str
    ) -> None:
        """Note why its ticks are not done, and tell it if that is news."""
        hidden = self._scheduling.hiding(scheduled)
        if engine.note(connection, scheduled, hidden(said)):
            self._announce(scheduled, error, hidden)

    def _announce(self, scheduled: Scheduled, error: BaseException, hidden: Hidden) -> None:
        told = {"name": scheduled.name, "error": error, "hidden": hidden}
        signals.send(signals.schedule_failed, type(self), **told)

    def _do(self, connection: Connection, scheduled: Scheduled) -> Mapping[str, int]:
        rhythm = rhythm_of(
            scheduled.cron if scheduled.every is None else scheduled.every, scheduled.timezone
        )
        first = scheduled.next_at
        ticks = [] if first is None else to_do(rhythm, first, scheduled.now, scheduled.missed)
        now, later = ticks[:BATCH], ticks[BATCH:]
        is_left_out = bool(first and not ticks)
        if first and is_left_out and self._is_kept(scheduled):
            done = DoneTicks([(first, TickMissed())])
        else:
            done = DoneTicks([(tick, self._enqueue(connection, scheduled, tick)) for tick in now])
        stored, errors = done.stored, done.errors
        hidden = self._scheduling.hiding(scheduled) if errors else Hidden(())
        failed = {hidden(_said(error)): error for error in errors}
        engine.move(
            connection,
            scheduled,
            next_at=later[0] if later else _next(rhythm, scheduled),
            ticked_at=stored[-1][0] if stored else None,
            message_ids=[id for _, id in reversed(stored)],
            # Of ticks that are left out, one that was due before may have said why it had none.
            error=next(reversed(failed), None if is_left_out else ""),
        )
        for error in failed.values():
            self._announce(scheduled, error, hidden)
        return {"enqueued": len(stored), "skipped": len(done.ends) - len(stored)}

    def _enqueue(
        self, connection: Connection, scheduled: Scheduled, tick: datetime
    ) -> int | BaseException | None:
        """Store a tick's message; return its id, None if it is skipped, or why there is none."""
        close_old_connections()  # of Django's, which fetch model instances among the arguments
        try:
            with connection.transaction():
                # The task may make a key, or a class of the user's be encoded.
                result = guard.isolated(
                    guard.call, self._scheduling.enqueue, scheduled, tick, connection
                )
            # With overlap="skip", the message of an earlier tick may live.
            return None if result is None or result.came_of == "existing" else int(result.id)
        except (psycopg.OperationalError, django.db.OperationalError, UnknownTask):
            raise
        except BaseException as error:
            known = self._definitions.get(scheduled.name, "")
            if known and scheduled.definition not in ("", known):
                raise  # newer code, or older, has other arguments, and may be right
            return error  # It would fail again: the next tick is another matter.

    def _is_kept(self, scheduled: Scheduled) -> bool:
        """Whether a lock has kept us from its first tick before."""
        return (scheduled.name, scheduled.next_at) in self._kept.items()

    def _set_aside(self, scheduled: Scheduled, seconds: float) -> None:
        self._aside[scheduled.name] = monotonic() + seconds

    def _left_aside(self) -> list[str]:
        now = monotonic()
        self._aside = {name: until for name, until in self._aside.items() if until > now}
        return list(self._aside)


def _next(rhythm: Rhythm, scheduled: Scheduled) -> datetime:
    """Return the first tick after now, and after the last that was done: the clock may be set back.

    Where the last lies ahead by a minute or more, the clock had been wrong: a schedule that is
    saved again need not wait until then.
    """
    now, last = scheduled.now, scheduled.ticked_at or scheduled.now
    return rhythm.after(max(now, last) if last - now < LATE else now)


def _said(error: Any) -> str:
    return f"{type(error).__name__}: {error}".replace("\x00", "")[:1000]
