"""End a channel's messages by the thousand, the oldest first."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import NamedTuple

from pgqueue.engine import partitions
from pgqueue.engine.values import Connection
from pgqueue.statements import load
from pgqueue.states import State

SQL = load(__name__)

BATCH = 1000
REACH = 10_000
"""Messages that a step looks at, of whatever channel."""


class Bounds(NamedTuple):
    """What was there when it began.

    Attributes:
        newest: the newest message, of any channel: what comes later is let alone.
        surplus: the newest that too many are newer than; None: there are not too many.
        before: what was enqueued earlier is too old.
    """

    newest: int | None
    surplus: int | None
    before: datetime | None


class Step(NamedTuple):
    """How many messages ended, and the last one that was looked at; None: there was none."""

    ended: int
    last: int | None


def bounds(
    connection: Connection, channel: str, *, keep: int | None, older_than: timedelta | None
) -> Bounds:
    """Say which messages are too many, and which too old, of those that wait now."""
    row = connection.execute(
        SQL["bounds"], {"channel": channel, "keep": keep, "older_than": older_than}
    ).fetchone()
    return Bounds(*row) if row else Bounds(None, None, None)


def discard(
    connection: Connection,
    channel: str,
    *,
    states: Collection[State],
    after: int,
    up_to: int,
    before: datetime | None,
) -> Step:
    """End the next up to 1 000 after an id; what somebody has locked is left out.

    Args:
        states: those that are ended.
        up_to: the last id of those that go whatever their age.
        before: those also go that were enqueued earlier.
    """
    ((ended, last, _),) = partitions.repeat_if_missing(
        connection,
        SQL["discard"],
        {
            "channel": channel,
            "states": [state.value for state in states],
            "after": after,
            "up_to": up_to,
            "before": before,
            "limit": BATCH,
            "reach": REACH,
        },
    )
    return Step(ended, last)
