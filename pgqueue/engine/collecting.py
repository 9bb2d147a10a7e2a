"""Add the arguments of new messages to waiting messages with the same dedupe keys.

A waiting message is locked before its arguments are read. So a second collector waits for the
first, and a claim passes by. If no message waits, a new one is stored. If another producer has
stored one in this very moment, that is undone, and the message of the other producer is joined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pgqueue.database.sql_files import load
from pgqueue.engine import enqueue as enqueueing
from pgqueue.engine.enqueue import Common, Enqueued

SQL = load(__name__)

Join = Callable[[str, str, str], str | None]
"""Takes the task and the payload of a waiting message, and a new payload. Returns both payloads
in one; None: the waiting message takes no more."""


class _Overtaken(Exception):
    """Another producer has stored a message with the key since no message was found."""


def enqueue(
    connection: Any,
    common: Common,
    *,
    keys: Sequence[str],
    payloads: Iterable[str],
    join: Join,
    dedupe_keys: Sequence[str | None] | None = None,
    ids: Sequence[int] | None = None,
) -> Enqueued:
    """Add each message to the waiting message with its dedupe key, or store it, as `enqueue` does.

    Args:
        common: its `replaces` is true.
        join: joins the payloads of two messages.

    Raises:
        ChannelFull, BatchTooLarge, ValueError: as `enqueue.enqueue` does.
    """
    unknown: list[Any] = [None] * len(keys)
    given = list(zip(keys, payloads, dedupe_keys or unknown, ids or unknown, strict=True))
    lanes = [(common.channel, key) for key in keys]
    # The locks of lanes come before the locks of messages, and these in the order of their keys.
    with enqueueing.begin(connection):
        if common.ordered:
            enqueueing.keep_order(connection, lanes)
        enqueueing.keep_room(connection, lanes)
        order = sorted(range(len(given)), key=lambda number: given[number][2] or "")
        done = {number: _collect(connection, common, join, *given[number]) for number in order}
    each = [done[number] for number in range(len(given))]
    return each[0]._replace(
        ids=[one.ids[0] for one in each],
        is_told=any(one.is_told for one in each),
        came_of=[one.came_of[0] for one in each],
    )


def _collect(
    connection: Any,
    common: Common,
    join: Join,
    key: str,
    payload: str,
    dedupe_key: str | None,
    id: int | None,
) -> Enqueued:
    def store(text: str) -> Enqueued:
        return enqueueing.enqueue(
            connection,
            common,
            keys=[key],
            payloads=[text],
            dedupe_keys=[dedupe_key],
            ids=given_id,
        )

    given_id = None if id is None else [id]
    if dedupe_key is None:
        return store(payload)
    while True:
        try:
            with enqueueing.begin(connection):
                joined = _joined(connection, common.channel, dedupe_key, join, payload)
                stored = store(payload if joined is None else joined)
                if stored.came_of[0] == "existing":
                    if enqueueing.is_remembered(connection, common.channel, dedupe_key):
                        return stored
                    # The message is of a flow, or runs and keeps its key, as SQL has stored it.
                    return enqueueing.enqueue(
                        connection, common, keys=[key], payloads=[payload], ids=given_id
                    )
                if stored.came_of[0] != "replaced":
                    return stored
                if joined is None:
                    raise _Overtaken
                return stored._replace(came_of=("collected",))
        except _Overtaken:
            continue


def _joined(connection: Any, channel: str, dedupe_key: str, join: Join, payload: str) -> str | None:
    """Lock the waiting message with a dedupe key, and return its payload with another one.

    Returns:
        None: no message waits. A message that takes no more has given up its key.
    """
    with connection.cursor() as cursor:
        cursor.execute(SQL["waiting"], {"channel": channel, "dedupe_key": dedupe_key})
        found = cursor.fetchone()
        if found is None:
            return None
        id, task, stored, is_closed = found
        # A held message waits for its own commit, which the items of others must not. And a run
        # that has stored a part of its work keeps its arguments.
        joined = None if is_closed else join(task, stored, payload)
        if joined is None:
            cursor.execute(SQL["give_up_key"], {"id": id})
        return joined
