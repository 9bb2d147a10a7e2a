from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from pgqueue.connections import wait_at_most
from pgqueue.engine.values import Connection, Cursors
from pgqueue.statements import load

SQL = load(__name__)
PATIENCE = "500ms"
"""A tick's message may have to wait for somebody's transaction (a dedupe_key, a max_size), and
whoever declares for an operator's: the worker's other duties wait with it."""
HASTE = "10ms"
"""The same for those that come after one that had to wait so long: they may be a hundred."""


class Declared(NamedTuple):
    """A schedule as code has it. One of `cron` and `every` says when; the arguments are JSON."""

    name: str
    task: str
    cron: str
    every: timedelta | None
    timezone: str
    args: str
    kwargs: str
    missed: str
    overlap: str

    @property
    def definition(self) -> str:
        """What all that says, as a digest."""
        said = json.dumps([str(value) for value in self])
        return hashlib.sha256(said.encode("utf-8", "replace")).hexdigest()


class Scheduled(NamedTuple):
    """A schedule's row, its times in UTC.

    `next_at` is its first tick that was not done; `now` when it was read.

    `definition` says whose code it is; it is empty where an operator has made it.
    """

    name: str
    task: str
    cron: str
    every: timedelta | None
    timezone: str
    args: str
    kwargs: str
    channel: str
    priority: int | None
    missed: str
    overlap: str
    next_at: datetime | None
    ticked_at: datetime | None
    definition: str
    now: datetime

    @classmethod
    def of(cls, row: Iterable[object]) -> Scheduled:
        """Return the schedule of a row that was read.

        Behind a pooler sessions have any time zone. Two times of one zone are compared by what its
        clocks show, which goes wrong in the hour that comes twice.
        """
        return cls._make(
            each.astimezone(UTC) if isinstance(each, datetime) else each for each in row
        )


def declare(connection: Connection, declared: Collection[Declared]) -> list[str]:
    """Write what code has; return the names that somebody else has given to others.

    Their rows go on as they are.

    Raises:
        psycopg.errors.LockNotAvailable: somebody has locked a row for longer than a moment.
    """
    columns: dict[str, Sequence[object]] = {
        f"{field.removesuffix('s')}s": [getattr(each, field) for each in declared]
        for field in (*Declared._fields, "definition")
    }
    with connection.transaction():
        wait_at_most(connection, PATIENCE)
        connection.execute(SQL["declare"], columns)
        connection.execute(SQL["forget"])
        return [name for (name,) in connection.execute(SQL["taken"], {"names": columns["names"]})]


def due(
    connection: Connection, *, names: Collection[str], aside: Collection[str], limit: int
) -> list[Scheduled]:
    """Lock schedules with ticks to be done, until the end of the transaction.

    What others have locked is skipped. One whose `next_at` is None is returned, too: its next
    tick is to be found.

    Args:
        names: of the schedules that this worker has in its code.
        aside: of those to be left alone.
    """
    wait_at_most(connection, PATIENCE)
    asked = {"names": list(names), "aside": list(aside), "limit": limit}
    return [Scheduled.of(row) for row in connection.execute(SQL["due"], asked)]


def hurry(connection: Connection) -> None:
    """Hardly wait for locks any more, until the end of the transaction: one was waited for."""
    wait_at_most(connection, HASTE)


def next_due(
    connection: Connection, *, names: Collection[str], aside: Collection[str]
) -> timedelta | None:
    """Return how long until the next tick of those that `due` would return; None: there is none."""
    asked = {"names": list(names), "aside": list(aside)}
    [seconds] = connection.execute(SQL["next_due"], asked).fetchone() or [None]
    return None if seconds is None else timedelta(seconds=seconds)


def move(
    connection: Connection,
    scheduled: Scheduled,
    *,
    next_at: datetime | None,
    ticked_at: datetime | None = None,
    message_id: int | None = None,
    error: str | None = "",
) -> None:
    """Note that all before `next_at` is done: the last message, or why there is none.

    Where `error` is None, what was noted before holds on.
    """
    connection.execute(
        SQL["move"],
        {
            "name": scheduled.name,
            "next_at": next_at,
            "ticked_at": ticked_at,
            "message_id": message_id,
            "error": error,
        },
    )


def note(connection: Connection, scheduled: Scheduled, error: str) -> bool:
    """Note why its ticks can't be done; say whether that is news."""
    done = connection.execute(SQL["note"], {"name": scheduled.name, "error": error})
    return done.rowcount > 0


def find(connection: Cursors, name: str) -> Scheduled | None:
    """Return the schedule of this name; None: there is none."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["find"], {"name": name})
        row = cursor.fetchone()
    return Scheduled.of(row) if row else None
