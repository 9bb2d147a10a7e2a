"""The messages of a replication connection, as values.

PostgreSQL's documentation defines the formats: "Streaming Replication Protocol", and "Logical
Replication Message Formats" for the messages of pgoutput inside. Positions in the WAL are numbers
of 64 bits here, because texts compare wrongly: the order of 1/10 and 0/FFFFFFF0 would change.
"""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from typing import Any, NamedTuple

from pgqueue.exceptions import FeedUnavailable

EPOCH = datetime(2000, 1, 1, tzinfo=UTC)

_DATA, _KEEPALIVE = b"wk"
_BEGIN, _COMMIT = b"BC"
_HEAD = 25
"""Bytes of the head of data: its type, its position, the end of the WAL, and a time."""
_OF_KEEPALIVE = struct.Struct(">xQqB")
_OF_BEGIN = struct.Struct(">xQqI")
_OF_COMMIT = struct.Struct(">xBQQq")
_OF_STATUS = struct.Struct(">cQQQqB")


class Committed(NamedTuple):
    """A transaction that published events, and has committed.

    Attributes:
        xid: the lower 32 bits of its number.
        lsn: the position of its commit in the WAL. After a confirmation of this position, the
            server announces the commit again.
        end: the position behind the commit.
    """

    xid: int
    lsn: int
    end: int


class KeepAlive(NamedTuple):
    """The server lives, and has sent all commits before a position.

    Attributes:
        wants_reply: whether the server ends the connection without a reply.
    """

    end: int
    wants_reply: bool


class Decoder:
    """Reads the messages of one stream, in their order."""

    def __init__(self) -> None:
        self._xid = 0

    def read(self, data: Any) -> Committed | KeepAlive | None:
        """Return the value of a message; None: the message is part of an unfinished transaction.

        Args:
            data: bytes, or a view of them.

        Raises:
            FeedUnavailable: the message ends too early.
        """
        try:
            return self._read(data)
        except (IndexError, struct.error) as error:
            raise FeedUnavailable(
                f"The server has sent a message of {len(data)} bytes, which ends too early: "
                "is there a proxy between it and the worker?"
            ) from error

    def _read(self, data: Any) -> Committed | KeepAlive | None:
        if data[0] == _DATA:
            kind = data[_HEAD]
            # Messages of rows come by the hundred thousand, and the feed ignores them.
            if kind == _COMMIT:
                _, lsn, end, _ = _OF_COMMIT.unpack_from(data, _HEAD)
                return Committed(self._xid, lsn, end)
            if kind == _BEGIN:
                self._xid = _OF_BEGIN.unpack_from(data, _HEAD)[2]
            return None
        if data[0] == _KEEPALIVE:
            end, _, wants_reply = _OF_KEEPALIVE.unpack_from(data)
            return KeepAlive(end, bool(wants_reply))
        return None


def status(*, received: int, confirmed: int, at: datetime) -> bytes:
    """Return the message with the feed's progress for the server.

    Args:
        received: the position up to which the feed has read.
        confirmed: the position up to which the server may drop the WAL, and never sends again.
    """
    microseconds = (at - EPOCH) // (EPOCH.resolution)
    return _OF_STATUS.pack(b"r", received, confirmed, confirmed, microseconds, 0)
