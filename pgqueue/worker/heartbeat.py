"""Renew this worker's leases, and detect lost leases and requests to cancel."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from math import inf
from time import monotonic
from uuid import UUID

import psycopg

from pgqueue.claiming.registration import Registration
from pgqueue.claiming.run_counts import Tally
from pgqueue.database.connections import Session
from pgqueue.engine import lease
from pgqueue.threads.service import Service
from pgqueue.worker.leases import LeasedMessage, Leases
from pgqueue.worker.pipeline import Pipeline
from pgqueue.worker.wakeups import HeartbeatWakeup

LOOK_EVERY = 0.25
"""Seconds between two looks for requests to cancel, at least."""


class Heartbeat(Service):
    """Beats three times per lease. It is the last service to stop, after all tasks.

    Between two beats it looks which runs it must cancel, if a request to cancel was notified.

    Args:
        tally: the counts of runs, which it stores.
        pipeline: its worker's row says for how long none of its threads has been free.
        wakeup: requests a look; None: nobody does.
    """

    def __init__(
        self,
        session: Session,
        leases: Leases,
        registration: Registration,
        tally: Tally,
        pipeline: Pipeline | None = None,
        *,
        lease: timedelta,
        every: timedelta,
        wakeup: HeartbeatWakeup | None = None,
    ) -> None:
        super().__init__()
        self._wakeup = wakeup or HeartbeatWakeup()
        self._nudge = self._wakeup.nudge
        self._session = session
        self._leases = leases
        self._registration = registration
        self._tally = tally
        self._pipeline = pipeline
        self._lease = lease
        self._every = every
        # After an outage, other workers wait for one lease before they rescue messages.
        self.longest_backoff = min(every, self.longest_backoff)
        # A silent connection must be cut and replaced before the leases end. The watchdog takes
        # 10 s for that, which is too long for leases of less than 20 s.
        self.longest_step = min(max(lease.total_seconds() / 6, 1), self.longest_step)
        self._former: tuple[UUID, UUID] | None = None
        self._given_back: tuple[UUID, UUID] | None = None
        self._beat_at: float | None = None
        self._due_at = -inf
        self._looked_at = -inf

    @property
    def silence(self) -> float | None:
        """Seconds since the last beat that the database accepted; None: there was none so far."""
        return None if self._beat_at is None else monotonic() - self._beat_at

    def tick(self) -> timedelta:
        """Beat once; or only look which runs to cancel, if a look was requested."""
        self._connect()
        if self._wakeup.take_request() and monotonic() < self._due_at:
            self._look()
        else:
            self._beat()
            nap = self._every * random.uniform(0.9, 1)  # noqa: S311
            self._due_at = monotonic() + nap.total_seconds()
        return timedelta(seconds=max(0.0, self._due_at - monotonic()))

    def _beat(self) -> None:
        # Leases first, which waits for no lock: another session may have locked the worker's row.
        is_renewed = self._renew()
        self._give_back()
        busy_for = self._pipeline.busy_for() if self._pipeline else 0.0
        if self._registration.beat(self._session.connection, busy_for=busy_for) or is_renewed:
            self._beat_at = monotonic()
        self._tally.store(self._session.connection)

    def _connect(self) -> None:
        """Open the connection. It has a time limit of its own: it may try several addresses."""
        if not self._session.is_open:
            self.note_progress(within=Service.longest_step)
            self._session.open()
            self.note_progress()

    def _renew(self) -> bool:
        """Renew all leases; return whether there were any."""
        leased = self._held()
        if not leased:
            return False
        _note(
            leased,
            lease.extend(
                self._session.connection, [each.claim for each in leased], lease=self._lease
            ),
        )
        return True

    def _look(self) -> None:
        """Look which runs to cancel, and renew nothing.

        Requests that come soon after a look share the next one: a program may cancel thousands of
        messages one by one.
        """
        self._stopping.wait(max(0.0, self._looked_at + LOOK_EVERY - monotonic()))
        if leased := self._held():
            claims = [each.claim for each in leased]
            _note(leased, lease.valid(self._session.connection, claims))
        self._looked_at = monotonic()

    def _held(self) -> list[LeasedMessage]:
        # A run beyond its time that nothing can interrupt loses its lease; the fence stops it.
        return [
            each
            for each in self._leases.all()
            if (not each.overdue or each.is_bounded) and not each.lost
        ]

    def _give_back(self) -> None:
        """Give back messages that were claimed on a connection that broke before it answered.

        This is done at the second beat after the reconnect: the server may still execute the claim
        before that.
        """
        former, before = self._registration.former, self._former
        self._former = former
        if former is None or former != before or former == self._given_back:
            return
        known = [each.claim.id for each in self._leases.all()]
        while len(lease.give_back(self._session.connection, *former, known=known)) == lease.BATCH:
            pass
        self._given_back = former

    def finish(self) -> None:
        """Store the counts and delete the worker's row. If that fails, a duty deletes it later."""
        with suppress(psycopg.Error):
            self._tally.close(self._session.connection)
        with suppress(psycopg.Error):
            self._registration.retire(self._session.connection)
        self._session.close()


def _note(leased: Iterable[LeasedMessage], valid: Mapping[int, bool]) -> None:
    """Note which leases are lost, and cancel the runs for which that was requested.

    Args:
        valid: the ids of the valid leases, each with whether to cancel it.
    """
    for each in leased:
        each.lost = each.claim.id not in valid
        if valid.get(each.claim.id):
            each.cancel()
