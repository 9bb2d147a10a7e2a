"""Keep the search_path of connections that no worker resets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import connections
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from pgqueue.conf import settings

USABLE = (TransactionStatus.IDLE, TransactionStatus.INTRANS)


@contextmanager
def own_path() -> Iterator[None]:
    """Set the search_path of this thread's connections again after the block. Only with tenants.

    The project's `enter()` may leave the path of the tenant. A connection that the block has opened
    is closed: the caller opens the next one, and the project sets the path of the caller's tenant.
    """
    if settings().tenant is None:
        yield
        return
    before = {
        alias: psycopg.Cursor(own, row_factory=tuple_row)
        .execute("SELECT current_setting('search_path')")
        .fetchone()
        for alias, own in _sessions()
    }
    try:
        yield
    finally:
        for alias, own in _sessions():
            path = before.get(alias)
            if path is None:
                psycopg.Cursor(own).execute("RESET search_path")  # a pool gives it to others
                if not connections[alias].in_atomic_block:
                    connections[alias].close()
            else:
                # Not where it is the same: a path may be set for a transaction alone.
                psycopg.Cursor(own).execute(
                    "SELECT set_config('search_path', %(path)s, false) "
                    "WHERE current_setting('search_path') <> %(path)s",
                    {"path": path[0]},
                )


def _sessions() -> list[tuple[str, psycopg.Connection[Any]]]:
    """Return the open connections to PostgreSQL that take statements, with their aliases.

    In a transaction that is broken the path is undone with it.
    """
    return [
        (each.alias, own)
        for each in connections.all(initialized_only=True)
        if each.vendor == "postgresql"
        and (own := each.connection) is not None
        and own.pgconn.transaction_status in USABLE
    ]
