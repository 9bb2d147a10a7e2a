"""Turn rows that Spark's tasks have staged into messages or events, in the commit's transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pgqueue.database.sql_files import load
from pgqueue.engine import publish as publishing
from pgqueue.engine.culprits import delete
from pgqueue.engine.operate import BATCH, Operated, Verb, unless_locked
from pgqueue.engine.values import Connection
from pgqueue.exceptions import BatchTooLarge, ChannelFull, WriteConflict
from pgqueue.values.attempts import MAX_ATTEMPTS
from pgqueue.values.error_words import shown

SQL = load(__name__)

LOCKED_LANES = 500
"""Lanes that one write locks, at most: the server has room for about 10 000 locks."""
FORGOTTEN = 10_000
"""Rows that are removed at a time."""


class Write(NamedTuple):
    """The identity of a write, by which it is committed only once.

    Attributes:
        app_id: the id of the application, whose versions only increase.
        origin: the checkpoint of a stream; '' for a single write.
    """

    app_id: str
    version: int
    origin: str


class Defaults(NamedTuple):
    """The defaults of messages for columns that a row leaves out."""

    task: str
    channel: str
    payload: str | None
    priority: int = 0
    max_attempts: int = MAX_ATTEMPTS
    ordered: bool = False


class StagedCounts(NamedTuple):
    """The numbers of messages that were stored, existed by their dedupe key, or were dropped."""

    stored: int = 0
    existing: int = 0
    dropped: int = 0


def begin(connection: Connection) -> int:
    """Return a new number for the rows that an attempt of a task will stage."""
    [attempt] = connection.execute(SQL["attempt"]).fetchone() or [0]
    return int(attempt)


def is_new(connection: Connection, write: Write, *, rows: int) -> bool:
    """Record a write; return False if it was committed before.

    Raises:
        WriteConflict: a later version was committed under this id, or another write as this
            version; or earlier batches of its stream are missing.
    """
    given = {**write._asdict(), "rows": rows}
    if write.origin and (found := connection.execute(SQL["recorded"], given).fetchone()):
        last, origin, _ = found
        # Spark counts the batches of a checkpoint without gaps, including batches without rows.
        if origin == write.origin and last < write.version - 1:
            raise WriteConflict(
                f"The application id {shown(write.app_id)} has committed batch {last} here, and "
                f"this is batch {write.version}: the database was restored to an earlier time, or "
                "is another one, and lacks the batches between. Restore the checkpoint of that "
                "time, or give a new txnAppId to go on without them."
            )
    if connection.execute(SQL["record"], given).fetchone():
        return True
    row = connection.execute(SQL["recorded"], given).fetchone()
    assert row is not None  # noqa: S101
    version, origin, before = row
    if version > write.version:
        raise WriteConflict(
            f"The application id {shown(write.app_id)} has committed version {version}, and this "
            f"is version {write.version}: its checkpoint was deleted or is an old copy, or two "
            "applications use one id. Restore the checkpoint, or give a new txnAppId."
        )
    if (origin, before) != (write.origin, rows):
        raise WriteConflict(
            f"Version {version} of the application id {shown(write.app_id)} was committed with "
            f"{before} rows{f' from {origin}' if origin else ''}, and this one has {rows}"
            f"{f' from {write.origin}' if write.origin else ''}: it is another write. "
            "Give a new txnAppId, or a higher txnVersion."
        )
    return False


def enqueue(
    connection: Connection, attempts: Sequence[int], defaults: Defaults, *, rows: int
) -> StagedCounts:
    """Store staged rows as messages, in the order of the attempts and of their rows.

    Args:
        connection: in a transaction.
        rows: the number of staged rows.

    Raises:
        BatchTooLarge: more than `LOCKED_LANES` lanes are ordered, or of limited size.
        ChannelFull: a policy's max_size is reached.
        WriteConflict: some rows were deleted, or a policy was changed meanwhile.
    """
    given = {**defaults._asdict(), "attempts": list(attempts)}
    found, any_singular = connection.execute(SQL["look"], given).fetchone() or (0, False)
    _check_count(found, rows)
    stored = _enqueue_singular(connection, given) if any_singular else StagedCounts()
    for attempt in attempts:
        row = connection.execute(SQL["enqueue_plain"], {**given, "attempt": attempt}).fetchone()
        stored = stored._replace(stored=stored.stored + (row[0] if row else 0))
    if sum(stored) != rows:
        # Each statement reads the policies again: a row may be singular only for a later statement.
        raise WriteConflict(
            f"Of {rows} rows, {sum(stored)} would be stored: a policy was changed meanwhile. "
            "Run the write again."
        )
    return stored


def publish(
    connection: Connection, attempts: Sequence[int], *, topic: str | None, rows: int
) -> None:
    """Publish staged rows, in the order of the attempts and of their rows.

    Args:
        connection: in a transaction.
        topic: the topic of rows without one.
        rows: the number of staged rows.

    Raises:
        WriteConflict: some rows were deleted meanwhile.
    """
    found = sum(
        connection.execute(SQL["publish"], {"attempt": attempt, "topic": topic}).rowcount
        for attempt in attempts
    )
    _check_count(found, rows)
    if rows:
        publishing.tell(connection)


def _check_count(found: int, rows: int) -> None:
    if found != rows:
        raise WriteConflict(
            f"Of {rows} staged rows, {found} are left: rows that no write commits within a week "
            "are removed. Run the write again."
        )


def _enqueue_singular(connection: Connection, given: Mapping[str, Any]) -> StagedCounts:
    """Store the rows that need a lock, or may conflict with others."""
    _lock(connection, given)
    rows = connection.execute(SQL["enqueue_singular"], given).fetchall()
    came_of = {how: count for how, count, _, _ in rows}
    for how, count, channel, key in rows:
        if how == "full":
            raise ChannelFull(
                f"The channel {channel!r}, or its key {key!r}, has no room for {count} of these "
                "messages: nothing was stored. Write again later, or raise the max_size of its "
                "policy."
            )
    return StagedCounts(*(came_of.get(how, 0) for how in StagedCounts._fields))


def _lock(connection: Connection, given: Mapping[str, Any]) -> None:
    """Wait for all locks before rows are stored: other transactions may wait for these rows."""
    locks = connection.execute(SQL["locks"], {**given, "limit": LOCKED_LANES}).fetchall()
    if len(locks) > LOCKED_LANES:
        raise BatchTooLarge(
            f"One write may have {LOCKED_LANES} lanes with ordered messages or a max_size: each "
            "takes a lock. Write fewer rows at a time."
        )
    for kind in ("order", "room"):
        if lanes := [(channel, key) for of, channel, key in locks if of == kind]:
            channels, keys = map(list, zip(*lanes, strict=True))
            connection.execute(SQL[f"keep_{kind}"], {"channels": channels, "keys": keys})


def operate(connection: Connection, attempts: Sequence[int], verb: Verb, *, rows: int) -> Operated:
    """Run a verb on the messages whose ids are staged.

    Args:
        connection: in a transaction.
        rows: the number of staged rows.

    Raises:
        WriteConflict: some rows were deleted meanwhile.
    """
    given = {"attempts": list(attempts)}
    _check_count((connection.execute(SQL["count"], given).fetchone() or [0])[0], rows)
    ids = [pk for (pk,) in connection.execute(SQL["ids"], given)]
    done = Operated()
    for start in range(0, len(ids), BATCH):
        done |= unless_locked(connection, verb, ids[start : start + BATCH])
    return done


def remove(connection: Connection, attempts: Sequence[int]) -> None:
    """Delete staged rows."""
    connection.execute(SQL["remove"], {"attempts": list(attempts)})


def forget(connection: Connection) -> int:
    """Delete rows that were staged a week ago, in batches; return the number of deleted rows."""
    given = {"limit": FORGOTTEN}
    return delete(
        connection, "pgqueue_staged", SQL["forget"], SQL["over"], given, what="forget staged rows"
    )
