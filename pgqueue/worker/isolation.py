"""Find out which message it is that kills its worker.

Of a process that died, everything it held is a suspect: nobody knows which of them it was. So
whatever lost a worker before says in the database when it is begun, and only what had begun is
charged with losing another. And what has one life left runs alone in its process: if that dies
too, it was this one. So a message that kills its workers ends as a dead letter, and no other
one does, however many were claimed with it.
"""

from __future__ import annotations

import threading
import time

from pgqueue.connections import borrow
from pgqueue.engine import lease
from pgqueue.worker.held import Held, Holding

PATIENCE = 60.0
"""Seconds to wait for what runs beside it, and for what runs alone. What goes on for longer is
hardly about to kill, and would keep all others waiting."""
LOOK = 0.005
"""Seconds between looks whether it is written how others ended."""


class Isolation:
    """Lets runs begin, one of them alone where it must be.

    Args:
        alias: the queue's database.
        holding: what would be lost with this process.
        max_lost: how many workers a message may lose before it is dead.
    """

    def __init__(
        self, alias: str, holding: Holding, *, max_lost: int, patience: float = PATIENCE
    ) -> None:
        self._alias = alias
        self._holding = holding
        self._max_lost = max_lost
        self._patience = patience
        self._running: set[Held] = set()
        self._alone: Held | None = None
        self._turn = threading.Lock()
        self._changed = threading.Condition()

    def begin(self, held: Held) -> None:
        """Return when it may run. What began has to be ended, even if this raised.

        Whoever had to wait may have lost his lease meanwhile, and is told so.

        Raises:
            django.db.Error: the database can't be told that it begins.
        """
        lost = held.claim.lost
        if lost and lost + 1 >= self._max_lost:
            self._be_alone(held)
        else:
            self._join(held)
        if lost:
            with borrow(self._alias) as connection:
                held.lost = not lease.begin(connection, [held.claim])

    def end(self, held: Held) -> None:
        """Say that it runs no more. Any thread may."""
        self._running.discard(held)
        if self._alone is None:  # as nearly always
            return
        with self._changed:
            if self._alone is held:
                self._alone = None
                self._turn.release()
            self._changed.notify_all()

    def _join(self, held: Held) -> None:
        # First the word, then the look: `_be_alone` does them in the other order, without a lock
        # for the many who need none.
        self._running.add(held)
        until = time.monotonic() + self._patience
        while self._alone is not None and (left := until - time.monotonic()) > 0:
            self._running.discard(held)
            with self._changed:
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._alone is None, left)
            self._running.add(held)

    def _be_alone(self, held: Held) -> None:
        if not self._turn.acquire(timeout=self._patience):
            self._running.add(held)
            return
        self._alone = held
        with self._changed:
            self._changed.wait_for(lambda: not self._running, self._patience)
        self._wait_until_written()

    def _wait_until_written(self) -> None:
        """Wait until no run that has ended would be lost with this one, as if it had been that."""
        until = time.monotonic() + self._patience
        while any(each.has_ended for each in self._holding.all()) and time.monotonic() < until:
            time.sleep(LOOK)
