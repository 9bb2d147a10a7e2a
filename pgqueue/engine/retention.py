"""Delete history rows whose retention is shorter than the retention of their day.

A day's partition is dropped after the longest retention (`partitions.drop`), unless a flow that has
not ended may need a message of it. This module deletes rows with a shorter retention, and all other
rows of a day that such a flow keeps. It reads each window of time only once. History has no index
by channel and outcome, since every settle would have to write to it, only a BRIN index on the time.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from pgqueue.database.sql_files import load
from pgqueue.engine.culprits import Part, apart
from pgqueue.engine.values import EVERYTHING, Connection, Position

if TYPE_CHECKING:
    from pgqueue.options.retention import Retention

SQL = load(__name__)

BATCH = 2000
REACH = 10_000
"""Rows that a step reads, or slightly more."""


class RetentionWindow(NamedTuple):
    """A length of retention, and the range of ends of messages that it may let purge now."""

    keep: timedelta
    rules: str
    after: datetime
    before: datetime


class RetentionStep(NamedTuple):
    """The number of deleted messages, and whether the work is done for now."""

    removed: int
    is_last: bool


def given(retention: Retention) -> Mapping[str, Any]:
    """Return the statements' parameters for channels that configure no retention."""
    return {"outcomes": list(retention), "keeps": list(retention.values())}


def advance(connection: Connection) -> tuple[timedelta, timedelta]:
    """Move the time by which retention removes, by a day at most.

    After a clock has jumped ahead by forty days, retention would drop forty days of history at
    once. By these steps, operators have forty hours to set the clock right. A caller that
    comes more often than once an hour moves it by less: by a day an hour.

    Returns:
        How far it was behind the clock, and how far it is.
    """
    before, after = connection.execute(SQL["advance"]).fetchone() or (None, None)
    return timedelta(seconds=before or 0), timedelta(seconds=after or 0)


def windows(connection: Connection, retention: Retention) -> list[RetentionWindow]:
    """Return the windows that may have rows to delete, one for each length of retention."""
    return [RetentionWindow(*row) for row in connection.execute(SQL["windows"], given(retention))]


def purge(
    connection: Connection,
    window: RetentionWindow,
    retention: Retention,
    *,
    exported: Position = EVERYTHING,
) -> RetentionStep:
    """Delete the next messages of a window, at most 2 000; store the progress of the window.

    Locked rows are skipped; they are dropped with their day's partition.

    Args:
        exported: keep rows after this position, and all rows that ended later than the first of
            them.
    """
    parameters = {
        **given(retention),
        **window._asdict(),
        **exported._asdict(),
        "reach": REACH,
        "limit": BATCH,
    }
    seen, end = connection.execute(SQL["reach"], parameters).fetchone() or (0, None)
    until = min(end, window.before) if end and seen == REACH else window.before
    first = _first_after(connection, parameters, until, exported)
    until = first or until

    def some(part: Part) -> int:
        given = {**parameters, **part._asdict(), "before": until}
        row = connection.execute(SQL["purge"], given).fetchone()
        return row[0] if row else 0

    removed = sum(apart(connection, "pgqueue_history", some, what="purge"))
    if removed >= BATCH:
        return RetentionStep(removed, is_last=False)
    connection.execute(SQL["note"], {**parameters, "until": until})
    return RetentionStep(removed, is_last=first is not None or until == window.before)


def _first_after(
    connection: Connection, parameters: Mapping[str, Any], until: datetime, exported: Position
) -> datetime | None:
    """Return the end of a window's first row that is not exported; None: all are exported."""
    if exported == EVERYTHING:
        return None
    row = connection.execute(SQL["first_after"], {**parameters, "before": until}).fetchone()
    return row[0] if row else None
