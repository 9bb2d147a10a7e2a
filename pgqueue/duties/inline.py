"""Do duties between other work, on its connection and in its thread."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from time import monotonic

from pgqueue.duties.agenda import Agenda
from pgqueue.duties.base import Duty
from pgqueue.duties.run import run_duty
from pgqueue.engine.values import Connection


class InlineDuties:
    """Duties of a process that has no service for them, such as a consumer.

    Their rows keep it from repeating what a worker, or another consumer, has just done.

    Args:
        duties: none of them long: a long one needs a connection of its own.
        lease: of messages here.
    """

    def __init__(self, duties: Sequence[Duty], *, lease: timedelta) -> None:
        self._agenda = Agenda(duties, lease=lease)
        self._look_at = 0.0

    @property
    def due_in(self) -> float:
        """Seconds until it is worth looking again."""
        return self._look_at - monotonic()

    def look(self, connection: Connection) -> None:
        """Run the duties that are due, unless that was looked at just now.

        Args:
            connection: in autocommit.
        """
        if monotonic() >= self._look_at:
            nap = self._agenda.run_due(connection, self._run)
            self._look_at = monotonic() + nap.total_seconds()

    def _run(self, connection: Connection, duty: Duty, early: bool) -> timedelta | None:
        return run_duty(connection, duty, contact=self._agenda.contact, early=early)
