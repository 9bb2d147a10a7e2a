"""Durable runs that wait for events of the log.

The dispatch matches events with waits, as it does with subscriptions. An event that meets a wait
becomes a signal to its message.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pgqueue.database.sql_files import load
from pgqueue.engine.culprits import by_halves, tell
from pgqueue.engine.values import Connection, Cursors

SQL = load(__name__)


def add(
    connection: Cursors,
    id: int,
    step: str,
    *,
    topic: str,
    key: str | None,
    path: str,
    variables: Mapping[str, Any],
) -> None:
    """Have the dispatch look for an event, from the end of the log on.

    Args:
        key: the event's; None: any key.
        path: conditions on the payload, as a jsonpath predicate; "": there are none.
        variables: the values in the path.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            SQL["add"],
            {
                "id": id,
                "step": step,
                "topic": topic,
                "key": key,
                "path": path,
                "vars": json.dumps(dict(variables)),
            },
        )


def remove(connection: Cursors, id: int, step: str) -> None:
    """Stop looking for an event."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["remove"], {"id": id, "step": step})


def match(connection: Connection, positions: Sequence[int]) -> int:
    """Send the events of a stretch to the runs that wait for them; return the number of signals.

    An event with which the statement fails is left out, and named in the log.

    Args:
        connection: in a transaction, with the isolation READ COMMITTED.
        positions: consecutive ones.
    """

    def some(positions: Sequence[int]) -> int:
        after, upto = (positions[0] - 1, positions[-1]) if positions else (0, 0)
        with connection.transaction():
            given = {"after": after, "upto": upto}
            row = connection.execute(SQL["match"], given).fetchone()
        return int(row[0]) if row else 0

    def leave(position: int, error: Exception) -> int:
        tell("dispatch", row=f"the waits for pgqueue_event {position}", error=error)
        return 0

    return sum(by_halves(some, positions, leave))
