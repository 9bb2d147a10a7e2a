"""Keep the transaction of a test usable after an error of the user's code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.pq import TransactionStatus


@contextmanager
def savepoints() -> Iterator[None]:
    """Keep this thread's open transactions usable after database errors in the block."""
    around = [each for each in connections.all(initialized_only=True) if each.in_atomic_block]
    marks = [(each, each.savepoint() or "") for each in around]
    try:
        yield
    finally:
        for wrapper, mark in reversed(marks):
            if _is_broken(wrapper):
                wrapper.needs_rollback = False  # otherwise, Django refuses the rollback, too
                wrapper.savepoint_rollback(mark)
            else:
                wrapper.savepoint_commit(mark)


def _is_broken(wrapper: BaseDatabaseWrapper) -> bool:
    own = wrapper.connection
    is_postgres = own is not None and wrapper.vendor == "postgresql"
    return wrapper.needs_rollback or (
        is_postgres and own.info.transaction_status == TransactionStatus.INERROR
    )
