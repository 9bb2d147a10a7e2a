from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from pgqueue.engine.values import Cursors
from pgqueue.statements import load
from pgqueue.states import State

SQL = load(__name__)
PIECE = 64 * 1024  # characters


class Common(NamedTuple):
    """What all messages that are enqueued together have in common.

    Attributes:
        metadata: a JSON object's text.
        options: a JSON object's text, or None.
        run_at: when they are due; None: `run_after` from now, or else at once.
    """

    channel: str
    task: str
    metadata: str
    options: str | None
    priority: int
    max_attempts: int
    run_at: datetime | None
    run_after: timedelta | None

    @property
    def is_due_at_once(self) -> bool:
        """Whether no time is given."""
        return self.run_at is None and self.run_after is None


class Enqueued(NamedTuple):
    """Messages that were stored together, in the order they were given."""

    ids: Sequence[int]
    state: State
    run_at: datetime
    created_at: datetime
    is_told: bool
    """Whether somebody waits for them, and hears of them once the transaction commits."""


def enqueue(
    connection: Cursors,
    common: Common,
    *,
    keys: Sequence[str],
    payloads: Iterable[str],
    ids: Sequence[int] | None = None,
) -> Enqueued:
    """Store one message for each key, in the transaction that `connection` is in.

    Args:
        keys: one at least.
        payloads: JSON texts, as many as keys. The server stores some while the next are
            made: that can't ask the same connection for anything.
        ids: reserved ones, as many as keys; None: the next ones.

    Raises:
        ValueError: there are not as many of each.
    """
    if not keys or (ids and len(ids) != len(keys)):
        raise ValueError(f"There are {len(keys)} keys, and {len(ids or [])} ids.")
    if len(keys) > 1:
        return _copy(connection, common, keys, payloads, ids or reserve(connection, len(keys)))
    [payload] = payloads
    return _insert(connection, common, keys[0], payload, ids[0] if ids else None)


def _insert(
    connection: Cursors, common: Common, key: str, payload: str, id: int | None
) -> Enqueued:
    statement = SQL["enqueue" if common.is_due_at_once else "schedule"]
    with connection.cursor() as cursor:
        cursor.execute(statement, {**common._asdict(), "key": key, "payload": payload, "id": id})
        id, state, run_at, created_at, is_told = cursor.fetchone()
    return Enqueued([id], State(state), run_at, created_at, is_told)


def _copy(
    connection: Cursors,
    common: Common,
    keys: Sequence[str],
    payloads: Iterable[str],
    ids: Sequence[int],
) -> Enqueued:
    """Store many, for less than an INSERT takes; it can't ask what is stored already."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["begun"], common._asdict())
        state, run_at, created_at = cursor.fetchone()
        rest = (common.channel, common.task, common.metadata, common.options, common.priority,
                common.max_attempts, state, run_at, created_at)  # fmt: skip
        rows = zip(ids, keys, payloads, strict=True)
        with cursor.copy(SQL["copy"]) as copy:
            for piece in _pieces(_lines(rows, rest)):
                copy.write(piece)
        cursor.execute(SQL["copied"], {"channel": common.channel, "state": state, "run_at": run_at})
        [is_told] = cursor.fetchone()
    return Enqueued(ids, State(state), run_at, created_at, is_told)


def _lines(rows: Iterable[tuple[int, str, str]], rest: Iterable[object]) -> Iterator[str]:
    """Yield rows as text for COPY, all with the same end."""
    end = "\t".join("\\N" if value is None else _escaped(str(value)) for value in rest)
    for id, key, payload in rows:
        yield f"{id}\t{_escaped(key)}\t{_escaped(payload)}\t{end}\n"


def _pieces(lines: Iterable[str]) -> Iterator[str]:
    """Yield many short lines together, and long ones alone."""
    piece: list[str] = []
    length = 0
    for line in lines:
        piece.append(line)
        length += len(line)
        if length >= PIECE:
            yield "".join(piece)
            piece, length = [], 0
    yield "".join(piece)


def _escaped(text: str) -> str:
    # Four of these take a seventh of what str.translate() does.
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace("\r", "\\r").replace("\t", "\\t")


def reserve(connection: Cursors, count: int) -> list[int]:
    """Return ids that no other message will have, for messages that are stored later."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["reserve"], {"count": count})
        ids: list[int] = cursor.fetchone()[0]
    return ids
