from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from pgqueue.database.sql_files import load
from pgqueue.database.transactions import wait_at_most
from pgqueue.engine.values import Connection, Cursors

SQL = load(__name__)
PATIENCE = "500ms"
"""The lock_timeout: a tick's message may wait for another transaction (a dedupe_key, a max_size),
and a declaration for an operator's. The worker's other duties wait meanwhile."""
HASTE = "10ms"
"""The lock_timeout of the ticks after one that reached `PATIENCE`: there may be a hundred."""


class DeclaredSchedule(NamedTuple):
    """A schedule that code declares. Either `cron` or `every` is set; the arguments are JSON."""

    name: str
    task: str
    cron: str
    every: timedelta | None
    timezone: str
    args: str
    kwargs: str
    missed: str
    overlap: str
    each_tenant: bool = False
    """Part of the digest alone: no column has it, and the code that enqueues looks it up."""

    @property
    def definition(self) -> str:
        """A digest of all fields."""
        fields = self if self.each_tenant else self[:-1]  # without tenants, as it was before
        said = json.dumps([str(value) for value in fields])
        return hashlib.sha256(said.encode("utf-8", "replace")).hexdigest()


class Scheduled(NamedTuple):
    """A schedule's row, with times in UTC.

    Attributes:
        next_at: the time of its first tick that is not done yet.
        now: the time at which the row was read.
        definition: the digest of the code that declares it; empty: an operator made it.
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
        """Return the schedule of a row, with its times converted to UTC.

        Behind a pooler a session may have any time zone. Python compares two times of one zone by
        their local clock times, which is wrong in the hour that comes twice at the end of summer
        time.
        """
        return cls._make(
            each.astimezone(UTC) if isinstance(each, datetime) else each for each in row
        )


def declare(connection: Connection, declared: Collection[DeclaredSchedule]) -> list[str]:
    """Store the schedules that code declares.

    Returns:
        The names of schedules that operators have made: their rows stay unchanged.

    Raises:
        psycopg.errors.LockNotAvailable: another session has locked a row for too long.
    """
    columns: dict[str, Sequence[object]] = {
        f"{field.removesuffix('s')}s": [getattr(each, field) for each in declared]
        for field in (*DeclaredSchedule._fields, "definition")
    }
    with connection.transaction():
        wait_at_most(connection, PATIENCE)
        connection.execute(SQL["declare"], columns)
        connection.execute(SQL["forget"])
        return [name for (name,) in connection.execute(SQL["taken"], {"names": columns["names"]})]


def due(
    connection: Connection, *, names: Collection[str], aside: Collection[str], limit: int
) -> list[Scheduled]:
    """Lock schedules with ticks that are due, until the transaction ends.

    Rows that other sessions have locked are skipped. A schedule whose `next_at` is None is
    returned, too: its next tick must still be computed.

    Args:
        names: the schedules that this worker's code declares.
        aside: the schedules to leave alone.
    """
    wait_at_most(connection, PATIENCE)
    asked = {"names": list(names), "aside": list(aside), "limit": limit}
    return [Scheduled.of(row) for row in connection.execute(SQL["due"], asked)]


def hurry(connection: Connection) -> None:
    """Wait for locks only briefly from now on, until the transaction ends."""
    wait_at_most(connection, HASTE)


def next_due(
    connection: Connection, *, names: Collection[str], aside: Collection[str]
) -> timedelta | None:
    """Return the time until `due` returns a schedule; None: there is none."""
    asked = {"names": list(names), "aside": list(aside)}
    [seconds] = connection.execute(SQL["next_due"], asked).fetchone() or [None]
    return None if seconds is None else timedelta(seconds=seconds)


def move(
    connection: Connection,
    scheduled: Scheduled,
    *,
    next_at: datetime | None,
    ticked_at: datetime | None = None,
    message_ids: Sequence[int] = (),
    error: str | None = "",
) -> None:
    """Store that all ticks before `next_at` are done.

    Args:
        message_ids: the ids of the ticks' messages, the newest first.
        error: the reason why there is no message; None: unchanged.
    """
    connection.execute(
        SQL["move"],
        {
            "name": scheduled.name,
            "next_at": next_at,
            "ticked_at": ticked_at,
            "message_ids": list(message_ids),
            "error": error,
        },
    )


def note(connection: Connection, scheduled: Scheduled, error: str) -> bool:
    """Store the error that stops the schedule's ticks; return whether it is a new one."""
    done = connection.execute(SQL["note"], {"name": scheduled.name, "error": error})
    return done.rowcount > 0


def find_schedule(connection: Cursors, name: str) -> Scheduled | None:
    """Return the schedule with this name; None: there is none."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["find"], {"name": name})
        row = cursor.fetchone()
    return Scheduled.of(row) if row else None
