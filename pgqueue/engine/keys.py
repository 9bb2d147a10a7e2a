"""Count the messages of a channel by key, up to a bound."""

from __future__ import annotations

from typing import NamedTuple

from pgqueue.database.sql_files import load
from pgqueue.engine.values import Cursors

SQL = load(__name__)

LAST = chr(0x10FFFF)
"""A text behind every key."""


class KeySeen(NamedTuple):
    """A key, and the numbers of its messages; `waiting` ones are not ready yet."""

    key: str
    running: int
    ready: int
    waiting: int

    @property
    def size(self) -> int:
        """The number of messages that count for a policy's max_size."""
        return self.running + self.ready + self.waiting


def by_key(
    connection: Cursors, channel: str, *, bound: int, first: str = "", last: str = LAST
) -> list[KeySeen]:
    """Return the keys that have a message, with the largest backlog first.

    Args:
        bound: the most messages of each kind that are counted, in the order of the keys.
        first, last: the range of the keys.
    """
    given = {"channel": channel, "bound": bound, "first": first, "last": last}
    with connection.cursor() as cursor:
        cursor.execute(SQL["by_key"], given)
        return [KeySeen(*row) for row in cursor.fetchall()]
