"""Discard the waiting messages of a channel in batches, oldest first."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import NamedTuple

from pgqueue.database.sql_files import load
from pgqueue.engine import partitions
from pgqueue.engine.culprits import Part, apart
from pgqueue.engine.values import Connection, exact
from pgqueue.states import State

SQL = load(__name__)

BATCH = 1000
REACH = 10_000
"""The most messages of all channels that one step reads."""


class PurgeBounds(NamedTuple):
    """The limits of a purge, read once at its beginning.

    Attributes:
        newest: the newest message id, of any channel: later messages are left alone.
        surplus: messages up to this id exceed the number to keep; None: there is no surplus.
        before: messages enqueued earlier are too old; None: age does not matter.
    """

    newest: int | None
    surplus: int | None
    before: datetime | None


class PurgeStep(NamedTuple):
    """The number of discarded messages, and the last id that was read; None: there was none."""

    ended: int
    last: int | None


def bounds(
    connection: Connection,
    channel: str,
    *,
    keep: int | None,
    older_than: timedelta | None,
    asking: int | None = None,
) -> PurgeBounds:
    """Return the bounds of the waiting messages that are too many or too old.

    Args:
        asking: the age counts from the enqueue of this message; None: from now.
    """
    given = {"channel": channel, "keep": keep, "older_than": exact(older_than), "asking": asking}
    row = connection.execute(SQL["bounds"], given).fetchone()
    return PurgeBounds(*row) if row else PurgeBounds(None, None, None)


def discard(
    connection: Connection,
    channel: str,
    *,
    states: Collection[State],
    after: int,
    newest: int,
    up_to: int,
    before: datetime | None,
) -> PurgeStep:
    """Discard the next messages after an id, at most 1 000; locked ones are skipped.

    Args:
        states: the states of the messages to discard.
        newest: messages with a larger id are left alone, whatever their age is.
        up_to: messages up to this id are discarded at any age.
        before: later messages are discarded, too, if they were enqueued before this time.
    """
    given = {
        "channel": channel,
        "states": [state.value for state in states],
        "after": after,
        "newest": newest,
        "up_to": up_to,
        "before": before,
        "limit": BATCH,
        "reach": REACH,
    }

    def some(part: Part) -> PurgeStep:
        ((ended, last, _),) = partitions.repeat_if_missing(
            connection, SQL["discard"], {**given, **part._asdict()}
        )
        return PurgeStep(ended, last)

    steps = apart(connection, "pgqueue_message", some, what="purge a channel")
    # All steps have read up to the smallest of their last ids.
    last = min((step.last for step in steps if step.last is not None), default=None)
    return PurgeStep(sum(step.ended for step in steps), last)
