"""Find out which message kills its worker.

When a process dies, each message that it had claimed is a suspect. For a message that has lost a
lease before, the start of its run is stored; the next lost lease is charged only if the run had
started. A message that would be dead after one more lost lease runs alone in its process. If this
process dies, too, the message was the cause. So a message that kills its workers ends as a dead
letter, and no other message does, however many were claimed with it.
"""

from __future__ import annotations

import threading
import time

from pgqueue.database.connections import borrow
from pgqueue.engine import lease
from pgqueue.worker.leases import LeasedMessage, Leases

PATIENCE = 60.0
"""Seconds to wait for the runs beside a suspect, and for a suspect that runs alone. A longer run is
an unlikely cause, and would delay all others."""
LOOK = 0.005
"""Seconds between checks whether the ends of other runs are written."""


class Quarantine:
    """Lets runs begin; a suspected message runs alone.

    Args:
        alias: the queue's database.
        leases: the messages whose leases would be lost with this process.
        max_lost: the number of lost leases after which a message is dead.
    """

    def __init__(
        self, alias: str, leases: Leases, *, max_lost: int, patience: float = PATIENCE
    ) -> None:
        self._alias = alias
        self._leases = leases
        self._max_lost = max_lost
        self._patience = patience
        self._running: set[LeasedMessage] = set()
        self._alone: LeasedMessage | None = None
        self._turn = threading.Lock()
        self._changed = threading.Condition()

    def begin(self, leased: LeasedMessage) -> None:
        """Wait until the message may run. The caller must call `end`, even if this raises.

        The lease may be lost during the wait: then `leased.lost` is set.

        Raises:
            django.db.Error: the statement that stores the start of the run has failed.
        """
        lost = leased.claim.lost
        if lost and lost + 1 >= self._max_lost:
            self._be_alone(leased)
        else:
            self._join(leased)
        if lost:
            with borrow(self._alias) as connection:
                leased.lost = not lease.begin(connection, [leased.claim])

    def end(self, leased: LeasedMessage) -> None:
        """Note that its run is over. Any thread may call this."""
        self._running.discard(leased)
        if self._alone is None:  # the usual case
            return
        with self._changed:
            if self._alone is leased:
                self._alone = None
                self._turn.release()
            self._changed.notify_all()

    def _join(self, leased: LeasedMessage) -> None:
        # First add the run, then read `_alone`. `_be_alone` does it in the other order. So neither
        # misses the other, and runs that need no quarantine take no lock.
        self._running.add(leased)
        until = time.monotonic() + self._patience
        while self._alone is not None and (left := until - time.monotonic()) > 0:
            self._running.discard(leased)
            with self._changed:
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._alone is None, left)
            self._running.add(leased)

    def _be_alone(self, leased: LeasedMessage) -> None:
        if not self._turn.acquire(timeout=self._patience):
            self._running.add(leased)
            return
        self._alone = leased
        with self._changed:
            self._changed.wait_for(lambda: not self._running, self._patience)
        self._wait_until_written()

    def _wait_until_written(self) -> None:
        """Wait until the ends of all other runs are written: they must not be suspected, too."""
        until = time.monotonic() + self._patience
        while any(each.has_ended for each in self._leases.all()) and time.monotonic() < until:
            time.sleep(LOOK)
