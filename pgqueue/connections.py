"""The connections that a worker owns, beside those that Django opens for its threads.

They persist whatever CONN_MAX_AGE says: connecting anew for each message costs more than
the message.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import psycopg
from django.db import connections
from psycopg.types.string import TextLoader

from pgqueue.conf import settings

IDLE_IN_TRANSACTION = "30s"
READ_ONLY = "the server is read-only: a standby, or its default_transaction_read_only is on"
POOLED = "DISABLE_SERVER_SIDE_CURSORS"
"""What DATABASES say behind a transaction pooler; one that passes pids on looks like none."""
TRANSACTION_STATE = "25"
"""The class of errors that tell of it, as SQL has them: 25006 of one that is read-only."""
SHORT = 1.0
"""Seconds. Whoever looks for something does so that often, if there is nothing else to do."""


class _RawJSON(TextLoader):
    """Leave JSON as it came: whoever needs it parses it, and no other message suffers."""

    def load(self, data: Any) -> bytes:
        return bytes(data)


def connect(alias: str, *, name: str) -> psycopg.Connection[Any]:
    """Open a connection to the database `alias` as Django would, in autocommit.

    Args:
        name: what it is for; PostgreSQL shows it in the application_name, behind the project's own.
    """
    connection = _open(alias, name)
    _set_up(connection, alias)
    return connection


def _open(alias: str, name: str) -> psycopg.Connection[Any]:
    wrapper = connections[alias]
    lease = settings().lease.total_seconds()
    # Before a third of a lease is over, a heartbeat has to know that nobody is there.
    patience = min(max(lease / 6, 1), 10)
    parameters = dict(wrapper.get_connection_params())
    # Django's own cursors, adapters and pools are not for us: ours prepare statements.
    for key in ("context", "cursor_factory", "prepare_threshold"):
        parameters.pop(key, None)
    theirs = parameters.pop("application_name", "")
    parameters.setdefault("connect_timeout", 10)
    parameters.setdefault("keepalives_idle", int(patience))
    parameters.setdefault("keepalives_interval", 1)
    parameters.setdefault("keepalives_count", 5)
    parameters.setdefault("tcp_user_timeout", int(2000 * patience))
    parameters["application_name"] = f"{theirs} pgqueue {name}".lstrip()
    return psycopg.connect(**parameters, autocommit=True)


def _set_up(connection: psycopg.Connection[Any], alias: str) -> None:
    """Have it as our statements expect it; where that can't be, it is closed."""
    try:
        _prepare(connection, alias)
    except BaseException:
        connection.close()
        raise


def _prepare(connection: psycopg.Connection[Any], alias: str) -> None:
    wrapper = connections[alias]
    connection.adapters.register_loader("jsonb", _RawJSON)
    pid, is_read_only = _server(connection)
    if is_read_only:
        # A name may lag behind a failover, and who was replaced may come back as a standby. libpq
        # could look, but believes pgbouncer, who tells what the first server was (its issue 859).
        raise psycopg.OperationalError(READ_ONLY)
    if role := wrapper.settings_dict["OPTIONS"].get("assume_role"):
        connection.execute(psycopg.sql.SQL("SET ROLE {}").format(psycopg.sql.Identifier(role)))
    if connection.info.backend_pid != pid or wrapper.settings_dict.get(POOLED):
        # A transaction pooler: each transaction may meet another server process, without what was
        # set for this one. A claim counts after it locked, and must see what was committed since.
        connection.prepare_threshold = None
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    else:
        # West of Greenwich, a time in the year 1 is in the one before, which Python can't read:
        # a claim that holds one would be lost.
        connection.execute("SET timezone = 'UTC'")
        # Our statements are written for READ COMMITTED, whatever the database's default is.
        connection.execute("SET default_transaction_isolation = 'read committed'")
        # Who is stopped or cut off amid a claim must not keep its lanes: whoever routes for all the
        # others waits for them. Python does nothing long between two of our statements.
        connection.execute(f"SET idle_in_transaction_session_timeout = '{IDLE_IN_TRANSACTION}'")
        # None of our statements takes so long, but behind a lock that should not be there: then it
        # is tried again, and the log says so, where a loop would be silent until that is let go.
        connection.execute("SET statement_timeout = '45s'")
        # Compiling takes longer than any of our statements, however dear they look. Planning
        # them anew takes as long as running them: their plans don't depend on parameters.
        connection.execute("SET jit = off; SET plan_cache_mode = force_generic_plan")
        # A plan is kept until statistics are gathered. One made while a table was empty, as queues
        # are, would read it whole for each message, whatever came into it since.
        connection.execute("SET enable_seqscan = off")


def _server(connection: psycopg.Connection[Any]) -> tuple[int, bool]:
    """Return the number of the process that answers, and whether it is read-only."""
    row = connection.execute(
        "SELECT pg_backend_pid(), current_setting('transaction_read_only')::boolean"
    ).fetchone()
    return row or (0, False)


def is_pooled(connection: psycopg.Connection[Any]) -> bool:
    """Say whether a transaction pooler is in between, so that LISTEN would be deaf."""
    return connection.prepare_threshold is None


@contextmanager
def in_short(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Have a transaction on one of our own connections, whose locks nobody keeps for long.

    A pooler would give a time-out that is set for the connection to somebody else, too.
    """
    with connection.transaction():
        if is_pooled(connection):
            connection.execute(
                "SELECT set_config('idle_in_transaction_session_timeout', %s, true)",
                [IDLE_IN_TRANSACTION],
            )
        yield


def wait_at_most(connection: psycopg.Connection[Any], patience: str) -> None:
    """Wait for each lock no longer than this, "2s" for example, until the transaction ends."""
    connection.execute("SELECT set_config('lock_timeout', %s, true)", [patience])


@contextmanager
def borrow(alias: str) -> Iterator[psycopg.Connection[Any]]:
    """Lend this thread's connection of Django's: what is done on it joins its transaction.

    Raises:
        django.db.Error: as Django's own queries do, in place of psycopg's.
    """
    wrapper = connections[alias]
    wrapper.ensure_connection()
    with wrapper.wrap_database_errors:
        yield wrapper.connection


class Contact:
    """For how long the database has answered without a break.

    A connection's age says less: behind a pooler it outlives the server, and it outlives whatever
    stops its process, or the network, for a while.

    Args:
        lease: in it, a break that is too short to be noticed harms nobody: those who renew leases
            do so three times.
    """

    def __init__(self, *, lease: timedelta) -> None:
        seconds = lease.total_seconds()
        self._longest_answer = max(seconds / 6, SHORT)
        self._longest_silence = seconds / 3 + SHORT
        self._connection: psycopg.Connection[Any] | None = None
        self._since = self._answered_at = 0.0

    def lasting(self, connection: psycopg.Connection[Any]) -> timedelta:
        """Ask it something; return for how long it has answered, on this connection."""
        asked_at = time.monotonic()
        connection.execute("SELECT 1")
        self.note_answer()
        is_slow = self._answered_at - asked_at > self._longest_answer
        if is_slow or connection is not self._connection:
            self._connection, self._since = connection, self._answered_at
        return timedelta(seconds=self._answered_at - self._since)

    def note_answer(self) -> None:
        """Note that it has just answered, to whatever was asked.

        That may have waited for the database to come back, too.
        """
        now = time.monotonic()
        if now - self._answered_at > self._longest_silence:
            self._since = now
        self._answered_at = now


class Session:
    """A connection that one service owns: opened when first used, replaced once it broke."""

    def __init__(self, alias: str, *, name: str) -> None:
        self.alias = alias
        self.name = name
        self._connection: psycopg.Connection[Any] | None = None
        self._is_set_up = False

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """The open connection; a new one where there is none, or it was lost.

        Raises:
            psycopg.OperationalError: the database can't be reached.
        """
        connection = self._opened()
        if not self._is_set_up:
            # This may get no answer, behind a pooler for example: then it can be cut.
            _set_up(connection, self.alias)
            self._is_set_up = True
        return connection

    def open(self) -> None:
        """Have an open connection. Its first use takes a little longer.

        Raises:
            psycopg.OperationalError: the database can't be reached, at none of its addresses.
        """
        self._opened()

    def _opened(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            self._is_set_up = False
            self._connection = _open(self.alias, self.name)
        return self._connection

    @property
    def is_open(self) -> bool:
        """Whether there is an open connection."""
        return self._connection is not None and not self._connection.closed

    def cut(self) -> None:
        """End the connection under whoever waits for an answer on it, in another thread.

        Where a server, or a network, says nothing at all, no setting of the connection's does.
        """
        connection = self._connection
        with suppress(OSError, psycopg.OperationalError):
            if connection is not None:
                with socket.socket(fileno=os.dup(connection.fileno())) as its:
                    # Were it closed by now, the number might have been somebody else's.
                    if not connection.closed:
                        its.shutdown(socket.SHUT_RDWR)

    def close_after(self, error: BaseException) -> None:
        """Close the connection if this error tells that it is of no use, though it is open.

        Its server has become read-only; or a pooler's went away, which may then answer twice, and
        nothing fits its question any more: that says psycopg itself, without a state. What else is
        internal to the server, a damaged index for example, is so on any connection; and who opens
        one each time has none that has answered for long.
        """
        if isinstance(error, psycopg.InternalError) and (
            error.sqlstate is None or error.sqlstate.startswith(TRANSACTION_STATE)
        ):
            self.close()

    def close(self) -> None:
        """Close the connection; using the session again opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
