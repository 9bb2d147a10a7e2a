"""Do duties in a thread of a worker."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import psycopg
from django.db import connections

from pgqueue import signals
from pgqueue.database.connections import Session
from pgqueue.duties.agenda import Agenda
from pgqueue.duties.base import Duty, Hears, LongDuty, Looks
from pgqueue.duties.promote import Promote
from pgqueue.duties.run import run_duty
from pgqueue.threads.service import Service

SHORTEST_REST = 1.0  # seconds after a failure, twice as long after each one that follows
LONGEST_REST = 60.0
LONGEST_ASIDE = 15 * 60.0
"""Seconds for a long duty. To drop a day may take 10 minutes, and usually takes milliseconds. Once
a minute has passed, no other day is begun."""
LAST_WORDS = 1.0  # seconds that a long duty has left when the worker stops


class Duties(Service):
    """Does what it finds due. If its process dies, its locks end, and another one goes on.

    A duty that fails is left alone for a while; the others are done all the same. A long one has
    a thread and a connection of its own: it must not delay messages that become due.

    Args:
        lease: of messages here.
        on_done: called when one did something, once that is committed: messages may be ready.
    """

    def __init__(
        self,
        session: Session,
        duties: Sequence[Duty],
        *,
        lease: timedelta,
        on_done: Callable[[], None],
    ) -> None:
        super().__init__()
        self._session = session
        self._on_done = on_done
        self._duties = list(duties)
        self._agenda = Agenda(duties, lease=lease)
        self._resting: dict[str, float] = {}
        self._failed_times: Counter[str] = Counter()
        self._is_early = False
        self._long: threading.Thread | None = None
        self._aside: Session | None = None
        self._cut_at = math.inf
        for duty in self._duties:
            if isinstance(duty, Hears):
                duty.hear(self.wake)

    def look_early(self) -> None:
        """Promote now: a message may be due before the next look."""
        self._is_early = True
        self.wake()

    def tick(self) -> timedelta:
        """Do each duty that is due; nap until the next one is."""
        self._cut_what_hangs()
        connection = self._session.connection
        early, self._is_early = [Promote.name] if self._is_early else [], False
        return self._agenda.run_due(connection, self._try, early=[*early, *self._look(connection)])

    def _look(self, connection: psycopg.Connection[Any]) -> list[str]:
        """Return which duties have something to do that another worker may not know of."""
        due = []
        for duty in self._duties:
            if isinstance(duty, Looks) and not self._rests(duty):
                try:
                    due += [duty.name] if duty.look(connection) else []
                except BaseException as error:
                    self._let_rest(connection, duty.name, error)
        return due

    def _try(
        self, connection: psycopg.Connection[Any], duty: Duty, early: bool
    ) -> timedelta | None:
        """Do a duty; return when it is due again, or None where it was not done here and now."""
        if self._rests(duty):
            return None
        if isinstance(duty, LongDuty):
            self._begin(duty)
            return None
        try:
            self.note_progress()
            again_in = run_duty(connection, duty, contact=self._agenda.contact, early=early)
            self._agenda.contact.note_answer()
            self._done(duty.name)
            if again_in is not None and any(duty.did.values()):
                self._on_done()
            return again_in
        except BaseException as error:
            # Also SystemExit: modules of the user's are imported here, and keys made.
            self._let_rest(connection, duty.name, error)
            return None

    def _rests(self, duty: Duty) -> bool:
        return self._resting.get(duty.name, 0) > time.monotonic()

    def _let_rest(
        self, connection: psycopg.Connection[Any], name: str, error: BaseException
    ) -> None:
        if not connection.closed:
            # Before it ends the tick: the others are done at the next one, all the same.
            self._failed(name, error)
            self._session.close_after(error)
        if connection.closed:
            raise error

    def _begin(self, duty: LongDuty) -> None:
        if self._long is None or not self._long.is_alive():
            self._aside = Session(self._session.alias, name=duty.name)
            self._cut_at = time.monotonic() + LONGEST_ASIDE
            self._long = threading.Thread(
                target=self._do_aside,
                args=[duty, self._aside],
                name=f"duty {duty.name}",
                daemon=True,
            )
            self._long.start()

    def _cut_what_hangs(self) -> None:
        """Cut a long duty's connection when its time is over: it fails, and is tried again."""
        if not self._long or not self._aside or time.monotonic() < self._cut_at:
            return
        if self._long.is_alive():
            self._cut_at = time.monotonic() + LONGEST_REST
            signals.send(signals.service_stuck, type(self), service=self._long.name)
            self._aside.cut()

    def _do_aside(self, duty: LongDuty, session: Session) -> None:
        try:
            run_duty(session.connection, duty, contact=self._agenda.contact)
            self._done(duty.name)
        except BaseException as error:
            self._failed(duty.name, error)
        finally:
            session.close()
            connections.close_all()  # which receivers of signals have opened

    def _done(self, name: str) -> None:
        self._failed_times.pop(name, None)
        self._succeeded(f"duty {name}")

    def _failed(self, name: str, error: BaseException) -> None:
        rest = min(SHORTEST_REST * 2 ** min(self._failed_times[name], 10), LONGEST_REST)
        self._failed_times[name] += 1
        self._resting[name] = time.monotonic() + rest
        self._report(f"duty {name}", error)

    def finish(self) -> None:
        """Close the connection; a long duty ends by itself, or with the process."""
        for duty in self._duties:
            if isinstance(duty, Hears):
                duty.close()
        if self._long is not None:
            self._long.join(LAST_WORDS)
        self._session.close()
