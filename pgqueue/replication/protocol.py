"""What is said on a replication connection, as values.

The formats are those of PostgreSQL's documentation: "Streaming Replication Protocol", and "Logical
Replication Message Formats" for what pgoutput sends within. Positions in the WAL are numbers of 64
bits here, never their texts: as text 1/10 comes before 0/FFFFFFF0.
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
"""Bytes of the head of data: its type, where it begins, where the WAL ends, and a time."""
_OF_KEEPALIVE = struct.Struct(">xQqB")
_OF_BEGIN = struct.Struct(">xQqI")
_OF_COMMIT = struct.Struct(">xBQQq")
_OF_STATUS = struct.Struct(">cQQQqB")


class Committed(NamedTuple):
    """A transaction that published events, and has committed.

    Attributes:
        xid: the lower 32 bits of its number.
        lsn: where its commit is in the WAL: who confirms this is told of it again.
        end: the position behind it.
    """

    xid: int
    lsn: int
    end: int


class KeepAlive(NamedTuple):
    """The server lives, and has sent all that was committed before a position.

    Attributes:
        wants_reply: it ends the connection unless it hears from us soon.
    """

    end: int
    wants_reply: bool


class Decoder:
    """Reads what one stream sends, in its order."""

    def __init__(self) -> None:
        self._xid = 0

    def read(self, data: Any) -> Committed | KeepAlive | None:
        """Return what a message says; None: it is part of a transaction that goes on.

        Args:
            data: bytes, or a view of them.

        Raises:
            FeedUnavailable: it ends too early.
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
            # The rows come by the hundred thousand, and are of no interest by themselves.
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
    """Return the message that tells the server how far we are.

    Args:
        received: up to where we have read.
        confirmed: up to where it need not send again, nor keep, anything.
    """
    microseconds = (at - EPOCH) // (EPOCH.resolution)
    return _OF_STATUS.pack(b"r", received, confirmed, confirmed, microseconds, 0)
