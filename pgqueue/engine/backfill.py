"""Take the staged rows of a backfill in order, and record its progress."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from pgqueue.database.sql_files import load
from pgqueue.engine.values import Connection

SQL = load(__name__)


class BackfillProgress(NamedTuple):
    """A backfill, and how many of its rows are done."""

    task: str
    source: str
    done: int
    total: int
    ended_at: datetime | None


def record(
    connection: Connection,
    name: str,
    *,
    task: str,
    source: str,
    attempts: Sequence[int],
    total: int,
) -> bool:
    """Record a new backfill of staged rows; return False if there is one of this name.

    Args:
        source: a text that names the source of the rows.
        attempts: the ids of the attempts that staged the rows, in the order of the rows.
        total: the number of rows.
    """
    given = {
        "name": name,
        "task": task,
        "source": source,
        "attempts": list(attempts),
        "total": total,
    }
    return connection.execute(SQL["record"], given).fetchone() is not None


def find_progress(connection: Connection, name: str) -> BackfillProgress | None:
    """Return the backfill of this name."""
    row = connection.execute(SQL["find"], {"name": name}).fetchone()
    return BackfillProgress(*row) if row else None


def take(connection: Connection, name: str, *, limit: int) -> list[str] | None:
    """Return the payloads of the next rows, at most `limit`; the commit makes them count as done.

    Another session that takes rows of the same backfill waits for this commit.

    Args:
        connection: in a transaction.

    Returns:
        None: all rows are done, and the backfill has ended.
    """
    row = connection.execute(SQL["lock"], {"name": name}).fetchone()
    if row is None:
        return None
    attempt, number = row
    if attempt is None:
        connection.execute(SQL["end"], {"name": name})
        return None
    given = {"name": name, "attempt": attempt, "number": number, "limit": limit}
    rows = connection.execute(SQL["rows"], given).fetchall()
    following = rows[-1][0] + 1 if rows else 0
    connection.execute(SQL["go_on"], {**given, "count": len(rows), "number": following})
    if len(rows) < limit:
        connection.execute(SQL["remove"], given)
    return [payload for _, payload in rows]
