"""The record of each export in the database: its lock, its progress, and the rows held back.

Retention waits for this progress. A target is a folder or a URL; `engine.exports` compares all
targets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from pgqueue.arrow.errors import ExportConflict, InvalidOption, UnknownTarget
from pgqueue.arrow.urls import connect
from pgqueue.database.sql_files import load
from pgqueue.engine import identity
from pgqueue.engine.exports import NOTHING
from pgqueue.engine.values import Position
from pgqueue.values.error_words import hint
from pgqueue.values.names import SCHEME, as_folder

SQL = load(__name__)
HELD = "%s ended messages are left for the next export; they are held back by %s"
UNKNOWN = "an open transaction that this role may not see: GRANT pg_read_all_stats"


class Progress(NamedTuple):
    """The number of exported rows of history or events, and the number that were waiting."""

    done: int
    waiting: int


class Record(NamedTuple):
    """The last batches of a target, and their last row of history and last event."""

    batch: int
    history: Position
    event_batch: int
    event_position: int


TRACES = {
    "parquet": ("_checkpoint",),
    "delta": ("history/_delta_log", "events/_delta_log"),
    "iceberg": ("pgqueue/history/metadata", "pgqueue/events/metadata"),
    "ducklake": ("main/history", "main/events"),
}
"""The formats of exports, and what a folder with an export has."""


def check_format(to: str, own: str) -> None:
    """Check that a folder has no export of another format: both would have one progress.

    A folder that has both already is left alone, and so are URLs.

    Args:
        own: the format; one that is not of `TRACES` is refused elsewhere.

    Raises:
        InvalidOption: the folder has an export of another format.
    """
    if SCHEME.match(to) or own not in TRACES:
        return
    found = [
        name for name, traces in TRACES.items() if any(Path(to, each).exists() for each in traces)
    ]
    if found and own not in found:
        raise InvalidOption(
            f"{to} has an export of the format {found[0]}: export to another folder. Retention "
            "waits for one export to a folder, and would not wait for the other one."
        )


def held_text(count: int, by: str) -> str:
    """Return a sentence about rows that are held back; "": there are none."""
    return f"{HELD % (count, by or UNKNOWN)}." if count else ""


@contextmanager
def alone(url: str, to: str) -> Iterator[psycopg.Connection[Any]]:
    """Yield a connection that has the lock of a target.

    Raises:
        ExportConflict: another export has the lock.
    """
    with connect(url, name="export") as connection:
        if connection.execute(SQL["lock"], {"target": to}).fetchone() != (True,):
            raise ExportConflict(f"Another export writes to {to} now.")
        try:
            yield connection
        finally:
            # The server ends a closed session, and its lock, a little later.
            with suppress(psycopg.Error):
                connection.execute(SQL["unlock"], {"target": to})


def confirm(connection: psycopg.Connection[Any]) -> None:
    """Raise an error if the session has ended, and has lost its lock."""
    connection.execute(SQL["still"])


def target_of(connection: psycopg.Connection[Any], to: str) -> Mapping[str, str]:
    """Return the parameters of a target: its name, and the identity of this database."""
    return {"target": to, "database": identity.of(connection)}


def disown(connection: psycopg.Connection[Any], target: Mapping[str, str]) -> None:
    """Forget an export of another database to a target, such as of the original of this copy."""
    connection.execute(SQL["disown"], target)


def record(connection: psycopg.Connection[Any], target: Mapping[str, str]) -> Record:
    """Return the progress that the database knows of a target."""
    row = connection.execute(SQL["record"], target).fetchone()
    if row is None:
        return Record(-1, NOTHING, -1, 0)
    return Record(row[0], Position(*row[1:3]), *row[3:])


def waiting(connection: psycopg.Connection[Any], after: Position) -> int:
    """Return the number of rows of history after a position."""
    row = connection.execute(SQL["waiting"], after).fetchone()
    return row[0] if row else 0


def note(
    connection: psycopg.Connection[Any],
    target: Mapping[str, str],
    log: str,
    batch: int,
    last: Mapping[str, Any],
) -> None:
    """Note that a target has a batch.

    Args:
        log: "history" or "events".
        last: the offset at which the batch ends, as a checkpoint stores it.
    """
    connection.execute(SQL[f"note_{log}"], {**last, **target, "batch": batch})


def note_time(connection: psycopg.Connection[Any], target: Mapping[str, str]) -> None:
    """Note that an export is made now, also if no row is new."""
    connection.execute(SQL["note_time"], target)


def held_back(connection: psycopg.Connection[Any]) -> tuple[int, str]:
    """Return the number of rows that no export may read yet, and the transaction that holds them.

    "": the transaction is unknown, or no row is held.
    """
    # With parameters, "%%" is a "%".
    return connection.execute(SQL["held"], {}).fetchone() or (0, "")


def forget(*, url: str, to: str) -> None:
    """Forget the progress of a target, so that retention no longer waits for it; keep its files.

    Raises:
        ExportConflict: an export writes to this target now.
        UnknownTarget: no export was made to it, or it was forgotten before.
    """
    to = as_folder(to)
    with alone(url, to) as connection:
        if connection.execute(SQL["forget"], {"target": to}).rowcount:
            return
        known = [name for (name,) in connection.execute(SQL["targets"])]
        others = hint(to, known) if known else "There are no others."
        raise UnknownTarget(f"No export was made to {to}. {others}")
