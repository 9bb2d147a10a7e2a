"""A replication connection that streams from a slot."""

from __future__ import annotations

from datetime import UTC, datetime
from time import monotonic

import psycopg
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus
from psycopg.sql import SQL, Identifier, Literal

from pgqueue.database.connections import Session
from pgqueue.replication.protocol import Committed, Decoder, KeepAlive, status
from pgqueue.threads.wakeup import Wakeup

AT_ONCE = 20_000
"""The maximum of messages in one read."""
REPLY_EVERY = 5.0
"""Seconds. The server ends a connection without replies after wal_sender_timeout."""
START = SQL(
    "START_REPLICATION SLOT {slot} LOGICAL 0/0 "
    "(proto_version '1', publication_names {publications})"
)


class Stream:
    """A stream of commits from PostgreSQL, and of confirmations to it.

    Args:
        session: a separate connection, to a walsender.
    """

    def __init__(self, session: Session, *, slot: str, publication: str) -> None:
        self._session = session
        self._slot = slot
        self._publication = publication
        self._connection: psycopg.Connection[object] | None = None
        self._decoder = Decoder()
        self._reply_at = 0.0
        self.received = 0
        self.confirmed = 0

    @property
    def is_open(self) -> bool:
        """Whether the stream is open, as far as the feed knows."""
        return self._connection is not None

    def open(self) -> None:
        """Begin to stream, at the position that was confirmed last.

        Raises:
            psycopg.errors.ObjectInUse: another connection streams from the slot.
            psycopg.Error: streaming from the slot failed.
        """
        connection = self._session.open()
        names = SQL(",").join([Identifier(self._publication)]).as_string(connection)
        start = START.format(slot=Identifier(self._slot), publications=Literal(names))
        result = connection.pgconn.exec_(start.as_bytes(connection))
        if result.status != ExecStatus.COPY_BOTH:
            error = error_from_result(result)
            self._session.close()
            raise error
        self._connection = connection
        self._decoder = Decoder()
        self.received = self.confirmed = 0
        self._reply_at = monotonic() + REPLY_EVERY

    def read(self, timeout: float, wakeup: Wakeup) -> list[Committed]:
        """Return the next commits; if there are none, wait for at most `timeout` seconds.

        Raises:
            psycopg.Error: the stream has ended.
        """
        connection = self._streaming()
        committed, has_more = self._take(connection)
        if committed or has_more:
            return committed
        if monotonic() >= self._reply_at:
            self._reply(connection)
        ready = wakeup.wait(min(timeout, REPLY_EVERY), connection)
        if connection in ready:
            connection.pgconn.consume_input()
            committed, _ = self._take(connection)
        return committed

    def confirm(self, lsn: int) -> None:
        """Confirm a position: the server need not send earlier commits again."""
        if lsn > self.confirmed:
            self.confirmed = lsn
            self._reply(self._streaming())

    def close(self) -> None:
        """End the stream; do nothing if it is closed. `open()` begins again."""
        self._connection = None
        self._session.close()

    def cut(self) -> None:
        """End the connection from another thread."""
        self._session.cut()

    def _streaming(self) -> psycopg.Connection[object]:
        if self._connection is None:
            raise psycopg.OperationalError("the stream is not open")
        return self._connection

    def _take(self, connection: psycopg.Connection[object]) -> tuple[list[Committed], bool]:
        """Return the received commits, and whether there may be more of them in the buffer."""
        committed: list[Committed] = []
        take, read = connection.pgconn.get_copy_data, self._decoder.read
        for _ in range(AT_ONCE):
            size, data = take(1)
            if size == 0:
                return committed, False
            if size < 0:
                raise self._end(connection)
            said = read(data)
            if said is None:
                continue
            self.received = max(self.received, said.end)
            if isinstance(said, KeepAlive):
                if said.wants_reply:
                    self._reply(connection)
            else:
                committed.append(said)
        return committed, True

    def _reply(self, connection: psycopg.Connection[object]) -> None:
        now = datetime.now(UTC)
        message = status(received=self.received, confirmed=self.confirmed, at=now)
        connection.pgconn.put_copy_data(message)
        connection.pgconn.flush()
        self._reply_at = monotonic() + REPLY_EVERY

    def _end(self, connection: psycopg.Connection[object]) -> psycopg.Error:
        """Return the error with which the server has ended the stream."""
        result = connection.pgconn.get_result()
        if result is not None and result.status == ExecStatus.FATAL_ERROR:
            return error_from_result(result)
        return psycopg.OperationalError("the server has ended the stream")
