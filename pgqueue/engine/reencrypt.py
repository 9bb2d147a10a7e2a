"""Read the encrypted columns of live and ended messages, and store their new values."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Literal, NamedTuple

from pgqueue.database.sql_files import load
from pgqueue.database.transactions import plan_without
from pgqueue.engine.values import Connection

SQL = load(__name__)

BYTES = 16 * 1024 * 1024
"""The most bytes that are read at once, unless one message alone has more."""

Table = Literal["live", "history"]


class EncryptedTexts(NamedTuple):
    """The columns of a message that are encrypted, or should be, as JSON texts; None: neither."""

    id: int
    finished_at: datetime | None
    task: str
    payload: str | None
    progress: str | None
    result: str | None
    steps: str | None = None
    """What may be encrypted of its steps, signals and log lines: a list of `StepText`; or their new
    values."""


class StepText(NamedTuple):
    """A result of a step, the payload of a signal, or the log lines of a run.

    Attributes:
        part: steps, signals or logs.
        place: its place among them, from 1.
        key, kind: of the step, or of the signal. Log lines have the attempt as their key.
        digest: of the text that was read.
        path, text: the place of the value in the row, and the value as JSON.
    """

    part: str
    place: int
    key: str
    kind: str
    digest: str
    path: list[str]
    text: str


Rewritten = tuple[EncryptedTexts, EncryptedTexts]
"""The columns of a message as they were read, and their new values; None there: unchanged."""


def read(
    connection: Connection,
    table: Table,
    *,
    after: int,
    tasks: Collection[str],
    limit: int,
    ids: Collection[int] | None = None,
) -> list[EncryptedTexts]:
    """Return the next messages in the order of their ids, at least one if any is left.

    Args:
        connection: in a transaction, whose plans are changed until it ends.
        after: the id of the last message before.
        tasks: the names of tasks whose unencrypted columns are read, too.
        ids: the ids of the messages to read; None: all.
    """
    # The statements walk the tables along their ids, for any statistics of the tables.
    plan_without(connection, "seqscan", "bitmapscan", "sort")
    given = {
        "after": after,
        "tasks": list(tasks),
        "limit": limit,
        "bytes": BYTES,
        "ids": None if ids is None else list(ids),
    }
    return [EncryptedTexts(*row) for row in connection.execute(SQL[table], given)]


def write(connection: Connection, table: Table, rewritten: Sequence[Rewritten]) -> set[int]:
    """Store the new values of messages; return the ids of the written messages.

    It leaves out messages that another transaction has locked, and messages that were changed or
    have ended since they were read.

    Args:
        rewritten: the messages in the order of their ids.
    """
    before, after = zip(*rewritten, strict=True)
    given = {
        "ids": [each.id for each in before],
        "ended": [each.finished_at for each in before],
        "payloads_before": [each.payload for each in before],
        "payloads": [each.payload for each in after],
        "progress_before": [each.progress for each in before],
        "progress": [each.progress for each in after],
        "results_before": [each.result for each in before],
        "results": [each.result for each in after],
        "steps": [each.steps for each in after],
    }
    return {id for (id,) in connection.execute(SQL[f"write_{table}"], given)}
