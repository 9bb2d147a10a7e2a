"""Run a task and settle it in one transaction: its changes there happen exactly once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from django.db import connections, transaction
from django.db.transaction import TransactionManagementError
from psycopg.errors import LockNotAvailable

from pgqueue.calls.outcomes import Closed, Deferred, Ending
from pgqueue.calls.stand_ins import stand_in
from pgqueue.conf import settings
from pgqueue.database.guard import TransactionLost
from pgqueue.database.transactions import is_strict, wait_at_most, waiting_at_most
from pgqueue.engine import lease, settle
from pgqueue.engine.culprits import in_words
from pgqueue.engine.errors import RERUNS, is_conflict, pause
from pgqueue.engine.settle import Pause
from pgqueue.exceptions import LeaseLost
from pgqueue.tasks import redacting, tenants
from pgqueue.tasks.options import Atomic
from pgqueue.values.escaping import logger_of
from pgqueue.worker.failures import AWAY, NotBegun, ending_after
from pgqueue.worker.leases import Run
from pgqueue.worker.settler import (
    FAILED,
    PATIENCE,
    Ended,
    have_failed,
    may_wait,
    pause_of,
    write,
)

logger = logger_of(__name__)

LONGER = "2s"
"""How long a run that is over waits for a lock: to pause after its commit, or to grow its flow. One
thread concludes all async runs, and waits with it."""

GONE = (NotBegun, TransactionLost)
"""Errors after which nothing can be written in the transaction."""

ISOLATE = {
    "read committed": "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "repeatable read": "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "serializable": "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
}


class FailedUnwritten(Exception):
    """The failure of a run could not be written in the run's own transaction.

    Attributes:
        ending: the failure.
    """

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending)
        self.ending = ending


@dataclass(frozen=True)
class AtomicRun:
    """A run whose ending is written in the run's own transaction.

    Args:
        alias: the queue's database.
        isolation: the isolation level; True: the connection's level.
        run: the run that has begun.
        call: calls the task. If it returns, the task's changes stay; if it raises, they are undone.
        is_inside: the transaction is a savepoint in the caller's transaction, whose isolation
            level applies.
    """

    alias: str
    isolation: Atomic
    run: Run
    call: Callable[[], Ending]
    is_inside: bool = False
    has_run: bool = False
    """Whether the function has returned already, so that only the ending must be written."""
    _later: list[Callable[[], object]] = field(default_factory=list, init=False)

    def ending(self) -> Ending:
        """Run the task and write its ending in one transaction; run it again after a conflict.

        Returns:
            The ending, which is written; Closed if the worker no longer held the lease.

        Raises:
            FailedUnwritten: the run has failed, and other transactions keep this from being written
                here. The settler must write it.
            NotBegun: the transaction could not begin, or another one has the message locked.
            Exception: nothing was written: the commit failed, or each run ended in a conflict.
        """
        reruns = RERUNS
        while True:
            try:
                # Outside of the transaction, whose on_commit hooks are part of the run.
                with tenants.around(self.run.context.claim):
                    if self.is_inside:
                        with transaction.atomic(using=self.alias):
                            return self._run_locked()
                    return self._run_once()
            except FailedUnwritten:
                self._keep_lease()
                raise
            except Exception as error:
                if not is_conflict(error) or not self._keep_lease() or not reruns:
                    raise
            reruns -= 1
            time.sleep(pause())

    def _run_once(self) -> Ending:
        committed = False
        leased = self.run.leased
        self._later.clear()  # an earlier call was rolled back

        def note() -> None:
            nonlocal committed
            committed = True
            for do in self._later:
                do()

        try:
            with transaction.atomic(using=self.alias):
                transaction.on_commit(note, using=self.alias)
                if isinstance(self.isolation, str):
                    connections[self.alias].connection.execute(ISOLATE[self.isolation])
                ending = self._run_locked()
            if not committed:
                # A timeout was raised while Django left an inner block: Django rolled back instead.
                raise TransactionManagementError("The transaction was left, and not committed.")
        except BaseException as error:
            if isinstance(error, AWAY) and not committed and not leased.lock:
                raise NotBegun from error
            if not committed:
                raise
            # The task's own on_commit hooks run after the commit: too late to fail the run.
            logger.error(
                "%s #%s: an on_commit hook failed",
                leased.claim.task,
                leased.claim.id,
                exc_info=stand_in(error, redacting.hiding(leased.claim)),
            )
        finally:
            leased.lock = None
        return ending

    def _run_locked(self) -> Ending:
        connection, leased = connections[self.alias].connection, self.run.leased
        # Lock the message's row first: heartbeat and rescue skip it during the run.
        patience = LONGER if self.has_run else lease.LOCKING
        try:
            leased.lock = lease.lock(connection, leased.claim, patience=patience)
        except LockNotAvailable as error:
            # It keeps no thread waiting. The settler writes the end once the message is free.
            if self.has_run:
                ended = ending_after(self.run.task, self.run.context, error)
                raise FailedUnwritten(ended) from error
            raise NotBegun from error
        if not leased.lock:
            leased.lost = True
            return Closed()
        try:
            with transaction.atomic(using=self.alias):
                ending = self.call()
                check_unbroken(self.alias)
        except BaseException as error:
            if is_conflict(error) or isinstance(error, GONE) or connection.closed:
                raise
            ending = ending_after(self.run.task, self.run.context, error)
        leased.end()
        # Failures, too, are written here: no heartbeat could renew the lease during the run. If the
        # settler wrote them after a rollback, the lease might end before that.
        try:
            if not self._written([(leased, ending)]):
                raise LeaseLost
        except Exception as error:
            if isinstance(ending, FAILED) and is_kept_from(error):
                raise FailedUnwritten(ending) from error  # the function has had its say
            raise
        return ending

    def _written(self, kind: Sequence[Ended]) -> set[int]:
        """Write endings of one kind; return the ids whose leases were still held.

        A run keeps its thread until then. So it does not wait for a transaction of the user's that
        has locked a circuit breaker, or the rows of a pause. These are paused after the commit.

        Raises:
            LockNotAvailable: another transaction has locked the circuit breaker of a failure.
        """
        connection = connections[self.alias].connection
        if not may_wait(kind):
            return write(connection, kind)
        if not have_failed(kind) and is_strict(connection):
            # Above READ COMMITTED the rows of pauses conflict with every claim beside this run.
            return write(connection, self._pausing_later(kind))
        try:
            with waiting_at_most(connection, PATIENCE):
                return write(connection, kind)
        except LockNotAvailable:
            if have_failed(kind):
                raise
            return write(connection, self._pausing_later(kind))

    def _pausing_later(self, deferred: Sequence[Ended]) -> list[Ended]:
        """Return the deferrals without their pauses; have these be stored after the commit."""
        connection = connections[self.alias].connection
        pauses: dict[Pause, timedelta] = {}
        left: list[Ended] = []
        for leased, ending in deferred:
            if isinstance(ending, Deferred) and (pause := pause_of(leased, ending)) is not None:
                pauses[pause] = max(ending.delay, pauses.get(pause, ending.delay))
                ending = replace(ending, pauses="")
            left.append((leased, ending))

        def store() -> None:
            with connection.transaction():
                connection.execute(ISOLATE["read committed"])
                wait_at_most(connection, LONGER)
                settle.pause(connection, pauses)

        self._after_commit(store, what="the pause by RateLimited")
        return left

    def _after_commit(self, do: Callable[[], object], *, what: str) -> None:
        """Do something after the commit, before the task's own hooks: one of them may fail.

        If it fails, the log says so: the run's ending is written already.
        """
        claim = self.run.leased.claim

        def attempt() -> None:
            try:
                do()
            except Exception as error:
                said = claim.task, claim.id, what, in_words(error)
                logger.warning("%s #%s: %s failed after the commit: %s", *said)

        if self.is_inside:
            transaction.on_commit(attempt, using=self.alias)
        else:
            self._later.append(attempt)

    def _keep_lease(self) -> bool:
        """Renew the lease, which no heartbeat could while the row was locked; return if held."""
        connection = connections[self.alias]
        connection.ensure_connection()
        claims = [self.run.leased.claim]
        return bool(lease.extend(connection.connection, claims, lease=settings().lease))


def is_kept_from(error: Exception) -> bool:
    """Return whether another transaction keeps a failure from being written.

    It has written another failure of the same circuit breaker, or has the breaker locked.
    """
    return is_conflict(error) or isinstance(error, LockNotAvailable)


def check_unbroken(alias: str) -> None:
    """Check that the transaction of a task that returned will commit.

    Raises:
        TransactionManagementError: the task caught an error of the database, or asked for a
            rollback. Recorded as a success, its changes would be lost.
        IntegrityError: the task left a foreign key without its row.
    """
    if transaction.get_rollback(using=alias):
        raise TransactionManagementError(
            "The task returned, but its transaction must be rolled back: an error of the "
            "database was caught outside a savepoint. Put transaction.atomic() inside the try."
        )
    # PostgreSQL checks Django's foreign keys at the commit: then the success is already written.
    connections[alias].check_constraints()
