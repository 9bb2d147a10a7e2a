"""Run a task and settle it in one transaction: what it does there happens exactly once."""

from __future__ import annotations

import logging
from collections.abc import Callable

from django.db import connections, transaction
from django.db.transaction import TransactionManagementError

from pgqueue.engine import lease
from pgqueue.exceptions import LeaseLost
from pgqueue.outcomes import Closed, Outcome, Succeeded
from pgqueue.worker.held import Held
from pgqueue.worker.settler import write

logger = logging.getLogger(__name__)


def run(alias: str, held: Held, attempt: Callable[[], Outcome]) -> Outcome:
    """Run `attempt` and write its outcome, both or neither.

    Raises:
        Exception: the transaction could not begin or commit, so nothing of it was written.
    """
    committed = False

    def note() -> None:
        nonlocal committed
        committed = True

    try:
        with transaction.atomic(using=alias):
            transaction.on_commit(note, using=alias)
            return _run_locked(alias, held, attempt)
    except Exception:
        if not committed:
            raise
        # The task's own on_commit hooks come after the commit: too late to fail it.
        logger.exception("%s #%s: an on_commit hook failed", held.claim.task, held.claim.id)
        return Closed()


def _run_locked(alias: str, held: Held, attempt: Callable[[], Outcome]) -> Outcome:
    connection = connections[alias].connection
    # Its own row first: heartbeat and rescue pass over it for as long as this takes.
    if not lease.hold(connection, held.claim):
        held.lost = True
        return Closed()
    with transaction.atomic(using=alias):
        outcome = attempt()
        if not isinstance(outcome, Succeeded):
            transaction.set_rollback(True, using=alias)
    held.end()
    # Failures, too, are written here: between a rollback and a settle elsewhere, the
    # lease, which no heartbeat could renew, might be taken for lost.
    if not write(connection, [(held, outcome)]):
        raise LeaseLost
    return Closed()


def check_unbroken(alias: str) -> None:
    """Say no to a transaction that will roll back, though the task returned.

    Raises:
        TransactionManagementError: the task swallowed an error of the database, or asked for
            a rollback; recorded as a success, its effects would be lost.
        IntegrityError: it left a foreign key without its row.
    """
    if transaction.get_rollback(using=alias):
        raise TransactionManagementError(
            "The task returned, but its transaction is to be rolled back: an error of the "
            "database was caught outside a savepoint. Put transaction.atomic() inside the try."
        )
    # Django's foreign keys are checked at the commit, after the success was announced.
    connections[alias].check_constraints()
