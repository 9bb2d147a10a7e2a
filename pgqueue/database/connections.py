"""The connections that a worker owns, beside those that Django opens for its threads.

They persist whatever CONN_MAX_AGE says: a new connection costs more than a message.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import psycopg
from django.db import connections, router
from psycopg.conninfo import make_conninfo
from psycopg.types.string import TextLoader

from pgqueue.conf import settings
from pgqueue.database import forking
from pgqueue.database.migration_check import needing_tables
from pgqueue.database.transactions import IDLE_IN_TRANSACTION
from pgqueue.values.readable import ReadableCursor, read_as_iso, reading

READ_ONLY = "the server is read-only: a standby, or its default_transaction_read_only is on"
POOLED = "DISABLE_SERVER_SIDE_CURSORS"
"""The Django setting that tells of a transaction pooler that can't be detected by its pids."""
TRANSACTION_STATE = "25"
"""The SQLSTATE class of invalid transaction states, such as 25006: read-only transaction."""
SHORT = 1.0
"""Seconds. Services look for work at least this often."""
CLOCK = "SELECT extract(epoch FROM statement_timestamp())::float8"


AWAY = (psycopg.OperationalError, psycopg.InterfaceError, psycopg.InternalError)
"""Errors that a connection raises which is lost, or whose server can't answer now."""


class _RawJSON(TextLoader):
    """Leave JSON as bytes: the runner parses it, so that a bad payload affects one message only."""

    def load(self, data: Any) -> bytes:
        return bytes(data)


def connect(alias: str, *, name: str) -> psycopg.Connection[Any]:
    """Open a connection to the database `alias` as Django would, in autocommit.

    Args:
        name: its purpose; it is added to the project's application_name, which PostgreSQL shows.
    """
    connection = _open(alias, name)
    _set_up(connection, alias)
    return connection


def _open(alias: str, name: str, **more: str) -> psycopg.Connection[Any]:
    wrapper = connections[alias]
    lease = settings().lease.total_seconds()
    # A heartbeat must notice a dead server before a third of a lease is over.
    patience = min(max(lease / 6, 1), 10)
    parameters = dict(wrapper.get_connection_params())
    # Without Django's cursors, adapters and pools: these connections prepare statements.
    for key in ("context", "cursor_factory", "prepare_threshold"):
        parameters.pop(key, None)
    theirs = parameters.pop("application_name", "")
    parameters.setdefault("connect_timeout", 10)
    parameters.setdefault("keepalives_idle", int(patience))
    parameters.setdefault("keepalives_interval", 1)
    parameters.setdefault("keepalives_count", 5)
    parameters.setdefault("tcp_user_timeout", int(2000 * patience))
    parameters["application_name"] = f"{theirs} pgqueue {name}".lstrip()
    parameters["cursor_factory"] = ReadableCursor
    connection = psycopg.connect(**{**parameters, **more}, autocommit=True)
    forking.cut_in_children(connection)
    return connection


def conninfo(alias: str) -> str:
    """Return how libpq connects to the database `alias`, with its password."""
    parameters = connections[alias].get_connection_params()
    known = {each.keyword.decode() for each in psycopg.pq.Conninfo.get_defaults()}
    return make_conninfo(
        **{
            name: value
            for name, value in parameters.items()
            if name in known and name != "client_encoding"
        }
    )


def _set_up(connection: psycopg.Connection[Any], alias: str) -> None:
    """Configure the connection as our statements expect it; close it if that fails."""
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
        # A DNS name may lag behind a failover, and the old primary may come back as a standby.
        # libpq could check that, but pgbouncer reports the state of its first server (its issue
        # 859).
        raise psycopg.OperationalError(READ_ONLY)
    if role := wrapper.settings_dict["OPTIONS"].get("assume_role"):
        connection.execute(psycopg.sql.SQL("SET ROLE {}").format(psycopg.sql.Identifier(role)))
    if connection.info.backend_pid != pid or wrapper.settings_dict.get(POOLED):
        # A transaction pooler: each transaction may run in another server process, without this
        # one's settings. A claim counts after it has locked, and must see what was committed
        # meanwhile.
        connection.prepare_threshold = None
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    else:
        _set(connection, SETTINGS)
    # pgbouncer, too, keeps these two as its client has set them.
    read_as_iso(connection)


SETTINGS = {
    # In a time zone west of Greenwich a time in the year 1 may be in the year 0, which Python
    # can't read: a claim that returns one would be lost.
    "TimeZone": "UTC",
    # Our statements are written for READ COMMITTED, whatever the database's default is.
    "default_transaction_isolation": "read committed",
    "default_transaction_deferrable": "off",
    # A worker that is stopped or cut off in the middle of a claim must not keep its lanes
    # locked: the router waits for them. Python does nothing long between two of our statements.
    "idle_in_transaction_session_timeout": IDLE_IN_TRANSACTION,
    # None of our statements takes so long, except behind an unexpected lock: then it fails, is
    # logged and tried again, instead of waiting silently.
    "statement_timeout": "45s",
    # A role's own limits are meant for its other sessions: ours wait for locks and for work.
    "lock_timeout": "0",
    "idle_session_timeout": "0",
    "exit_on_error": "off",
    # JIT compilation takes longer than any of our statements. Planning takes as long as running
    # them, and their plans don't depend on the parameters.
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
    # A plan is kept until the next ANALYZE. A plan made while a table was empty, as queues
    # often are, would read the whole table for each message later.
    "enable_seqscan": "off",
    # How values are read and written.
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "standard_conforming_strings": "on",
    "array_nulls": "on",
    "transform_null_equals": "off",
    "quote_all_identifiers": "off",
}
"""What our statements rely on. A role or a database may set any of these otherwise."""
SINCE_17 = {"transaction_timeout": "0"}


def _set(connection: psycopg.Connection[Any], settings: Mapping[str, str]) -> None:
    if connection.info.server_version >= 170000:
        settings = {**settings, **SINCE_17}
    connection.execute("; ".join(f"SET {name} = '{value}'" for name, value in settings.items()))


def _server(connection: psycopg.Connection[Any]) -> tuple[int, bool]:
    """Return the pid of the server process that answers, and whether it is read-only."""
    row = connection.execute(
        "SELECT pg_backend_pid(), current_setting('transaction_read_only')::boolean"
    ).fetchone()
    return row or (0, False)


@contextmanager
def borrow(alias: str) -> Iterator[psycopg.Connection[Any]]:
    """Lend this thread's Django connection: statements on it join its transaction.

    Raises:
        django.db.Error: in place of psycopg's errors, as Django's own queries do.
        NotMigrated: the database lacks our tables, or has old ones.
    """
    wrapper = connections[alias]
    wrapper.ensure_connection()
    with needing_tables(alias), wrapper.wrap_database_errors, reading(wrapper.connection):
        yield wrapper.connection


def tell_iso(connection: Any, **_: Any) -> None:
    """Have a connection of Django's that was opened be readable, if it may have our tables.

    A receiver of Django's `connection_created`. In another style psycopg, and so Django, reads no
    time at all.
    """
    if connection.vendor == "postgresql" and router.allow_migrate(connection.alias, "pgqueue"):
        read_as_iso(connection.connection)


class Contact:
    """Measures for how long the database has answered without a break.

    The age of a connection is no measure: behind a pooler it outlives the server, and it also
    outlives a pause of the process or the network.

    It also begins again when the server's clock has stepped forward: that ends leases, too, and
    their workers need a lease to renew them.

    Args:
        lease: a break much shorter than a lease may stay unnoticed: leases are renewed three times
            in that time.
    """

    def __init__(self, *, lease: timedelta) -> None:
        seconds = lease.total_seconds()
        self._longest_answer = max(seconds / 6, SHORT)
        self._longest_silence = seconds / 3 + SHORT
        self._connection: psycopg.Connection[Any] | None = None
        self._since = self._answered_at = self._asked_at = self._their_clock = 0.0

    def lasting(self, connection: psycopg.Connection[Any]) -> timedelta:
        """Send a query; return for how long the database has answered on this connection."""
        asked_at = time.monotonic()
        row = connection.execute(CLOCK).fetchone()
        their_clock = row[0] if row else 0.0
        self.note_answer()
        is_slow = self._answered_at - asked_at > self._longest_answer
        passed = their_clock - self._their_clock
        has_stepped = passed > self._answered_at - self._asked_at + self._longest_answer
        if is_slow or has_stepped or connection is not self._connection:
            self._connection, self._since = connection, self._answered_at
        self._asked_at, self._their_clock = asked_at, their_clock
        return timedelta(seconds=self._answered_at - self._since)

    def note_answer(self) -> None:
        """Note that the database has just answered a statement.

        After too long a silence the time begins again: the statement may have waited for an outage
        to end.
        """
        now = time.monotonic()
        if now - self._answered_at > self._longest_silence:
            self._since = now
        self._answered_at = now


class Session:
    """A connection that one service owns: opened at its first use, replaced when it is broken.

    Args:
        name: its purpose.
        parameters: of libpq, beside the ones in Django's settings.
    """

    def __init__(self, alias: str, *, name: str, **parameters: str) -> None:
        self.alias = alias
        self.name = name
        self._parameters = parameters
        self._connection: psycopg.Connection[Any] | None = None
        self._is_set_up = False

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """The open connection; a new one if there is none, or it was lost.

        Raises:
            psycopg.OperationalError: the database is not reachable.
        """
        connection = self._opened()
        if not self._is_set_up:
            # Stored before this: it may get no answer, for example behind a pooler, and must be
            # cuttable.
            _set_up(connection, self.alias)
            self._is_set_up = True
        return connection

    def open(self) -> psycopg.Connection[Any]:
        """Open the connection without configuring it yet; the first use does that.

        Raises:
            psycopg.OperationalError: the database is not reachable at any of its addresses.
        """
        return self._opened()

    def _opened(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            self._is_set_up = False
            self._connection = _open(self.alias, self.name, **self._parameters)
        return self._connection

    @property
    def is_open(self) -> bool:
        """Whether there is an open connection."""
        return self._connection is not None and not self._connection.closed

    def cut(self) -> None:
        """End the connection from another thread, while its owner waits for an answer on it.

        If a server or a network is completely silent, no setting of the connection ends the wait.
        """
        connection = self._connection
        with suppress(OSError, psycopg.OperationalError):
            if connection is not None:
                with socket.socket(fileno=os.dup(connection.fileno())) as its:
                    # If it is closed by now, the number may belong to another file.
                    if not connection.closed:
                        its.shutdown(socket.SHUT_RDWR)

    def close_after(self, error: BaseException) -> None:
        """Close the connection if this error shows that it is unusable, although it is open.

        Either its server has become read-only, or a pooler lost its server and answered twice, so
        that answers no longer match statements: psycopg raises that error itself, without an
        SQLSTATE. Other internal errors of the server, such as a damaged index, occur on any
        connection; a new one would only lose the time for which this one has answered (see
        `Contact`).
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
