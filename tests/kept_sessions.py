"""Sessions of this process that one test after another uses.

A new session reads the catalog, and plans each statement before it runs for the first time. This
takes longer than most tests. So `close()` keeps an idle session in the server, and the next
`connect()` with the same parameters gets it, reset, in a new object of psycopg. The plans of its
prepared statements are kept.

A test marked `new_sessions` gets sessions that are opened and closed for it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Lock
from typing import Any
from unittest.mock import patch

import psycopg
from psycopg._preparing import PrepareManager
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Escaping, ExecStatus, PGconn, TransactionStatus

from pgqueue.database import forking

Connection = psycopg.Connection[Any]
OK = ExecStatus.COMMAND_OK

RESET = (
    b"CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; UNLISTEN *; "
    b"SELECT pg_advisory_unlock_all(), pg_stat_force_next_flush(); "
    b"DISCARD TEMP; DISCARD SEQUENCES; SET application_name = 'kept for the next test'"
)
"""What DISCARD ALL does, but that prepared statements and their plans are kept. The statistics of
the test are flushed: else the next test would find them in its own transaction."""

_connect = psycopg.Connection._connect_gen.__func__  # type: ignore[attr-defined]
_close = psycopg.Connection.close


@dataclass(eq=False)
class _Idle:
    pgconn: PGconn
    prepared: PrepareManager

    def fileno(self) -> int:
        """Return the session's socket."""
        return self.pgconn.socket


class KeptSessions:
    """Idle sessions by the parameters of their connection, but for the application's name."""

    def __init__(self) -> None:
        self.is_on = True
        self._idle: dict[str, list[_Idle]] = {}
        self._parameters: dict[PGconn, str] = {}
        self._lock = Lock()
        self._closed = PGconn.connect_start(b"host=/nonexistent")
        self._closed.finish()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep the sessions that are closed in this block, and close them at its end."""

        def connect(cls: type[Connection], conninfo: str = "") -> Generator[Any, Any, Connection]:
            return (yield from self._connect(cls, conninfo))

        with (
            patch.object(psycopg.Connection, "_connect_gen", classmethod(connect)),
            patch.object(psycopg.Connection, "close", lambda session: self._close(session)),
        ):
            try:
                yield
            finally:
                self.clear()

    def clear(self) -> None:
        """Close the idle sessions."""
        with self._lock:
            for sessions in self._idle.values():
                for each in sessions:
                    self._finish(each.pgconn)
            self._idle.clear()

    def _connect(self, cls: type[Connection], conninfo: str) -> Generator[Any, Any, Connection]:
        given = conninfo_to_dict(conninfo)
        name = str(given.pop("application_name", ""))
        key = make_conninfo("", **given) if self.is_on and _is_ours(given) else None
        if key is not None and (kept := self._take(key, name)):
            session = cls(kept.pgconn)
            session._prepared = kept.prepared
            return session
        session = yield from _connect(cls, conninfo)
        if key is not None:
            self._parameters[session.pgconn] = key
        return session

    def _take(self, key: str, name: str) -> _Idle | None:
        while True:
            with self._lock:
                idle = self._idle.get(key)
                if not idle:
                    return None
                kept = idle.pop()
            named = Escaping(kept.pgconn).escape_literal(name.encode())
            # It fails if another test has ended the process in the server.
            if kept.pgconn.exec_(b"SET application_name = " + named).status == OK:
                while kept.pgconn.notifies():  # of the test before
                    pass
                return kept
            self._finish(kept.pgconn)

    def _close(self, session: Connection) -> None:
        pgconn = session.pgconn
        key = self._parameters.get(pgconn)
        if session.closed or key is None or not self._is_reset(session):
            self._parameters.pop(pgconn, None)
            _close(session)
            return
        session._closed = True
        session.pgconn = self._closed
        idle = _Idle(pgconn, session._prepared)
        forking.cut_in_children(idle)
        with self._lock:
            self._idle.setdefault(key, []).append(idle)

    def _is_reset(self, session: Connection) -> bool:
        pgconn = session.pgconn
        if (
            not self.is_on
            or pgconn.transaction_status != TransactionStatus.IDLE
            or pgconn.pipeline_status
            or session._pipeline is not None
        ):
            return False
        pgconn.notice_handler = pgconn.notify_handler = None
        with suppress(psycopg.Error):
            return pgconn.exec_(RESET).status == OK
        return False

    def _finish(self, pgconn: PGconn) -> None:
        self._parameters.pop(pgconn, None)
        pgconn.finish()


def _is_ours(parameters: dict[str, Any]) -> bool:
    """Tell whether it is a database of the suite, on the server of the suite."""
    host, name = str(parameters.get("host", "")), str(parameters.get("dbname", ""))
    return host.startswith("/") and "pgqueue" in host and name.startswith("test_")
