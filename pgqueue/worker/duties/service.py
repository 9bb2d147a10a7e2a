"""Look which duties are due, and do them."""

from __future__ import annotations

import math
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import psycopg
from django.db import connections

from pgqueue import signals
from pgqueue.connections import Contact, Session
from pgqueue.engine import duty as engine
from pgqueue.engine import promote
from pgqueue.service import Service
from pgqueue.worker.duties import Duty, LongDuty, Looks
from pgqueue.worker.duties.doing import do
from pgqueue.worker.duties.promote import Promote

LOOK_EVERY = timedelta(seconds=1)
SHORTEST_NAP = timedelta(milliseconds=5)
NAP_BESIDE_A_LOCK = timedelta(seconds=0.1)
"""When what is due is locked by somebody else."""
SHORTEST_REST = 1.0  # seconds after a failure, twice as long after each one that follows
LONGEST_REST = 60.0
LONGEST_ASIDE = 15 * 60.0
"""Seconds for a long duty. To drop a day has 10 minutes, and as a rule takes none. Once they have
taken a minute no other is begun."""
LAST_WORDS = 1.0  # seconds that a long duty has left when the worker stops

NOW = timedelta()


class Duties(Service):
    """Does what it finds due. A holder that dies loses its row's lock: the next one takes over.

    A duty that fails is left alone for a while; the others are done all the same. A long one has
    a thread and a connection of its own: what is delayed must not be late because of it.

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
        self._duties = {duty.name: duty for duty in duties}
        self._resting: dict[str, float] = {}
        self._failed_times: Counter[str] = Counter()
        self._contact = Contact(lease=lease)
        self._answered_for = timedelta()
        self._is_early = False
        self._long: threading.Thread | None = None
        self._aside: Session | None = None
        self._cut_at = math.inf

    def look_early(self) -> None:
        """Promote now: something may be due before the promoter means to look."""
        self._is_early = True
        self.wake()

    def tick(self) -> timedelta:
        """Do each duty that is due; nap until the next one is."""
        self._cut_what_hangs()
        connection = self._session.connection
        self._answered_for = self._contact.lasting(connection)
        early, self._is_early = self._is_early, False
        left = engine.due(connection, self._duties)
        left |= dict.fromkeys(self._look(connection), NOW)
        if early or _is_due(promote.next_due(connection)):
            left[Promote.name] = NOW
        done = {
            name: again_in
            for name, due_in in left.items()
            if due_in <= NOW and (again_in := self._try(connection, name)) is not None
        }
        nap = self._nap(connection, left, done)
        self._contact.note_answer()
        return nap

    def _look(self, connection: psycopg.Connection[Any]) -> list[str]:
        """Return which duties have something to do that another worker may not know of."""
        due = []
        for name, duty in self._duties.items():
            if isinstance(duty, Looks) and self._resting.get(name, 0) <= time.monotonic():
                try:
                    due += [name] if duty.look(connection) else []
                except Exception as error:
                    self._let_rest(connection, name, error)
        return due

    def _try(self, connection: psycopg.Connection[Any], name: str) -> timedelta | None:
        """Do a duty; return when it is due again, or None where it was not for us to do."""
        now = time.monotonic()
        duty = self._duties[name]
        if self._resting.get(name, 0) > now or not duty.may_run(self._answered_for):
            return None
        if isinstance(duty, LongDuty):
            self._begin(duty)
            return None
        try:
            self.note_progress()
            early = name == Promote.name or isinstance(duty, Looks)
            again_in = do(connection, duty, contact=self._contact, early=early)
            self._contact.note_answer()
            self._failed_times.pop(name, None)
            if again_in is not None and any(duty.did.values()):
                self._on_done()
            return again_in
        except Exception as error:
            self._let_rest(connection, name, error)
            return None

    def _let_rest(self, connection: psycopg.Connection[Any], name: str, error: Exception) -> None:
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
            signals.service_stuck.send_robust(type(self), service=self._long.name)
            self._aside.cut()

    def _do_aside(self, duty: LongDuty, session: Session) -> None:
        try:
            do(session.connection, duty, contact=self._contact)
            self._failed_times.pop(duty.name, None)
        except Exception as error:
            self._failed(duty.name, error)
        finally:
            session.close()
            connections.close_all()  # which receivers of signals have opened

    def _failed(self, name: str, error: Exception) -> None:
        rest = min(SHORTEST_REST * 2 ** min(self._failed_times[name], 10), LONGEST_REST)
        self._failed_times[name] += 1
        self._resting[name] = time.monotonic() + rest
        signals.service_failed.send_robust(type(self), service=f"duty {name}", error=error)

    def _nap(
        self,
        connection: psycopg.Connection[Any],
        left: dict[str, timedelta],
        done: dict[str, timedelta],
    ) -> timedelta:
        """Return how long nothing is due, as far as it can be seen."""
        naps = [LOOK_EVERY * random.uniform(0.8, 1)]  # noqa: S311
        for name, due_in in {**left, **done}.items():
            if name != Promote.name and (name in done or due_in > NOW):
                naps.append(due_in)
        # The table itself, and in a statement after the commit: who enqueued something while
        # we promoted still saw the old time in the duty's row, and may have told nobody.
        next_due = promote.next_due(connection)
        if next_due is not None:
            is_locked = next_due <= NOW and not (Promote.name in done and self._has_promoted())
            naps.append(NAP_BESIDE_A_LOCK if is_locked else next_due)
        return max(min(naps), SHORTEST_NAP)

    def _has_promoted(self) -> bool:
        duty = self._duties.get(Promote.name)
        return duty is not None and any(duty.did.values())

    def finish(self) -> None:
        """Close the connection; what is done aside ends by itself, or with the process."""
        if self._long is not None:
            self._long.join(LAST_WORDS)
        self._session.close()


def _is_due(due_in: timedelta | None) -> bool:
    return due_in is not None and due_in <= NOW
