"""Transactions on any connection of psycopg, without Django."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

IDLE_IN_TRANSACTION = "30s"


def is_pooled(connection: psycopg.Connection[Any]) -> bool:
    """Return whether a transaction pooler is in between, so that LISTEN would hear nothing."""
    return connection.prepare_threshold is None


@contextmanager
def in_short(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Open a transaction that the server ends soon if this process stops in the middle of it.

    Behind a pooler the time-out is set for the transaction only: another client would inherit a
    session's setting.
    """
    with connection.transaction():
        if is_pooled(connection):
            connection.execute(
                "SELECT set_config('idle_in_transaction_session_timeout', %s, true)",
                [IDLE_IN_TRANSACTION],
            )
        yield


def plan_without(connection: Any, *methods: str) -> None:
    """Keep the planner from these methods until the transaction ends, and from JIT compilation.

    Before PostgreSQL 18 a plan that has no other way is taken as 10^10 more expensive. PostgreSQL
    then compiles the statement, which takes from 50 ms to seconds.

    Args:
        connection: a connection of psycopg, or a cursor of Django.
        methods: of the settings `enable_…`, for example "seqscan".
    """
    names = [*(f"enable_{method}" for method in methods), "jit"]
    connection.execute(
        "SELECT set_config(name, 'off', true) FROM unnest(%s::text[]) AS n (name)", [names]
    )


def answer_within(connection: Any, patience: str) -> None:
    """Have statements fail that take longer, until the transaction ends; none is compiled.

    Args:
        connection: see `plan_without`.
        patience: the longest time of a statement, for example "10s".
    """
    connection.execute(
        "SELECT set_config('statement_timeout', %s, true), set_config('jit', 'off', true)",
        [patience],
    )


def is_strict(connection: psycopg.Connection[Any]) -> bool:
    """Return whether the open transaction is REPEATABLE READ or SERIALIZABLE."""
    row = connection.execute("SELECT current_setting('transaction_isolation')").fetchone()
    return row is not None and row[0] != "read committed"


def wait_at_most(connection: psycopg.Connection[Any], patience: str) -> None:
    """Set the lock_timeout, for example "2s", until the transaction ends."""
    connection.execute("SELECT set_config('lock_timeout', %s, true)", [patience])


@contextmanager
def waiting_at_most(connection: psycopg.Connection[Any], patience: str) -> Iterator[None]:
    """Open a savepoint in which each statement waits for a lock so long at most.

    The rest of the transaction, which may be the user's, keeps its own lock_timeout.

    Raises:
        psycopg.errors.LockNotAvailable: a statement waited for too long. It has changed nothing.
    """
    with connection.transaction():
        row = connection.execute("SELECT current_setting('lock_timeout')").fetchone()
        wait_at_most(connection, patience)
        yield
        wait_at_most(connection, row[0] if row else "0")
