"""Which duties are due, and when the next one is."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta

from pgqueue.database.connections import Contact
from pgqueue.duties.base import Duty
from pgqueue.duties.promote import Promote
from pgqueue.engine import duty as engine
from pgqueue.engine import promote
from pgqueue.engine.values import Connection

LOOK_EVERY = timedelta(seconds=1)
TOGETHER = timedelta(seconds=0.1)
"""Duties that are due so soon after one another are done in one turn: each turn costs some
statements of every worker, and most duties are due once a second."""
SHORTEST_NAP = timedelta(milliseconds=5)
NAP_BESIDE_A_LOCK = timedelta(seconds=0.1)
"""When what is due is locked by another process."""

NOW = timedelta()

Run = Callable[[Connection, Duty, bool], timedelta | None]
"""Runs a duty, early (before its row says so) or not; returns what `run_duty` does."""


class Agenda:
    """Some duties, and for how long the database has answered.

    Args:
        lease: of messages here; what `Contact` needs.
    """

    def __init__(self, duties: Sequence[Duty], *, lease: timedelta) -> None:
        self.contact = Contact(lease=lease)
        self._duties = {duty.name: duty for duty in duties}

    def run_due(
        self, connection: Connection, run: Run, *, early: Collection[str] = ()
    ) -> timedelta:
        """Call `run` for each duty that is due and may run; return how long none is.

        Args:
            early: names of duties that are due for another reason than their rows.
        """
        answered_for = self.contact.lasting(connection)
        left = engine.due(connection, self._duties)
        now = {*early, *self._to_promote(connection)}
        left |= dict.fromkeys(now, NOW)
        done = {}
        for name, due_in in left.items():
            duty = self._duties[name]
            if due_in <= NOW and duty.may_run(answered_for):
                again_in = run(connection, duty, name in now)
                if again_in is not None:
                    done[name] = again_in
        nap = self._nap(connection, left, done)
        self.contact.note_answer()
        return nap

    def _to_promote(self, connection: Connection) -> list[str]:
        """Return the name of `Promote` if a message is due: its row may say so too late."""
        if Promote.name not in self._duties:
            return []
        due_in = promote.next_due(connection)
        return [Promote.name] if due_in is not None and due_in <= NOW else []

    def _nap(
        self, connection: Connection, left: dict[str, timedelta], done: dict[str, timedelta]
    ) -> timedelta:
        """Return how long nothing is due, as far as it can be seen."""
        naps = [LOOK_EVERY * random.uniform(0.8, 1)]  # noqa: S311
        for name, due_in in {**left, **done}.items():
            if name != Promote.name and (name in done or due_in > NOW):
                naps.append(due_in)
        if min(naps) > NOW:
            naps = [max(each for each in naps if each <= min(naps) + TOGETHER)]
        if Promote.name not in self._duties:
            return max(min(naps), SHORTEST_NAP)
        # From the table, in a statement after the commit: a producer that enqueued while this
        # process promoted still saw the old time in the duty's row, and may have notified no one.
        next_due = promote.next_due(connection)
        if next_due is not None:
            is_locked = next_due <= NOW and not (Promote.name in done and self._has_promoted())
            naps.append(NAP_BESIDE_A_LOCK if is_locked else next_due)
        return max(min(naps), SHORTEST_NAP)

    def _has_promoted(self) -> bool:
        return any(self._duties[Promote.name].did.values())
