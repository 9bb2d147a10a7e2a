from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from psycopg import Cursor

from pgqueue.database.sql_files import load
from pgqueue.database.transactions import is_pooled
from pgqueue.engine import settle
from pgqueue.engine.culprits import choosing
from pgqueue.engine.values import Claim, Connection, exact
from pgqueue.exceptions import UnreadableMessage
from pgqueue.values.escaping import logger_of

SQL = load(__name__)
BYTES = 64 * 1024 * 1024
"""The most bytes that the messages of one claim have: payloads, bodies and progress."""
MESSAGES, CLAIM = "pgqueue_message", "claim"
"""The table and the service under which claims leave out messages."""
logger = logger_of(__name__)


class Known(NamedTuple):
    """A lane to claim from, behind the last message that was taken from it."""

    channel: str
    key: str
    rank: int
    run_at: datetime
    id: int
    quota: int


class Search(NamedTuple):
    """A channel in which to find lanes, from behind a key (None: from the first key).

    At most `room` lanes are found; `share` messages are divided among them, at least one each.
    """

    channel: str
    after: str | None
    room: int
    share: int


class Met(NamedTuple):
    """How many lanes a search found, and the key of the last one."""

    lanes: int
    last_key: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The messages of one claim, and the result of each search, by channel."""

    claims: list[Claim]
    met: Mapping[str, Met]


def claim(
    connection: Connection,
    *,
    known: Collection[Known],
    searched: Sequence[Search],
    limit: int,
    worker_id: UUID,
    lease: timedelta,
    size: int = BYTES,
    takes_raw: bool = True,
) -> Answer:
    """Lease up to `limit` ready messages of free lanes.

    Args:
        size: the most bytes that they have, unless the first message alone has more.
        takes_raw: whether raw messages are taken whose channel names no handler.
    """
    cursor = _leased(
        connection,
        "claim",
        "chosen",
        {
            "channels": [lane.channel for lane in known],
            "keys": [lane.key for lane in known],
            "ranks": [lane.rank for lane in known],
            "run_ats": [lane.run_at for lane in known],
            "ids": [lane.id for lane in known],
            "quotas": [lane.quota for lane in known],
            "searched": [search.channel for search in searched],
            "after_keys": [search.after or "" for search in searched],
            # Ranks go from -100 to 100. The first value is before all messages of the key '', the
            # second behind all messages of the key.
            "after_ranks": [-32768 if search.after is None else 32767 for search in searched],
            "rooms": [search.room for search in searched],
            "shares": [search.share for search in searched],
            "limit": limit,
            "size": size,
            "takes_raw": takes_raw,
            "is_pooled": is_pooled(connection),
            "worker_id": worker_id,
            "lease": exact(lease),
        },
    )
    rows = cursor.fetchall()
    claims = [Claim._make((*row[4:], worker_id, ())) for row in rows if row[4] is not None]
    return Answer(
        readable(connection, claims, unreadable(cursor, [row[4] for row in rows])),
        {row[3]: Met(row[1], row[2]) for row in rows if row[3] is not None},
    )


def claim_at_once(
    connection: Connection,
    channel: str,
    *,
    limit: int,
    worker_id: UUID,
    lease: timedelta,
    size: int = BYTES,
    takes_raw: bool = True,
) -> list[Claim]:
    """Lease up to `limit` messages of a channel, from its front; none if it is governed.

    Args:
        size: see `claim()`.
    """
    cursor = _leased(
        connection,
        "claim_at_once",
        "chosen_at_once",
        {
            "channel": channel,
            "limit": limit,
            "size": size,
            "takes_raw": takes_raw,
            "is_pooled": is_pooled(connection),
            "worker_id": worker_id,
            "lease": exact(lease),
        },
    )
    rows = cursor.fetchall()
    claims = [Claim._make((*row[1:], worker_id, ())) for row in rows]
    return readable(connection, claims, unreadable(cursor, [row[1] for row in rows]))


def _leased(
    connection: Connection, statement: str, chosen: str, parameters: Mapping[str, Any]
) -> Cursor[Any]:
    """Run a claim; leave out messages whose lease the database refuses, such as by a trigger."""

    def lease(aside: list[int]) -> Cursor[Any]:
        return connection.execute(SQL[statement], {**parameters, "aside": aside})

    def choose(aside: list[int]) -> list[int]:
        rows = connection.execute(SQL[chosen], {**parameters, "aside": aside})
        return [id for (id,) in rows]

    return choosing(
        connection,
        MESSAGES,
        lease,
        chosen=choose,
        attempt=attempt(connection, parameters),
        what=CLAIM,
    )


def attempt(
    connection: Connection, parameters: Mapping[str, Any]
) -> Callable[[Sequence[int]], object]:
    """Return a function that writes the leases of messages, by their ids."""
    given = {name: parameters[name] for name in ("worker_id", "lease")}
    return lambda ids: connection.execute(SQL["attempt"], {**given, "ids": list(ids)})


def unreadable(cursor: Any, ids: Sequence[int]) -> Mapping[int, Mapping[str, str]]:
    """Return the claimed messages with values that Python does not read, and these values.

    Args:
        ids: the ids of the messages, in the order of the cursor's rows.
    """
    return {ids[number]: values for number, values in getattr(cursor, "unreadable", {}).items()}


def readable(
    connection: Connection, claims: list[Claim], unreadable: Mapping[int, Mapping[str, str]]
) -> list[Claim]:
    """Return the readable claims; bury the others as dead letters.

    A run of an unreadable claim would use wrong values. If it were left alone, workers would claim
    it again for ever.
    """
    if not unreadable:
        return claims
    failures = []
    for each in claims:
        if each.id in unreadable:
            values = unreadable[each.id]
            said = ", ".join(f"{name} is {value}" for name, value in values.items())
            logger.error("%s #%s is dead, being unreadable: %s", each.task, each.id, said)
            entry = {
                "attempt": each.attempt,
                "worker": str(each.worker_id),
                "class": f"{UnreadableMessage.__module__}.{UnreadableMessage.__qualname__}",
                "message": f"unreadable: {said}",
                "traceback": "",
            }
            failures.append(settle.Failure(each, json.dumps(entry), 0.0))
    settle.bury_unreadable(connection, failures)
    return [each for each in claims if each.id not in unreadable]


def channels(
    connection: Connection, *, excluded: Sequence[str], takes_raw: bool = True
) -> list[str]:
    """Return the channels with a ready message in a free lane that the worker takes."""
    parameters = {"excluded": list(excluded), "takes_raw": takes_raw}
    rows = connection.execute(SQL["channels"], parameters).fetchall()
    return [channel for (channel,) in rows]
