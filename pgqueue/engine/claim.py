from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from pgqueue.engine.values import Claim, Connection
from pgqueue.statements import load
from pgqueue.transactions import is_pooled

SQL = load(__name__)


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
    """The messages of one claim, and what each search found, by channel."""

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
    takes_raw: bool = True,
) -> Answer:
    """Lease up to `limit` ready messages of free lanes.

    Args:
        takes_raw: whether raw messages are taken whose channel names no handler.
    """
    rows = connection.execute(
        SQL["claim"],
        {
            "channels": [lane.channel for lane in known],
            "keys": [lane.key for lane in known],
            "ranks": [lane.rank for lane in known],
            "run_ats": [lane.run_at for lane in known],
            "ids": [lane.id for lane in known],
            "quotas": [lane.quota for lane in known],
            "searched": [search.channel for search in searched],
            "after_keys": [search.after or "" for search in searched],
            # Ranks go from -100 to 100: these are before all of key '', or behind all of the key.
            "after_ranks": [-32768 if search.after is None else 32767 for search in searched],
            "rooms": [search.room for search in searched],
            "shares": [search.share for search in searched],
            "limit": limit,
            "takes_raw": takes_raw,
            "is_pooled": is_pooled(connection),
            "worker_id": worker_id,
            "lease": lease,
        },
    ).fetchall()
    return Answer(
        [Claim._make((*row[4:], worker_id, ())) for row in rows if row[4] is not None],
        {row[3]: Met(row[1], row[2]) for row in rows if row[3] is not None},
    )


def claim_at_once(
    connection: Connection,
    channel: str,
    *,
    limit: int,
    worker_id: UUID,
    lease: timedelta,
    takes_raw: bool = True,
) -> list[Claim]:
    """Lease up to `limit` messages of a channel, from its front; none if it is governed."""
    rows = connection.execute(
        SQL["claim_at_once"],
        {
            "channel": channel,
            "limit": limit,
            "takes_raw": takes_raw,
            "is_pooled": is_pooled(connection),
            "worker_id": worker_id,
            "lease": lease,
        },
    ).fetchall()
    return [Claim._make((*row[1:], worker_id, ())) for row in rows]


def channels(
    connection: Connection, *, excluded: Sequence[str], takes_raw: bool = True
) -> list[str]:
    """Return the channels that have a ready message to take in a free lane."""
    parameters = {"excluded": list(excluded), "takes_raw": takes_raw}
    rows = connection.execute(SQL["channels"], parameters).fetchall()
    return [channel for (channel,) in rows]
