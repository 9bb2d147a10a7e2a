"""Call foreign code inside transactions of the caller's without putting them at risk.

PostgreSQL refuses everything in a transaction after an error, and answers its COMMIT with a
ROLLBACK that raises nothing. So an error of the database that is caught outside a savepoint loses
the whole transaction in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

import psycopg
from asgiref.sync import async_to_sync
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import TransactionManagementError
from django.dispatch import Signal
from psycopg.pq import TransactionStatus

from pgqueue.database import guard
from pgqueue.database.guard import TransactionLost
from pgqueue.values.escaping import logger_of

logger = logger_of("pgqueue")


class GuardedSignal(Signal):
    """A signal that may be sent inside a transaction: a failing receiver undoes itself only."""

    def send_robust(
        self, sender: Any, *, connection: psycopg.Connection[Any] | None = None, **named: Any
    ) -> list[tuple[Any, Any]]:
        """Call each receiver in a savepoint of its own, where a transaction is open.

        An error is logged, and what that receiver wrote is undone; the transaction goes on.

        Args:
            connection: one of psycopg's that may have a transaction open, too.

        Returns:
            Each receiver, with what it returned, or the exception that it raised.

        Raises:
            TransactionManagementError: a receiver ended an open transaction.
        """
        if not self.receivers:
            return []
        is_inside = bool(_with_transaction()) or _has_transaction(connection)
        sync, coroutines = self._live_receivers(sender)
        return [
            (each, self._call(each, connection, is_inside, sender=sender, **named))
            for each in [*sync, *map(async_to_sync, coroutines)]
        ]

    def _call(
        self,
        receiver: Callable[..., Any],
        connection: psycopg.Connection[Any] | None,
        is_inside: bool,
        **named: Any,
    ) -> Any:
        try:
            with savepoints(connection) if is_inside else nullcontext():
                return guard.call(receiver, signal=self, **named)
        except TransactionLost:
            raise
        except Exception as error:
            logger.exception("A receiver failed, and what it wrote was undone: %r", receiver)
            return error


@contextmanager
def savepoints(connection: psycopg.Connection[Any] | None = None) -> Iterator[None]:
    """Run the block in a savepoint of each transaction that is open in this thread.

    An error that leaves the block undoes what the block wrote there, and nothing else. An error of
    the database that the block itself caught does so, too, and is reported by an exception.

    Args:
        connection: one of psycopg's that may have a transaction open, beside those of Django's.

    Raises:
        TransactionManagementError: the block caught an error of the database.
        TransactionLost: the block ended one of the transactions.
    """
    around = {each: each.connection for each in _with_transaction()}
    try:
        with ExitStack() as stack:
            for each in around:
                stack.enter_context(transaction.atomic(using=each.alias))
            if connection is not None and _has_transaction(connection):
                stack.enter_context(connection.transaction())
            yield
            _check_unbroken(around, connection)
    finally:
        for each, session in around.items():
            if each.needs_rollback or each.connection is not session:
                raise TransactionLost(each.alias)


def _check_unbroken(
    around: Iterable[BaseDatabaseWrapper], connection: psycopg.Connection[Any] | None
) -> None:
    is_broken = (
        connection is not None and connection.info.transaction_status == TransactionStatus.INERROR
    )
    if is_broken or any(each.needs_rollback for each in around):
        raise TransactionManagementError(
            "An error of the database was caught outside a savepoint, or a rollback was asked for. "
            "Put transaction.atomic() inside the try."
        )


def _with_transaction() -> list[BaseDatabaseWrapper]:
    """Return Django's connections that have an intact transaction open."""
    return [
        each
        for each in connections.all(initialized_only=True)
        if each.connection is not None
        and (each.in_atomic_block or not each.autocommit)
        and not each.needs_rollback
    ]


def _has_transaction(connection: psycopg.Connection[Any] | None) -> bool:
    return (
        connection is not None and connection.info.transaction_status == TransactionStatus.INTRANS
    )
