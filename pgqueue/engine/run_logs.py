"""The log lines of runs, one row for each attempt of a message."""

from __future__ import annotations

from collections.abc import Sequence
from random import randrange
from typing import NamedTuple

from pgqueue.database.sql_files import load as load_statements
from pgqueue.engine.values import Connection, Cursors

SQL = load_statements(__name__)

RUNS = 100
"""The runs of a message whose lines are kept: the last ones. A durable message may have
thousands."""
STRETCH = 10_000
"""The rows that a step of `forget` reads."""


class StoredLog(NamedTuple):
    """The lines of one run.

    Attributes:
        lines: JSON text: a list of lines, or an envelope if they are encrypted.
    """

    attempt: int
    lines: str


class RunLogRow(NamedTuple):
    """The lines of one run as they are stored. See `StoredLog`."""

    id: int
    attempt: int
    lines: str


def store(connection: Connection, rows: Sequence[RunLogRow]) -> None:
    """Store the lines of runs, in place of the lines that were stored of the same runs.

    The lines of a run are left out if its message has begun a later attempt, or is gone.

    Args:
        rows: at most one for each attempt of a message.
    """
    connection.execute(
        SQL["store"],
        {
            "ids": [each.id for each in rows],
            "attempts": [each.attempt for each in rows],
            "lines": [each.lines for each in rows],
            "runs": RUNS,
        },
    )


def load(connection: Cursors, id: int) -> list[StoredLog]:
    """Return the lines of the runs of a message, in the order of its attempts."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["load"], {"id": id})
        return [StoredLog(*row) for row in cursor.fetchall()]


def somewhere(connection: Connection) -> int:
    """Return a place for the beginning of a walk of `forget`, at random."""
    first, last = connection.execute(SQL["ends"]).fetchone() or (None, None)
    return 0 if first is None else randrange(first - 1, last)  # noqa: S311


def forget(connection: Connection, *, after: int) -> tuple[int, int | None]:
    """Delete the lines of messages that are gone, in one stretch of a walk along their ids.

    Args:
        after: the end of the last stretch; 0 at the beginning.

    Returns:
        The number of deleted rows, and the end of this stretch; None: the walk is over.
    """
    given = {"after": after, "limit": STRETCH}
    upto, seen = connection.execute(SQL["stretch"], given).fetchone() or (None, 0)
    if upto is None:
        return 0, None
    gone = connection.execute(SQL["forget"], {**given, "upto": upto}).rowcount
    return gone, upto if seen == STRETCH else None
