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


def wait_at_most(connection: psycopg.Connection[Any], patience: str) -> None:
    """Set the lock_timeout, for example "2s", until the transaction ends."""
    connection.execute("SELECT set_config('lock_timeout', %s, true)", [patience])
