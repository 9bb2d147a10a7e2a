from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from time import monotonic
from typing import Protocol

import psycopg
from psycopg.pq import TransactionStatus

from pgqueue import signals
from pgqueue.duties.schedule import DECLARE_EVERY
from pgqueue.engine import dispatch as engine
from pgqueue.engine import predicates, sequence
from pgqueue.engine.culprits import by_halves
from pgqueue.engine.dispatch import DeclaredSubscription
from pgqueue.engine.values import Connection
from pgqueue.exceptions import PGQueueError

IDLE = TransactionStatus.IDLE
LATEST = timedelta(seconds=1)


class LogWaiter(Protocol):
    """Waits for the log to grow: `events.growth.GrowthWaiter`."""

    def nap(self) -> float:
        """Ask to be woken."""

    def found(self) -> None:
        """Note that there were events."""

    def close(self) -> None:
        """Wait no more."""


class Subscribing(Protocol):
    """The functions of a higher room that the duty needs: the module `events.subscribing`."""

    def declared(self, database: str) -> list[DeclaredSubscription]:
        """Return the subscriptions that the project has in its code."""

    def start_of(self, name: str, database: str) -> int:
        """Return the position after which a new one begins."""

    def waiter(self, database: str, wake: Callable[[], None]) -> LogWaiter:
        """Return an object that calls `wake` when the log may have grown."""


class Dispatch:
    """Make messages of events, for subscriptions.

    Each worker declares what its own code has, whichever of them dispatches.
    """

    name = "dispatch"

    def __init__(self, *, database: str, subscribing: Subscribing) -> None:
        self._database = database
        self._subscribing = subscribing
        self._declared_at = float("-inf")
        self._taken: set[str] = set()
        self._checked: set[str] = set()
        self._waiter: LogWaiter | None = None
        self._wake: Callable[[], None] | None = None
        self._is_wanted = False
        self.did = {"events": 0, "messages": 0}

    def hear(self, wake: Callable[[], None]) -> None:
        """Have `wake` called when events may wait to be dispatched."""
        self._wake = wake

    def may_run(self, answered_for: timedelta) -> bool:
        """Any process may."""
        return True

    def look(self, connection: Connection) -> bool:
        """Declare, now and then, what the code has; say whether events wait."""
        if monotonic() - self._declared_at >= DECLARE_EVERY:
            self._declare(connection)
        has_work = engine.has_work(connection)
        self._is_wanted = has_work is not None
        if self._is_wanted:
            sequence.advance(connection)
            has_work = has_work or engine.has_work(connection)
        if has_work is False:
            self._ask()
        return bool(has_work)

    def run(self, connection: Connection) -> timedelta:
        """Match the next events with the subscriptions."""
        if monotonic() - self._declared_at >= DECLARE_EVERY:
            self._declare(connection)
        step = engine.step(connection)
        self.did = {"events": step.events, "messages": step.messages}
        if self._waiter and step.events:
            self._waiter.found()
        if not step.is_last:
            return timedelta()
        if self._is_wanted:
            self._ask()
        return LATEST

    def _ask(self) -> None:
        """Have those who publish wake this worker."""
        if self._wake:
            self._waiter = self._waiter or self._subscribing.waiter(self._database, self._wake)
            self._waiter.nap()

    def close(self) -> None:
        """Hear no more."""
        waiter, self._waiter = self._waiter, None
        if waiter:
            waiter.close()

    def _is_right(self, connection: Connection, declared: DeclaredSubscription) -> bool:
        """Check a predicate once, and log the reason if it is invalid."""
        if declared.predicate and declared.predicate not in self._checked:
            try:
                predicates.check(connection, declared.predicate)
            except PGQueueError as error:
                said = f"subscription {declared.name}"
                signals.send(signals.service_failed, type(self), service=said, error=error)
                return False
            self._checked.add(declared.predicate)
        return True

    def _declare(self, connection: Connection) -> None:
        self._declared_at = monotonic()
        try:
            declared = self._subscribing.declared(self._database)
        except PGQueueError as error:
            # The stored subscriptions go on.
            self._failed(error)
            return
        declared = [each for each in declared if self._is_right(connection, each)]
        known = engine.known(connection, [each.name for each in declared])
        if len(known) < len(declared) and connection.info.transaction_status == IDLE:
            # Events that were published before are not for a subscription that begins now.
            sequence.catch_up(connection)
        ready = [each if each.name in known else self._begun(each) for each in declared]
        with suppress(psycopg.errors.LockNotAvailable):  # the next time, then
            self._store(connection, [each for each in ready if each])

    def _store(self, connection: Connection, declared: Sequence[DeclaredSubscription]) -> None:
        """Store the subscriptions, and tell of names that rows of operators have."""
        stored = by_halves(
            lambda some: engine.declare(connection, some),
            declared,
            lambda each, error: self._failed(error, f"subscription {each.name}"),
        )
        taken = {name for names in stored for name in names}
        for name in taken - self._taken:
            signals.send(signals.subscription_taken, type(self), name=name)
        self._taken = taken

    def _begun(self, declared: DeclaredSubscription) -> DeclaredSubscription | None:
        """Return a new one with the position after which it begins; None: the log has none such."""
        try:
            start = self._subscribing.start_of(declared.name, self._database)
        except PGQueueError as error:
            self._failed(error)
            return None
        return declared._replace(start=start)

    def _failed(self, error: Exception, service: str = "subscriptions") -> None:
        signals.send(signals.service_failed, type(self), service=service, error=error)
