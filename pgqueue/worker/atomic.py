"""Run a task and settle it in one transaction: its changes there happen exactly once."""

from __future__ import annotations

import time
from collections.abc import Callable

from django.db import connections, transaction
from django.db.transaction import TransactionManagementError

from pgqueue.calls.outcomes import Closed, Ending
from pgqueue.calls.stand_ins import stand_in
from pgqueue.conf import settings
from pgqueue.database.guard import TransactionLost
from pgqueue.engine import lease
from pgqueue.engine.errors import RERUNS, is_conflict, pause
from pgqueue.exceptions import LeaseLost
from pgqueue.tasks import redacting
from pgqueue.tasks.options import Atomic
from pgqueue.values.escaping import logger_of
from pgqueue.worker.failures import AWAY, NotBegun
from pgqueue.worker.leases import LeasedMessage
from pgqueue.worker.settler import write

logger = logger_of(__name__)

GONE = (NotBegun, TransactionLost)
"""Errors after which nothing can be written in the transaction."""

ISOLATE = {
    "read committed": "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "repeatable read": "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "serializable": "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
}


def run(
    alias: str,
    isolation: Atomic,
    leased: LeasedMessage,
    call: Callable[[], Ending],
    ending_after: Callable[[BaseException], Ending],
    *,
    is_inside: bool = False,
) -> Ending:
    """Run a task and write its ending in one transaction; run it again after a conflict.

    Args:
        isolation: the isolation level; True: the connection's level.
        call: runs the task. If it returns, the task's changes stay; if it raises, they are undone.
        ending_after: returns the ending for an error of the run.
        is_inside: the transaction is a savepoint in the caller's transaction, whose isolation
            level applies.

    Returns:
        The ending, which is written; Closed if the worker no longer held the lease.

    Raises:
        NotBegun: the transaction could not begin.
        Exception: nothing was written: the commit failed, or each run ended in a conflict.
    """
    reruns = RERUNS
    while True:
        try:
            if is_inside:
                with transaction.atomic(using=alias):
                    return _run_locked(alias, leased, call, ending_after)
            return _run_once(alias, isolation, leased, call, ending_after)
        except Exception as error:
            if not is_conflict(error) or not _keep(alias, leased) or not reruns:
                raise
        reruns -= 1
        time.sleep(pause())


def _run_once(
    alias: str,
    isolation: Atomic,
    leased: LeasedMessage,
    call: Callable[[], Ending],
    ending_after: Callable[[BaseException], Ending],
) -> Ending:
    committed = False

    def note() -> None:
        nonlocal committed
        committed = True

    try:
        with transaction.atomic(using=alias):
            transaction.on_commit(note, using=alias)
            if isinstance(isolation, str):
                connections[alias].connection.execute(ISOLATE[isolation])
            ending = _run_locked(alias, leased, call, ending_after)
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


def _run_locked(
    alias: str,
    leased: LeasedMessage,
    call: Callable[[], Ending],
    ending_after: Callable[[BaseException], Ending],
) -> Ending:
    connection = connections[alias].connection
    # Lock the message's row first: heartbeat and rescue skip it during the run.
    leased.lock = lease.lock(connection, leased.claim)
    if not leased.lock:
        leased.lost = True
        return Closed()
    try:
        with transaction.atomic(using=alias):
            ending = call()
            _check_unbroken(alias)
    except BaseException as error:
        if is_conflict(error) or isinstance(error, GONE) or connection.closed:
            raise
        ending = ending_after(error)
    leased.end()
    # Failures, too, are written here: no heartbeat could renew the lease during the run. If the
    # settler wrote them after a rollback, the lease might end before that.
    if not write(connection, [(leased, ending)]):
        raise LeaseLost
    return ending


def _keep(alias: str, leased: LeasedMessage) -> bool:
    """Renew the lease, which no heartbeat could while the row was locked; return whether held."""
    connection = connections[alias]
    connection.ensure_connection()
    return bool(lease.extend(connection.connection, [leased.claim], lease=settings().lease))


def _check_unbroken(alias: str) -> None:
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
