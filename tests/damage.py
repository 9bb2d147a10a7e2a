"""Rows that no cursor can read, as a damaged disk leaves them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import psycopg

from pgqueue.values.readable import Readable
from tests.factories import Connection

RULE = "pgqueue_event_times"


@contextmanager
def damaged_events(connection: Connection) -> Iterator[None]:
    """Let events have times that can't be read, and have no cursor of ours replace such times."""
    row = connection.execute(
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint "
        "WHERE conname = %s AND conrelid = 'pgqueue_event'::regclass",
        [RULE],
    ).fetchone()
    assert row is not None
    connection.execute(f"ALTER TABLE pgqueue_event DROP CONSTRAINT {RULE}")
    try:
        with patch.object(Readable, "_salvage", _give_up):
            yield
    finally:
        connection.execute(
            "UPDATE pgqueue_event SET created_at = '2000-01-01' WHERE created_at = 'infinity'"
        )
        connection.execute(f"ALTER TABLE pgqueue_event ADD CONSTRAINT {RULE} {row[0]}")


def _give_up(cursor: Any) -> None:
    raise psycopg.DataError("damaged")
