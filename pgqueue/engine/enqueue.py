import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pgqueue.engine.values import Cursors, array
from pgqueue.statements import load
from pgqueue.states import State

SQL = load(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Enqueued:
    """Messages that one statement stored, in the order they were given."""

    ids: list[int]
    state: State
    run_at: datetime
    created_at: datetime
    notified: int


def enqueue(
    connection: Cursors,
    *,
    channel: str,
    task: str,
    key: str | Sequence[str],
    payloads: Sequence[str],
    metadata: str,
    options: str | None,
    priority: int,
    run_at: datetime | None,
    run_after: timedelta | None,
    max_attempts: int,
    ids: Sequence[int] | None = None,
) -> Enqueued:
    """Store one message for each payload, in the transaction that `connection` is in.

    Args:
        key: of all, or as many as payloads.
        payloads: JSON texts.
        metadata: a JSON object's text.
        options: a JSON object's text, or None.
        run_at: when they are due; None: `run_after` from now, or else at once.
        ids: reserved ones, as many as payloads; None: the next ones.

    Raises:
        ValueError: there are not as many keys or ids as payloads.
    """
    for given in (key, ids):
        if given is not None and not isinstance(given, str) and len(given) != len(payloads):
            raise ValueError(f"{len(given)} keys or ids don't go with {len(payloads)} payloads.")
    parameters: dict[str, Any] = {
        "channel": channel,
        "task": task,
        "key": key if isinstance(key, str) else "",
        "keys": "[]" if isinstance(key, str) else json.dumps(list(key)),
        "payloads": f"[{','.join(payloads)}]",
        "metadata": metadata,
        "options": options,
        "priority": priority,
        "run_at": run_at,
        "run_after": run_after,
        "max_attempts": max_attempts,
        "ids": array(ids or []),
    }
    is_due_now = run_at is None and run_after is None
    with connection.cursor() as cursor:
        cursor.execute(SQL["enqueue" if is_due_now else "schedule"], parameters)
        row: Any = cursor.fetchone()
    stored, state, due, created_at, notified = row
    return Enqueued(
        ids=stored, state=State(state), run_at=due, created_at=created_at, notified=notified
    )


def reserve(connection: Cursors, count: int) -> list[int]:
    """Return ids that no other message will have, for `enqueue` in a later transaction."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["reserve"], {"count": count})
        ids: list[int] = cursor.fetchone()[0]
    return ids
