"""Every few seconds: what was done, what waits, how large everything is."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Any

import psycopg

from pgqueue.database.sql_files import load
from tests.chaos.harness.server import Server
from tests.chaos.soak.fleet import Fleet, megabytes
from tests.chaos.soak.record import Record
from tests.system import children

SQL = load(__name__)
EVERY = 5.0


class Sampler(threading.Thread):
    """Writes a sample every 5 s until stopped; none while the server is away."""

    def __init__(self, server: Server, fleet: Fleet, record: Record) -> None:
        super().__init__(name="sampler", daemon=True)
        self._server = server
        self._fleet = fleet
        self._record = record
        self._connection: psycopg.Connection[Any] | None = None
        self._since: datetime | None = None
        self._oldest = 0
        self._stopping = threading.Event()

    def run(self) -> None:
        """Sample until told to stop. The first one only finds out from when to count."""
        while not self._stopping.wait(EVERY - self._record.clock % EVERY):
            with suppress(psycopg.OperationalError):
                self._sample()
        if self._connection:
            self._connection.close()

    def stop(self) -> None:
        """End it, and wait for that.

        Raises:
            AssertionError: an error ended it before, and the plot would end there, too.
        """
        assert self.is_alive(), "the sampler has ended by itself"
        self._stopping.set()
        self.join(30)

    def _sample(self) -> None:
        if self._connection is None or self._connection.closed:
            self._connection = self._server.connect()
        since = self._since
        # What it found goes nowhere if it is cut off in the middle: the next counts it, too.
        found = self._look(self._connection.execute, since)
        if since:
            self._record.write("sample", **found)

    def _look(
        self, execute: Callable[..., psycopg.Cursor[Any]], since: datetime | None
    ) -> dict[str, Any]:
        bounds = {"oldest": self._oldest, "since": since or datetime.max}
        [(now, ended, waits)] = execute(SQL["ended"], bounds).fetchall()
        states = execute(SQL["backlog"]).fetchall()
        sizes = execute(SQL["sizes"]).fetchall()
        tuples = execute(SQL["tuples"]).fetchall()
        [(newest,)] = execute("SELECT coalesce(max(id), 0) FROM pgqueue_message").fetchall()

        self._since = now
        self._oldest = min([oldest for *_, oldest in states if oldest], default=newest)
        return {
            "per_s": round(ended / (now - since).total_seconds(), 1) if since else 0,
            "wait_ms": [round(wait, 1) for wait in waits or []],
            "backlog": {state: count for state, count, _ in states},
            "bytes": dict(sizes),
            "dead": {table: dead for table, dead, _ in tuples},
            "vacuums": {table: vacuums for table, _, vacuums in tuples},
            "worker_mb": {name: round(size) for name, size in self._fleet.memory().items()},
            "server_mb": round(self._memory_of_the_server()),
        }

    def _memory_of_the_server(self) -> float:
        """Sum up what its processes have each for themselves, and what they share once."""
        pids = children(self._server.pid)
        shared = max((megabytes(pid, "RssShmem") for pid in pids), default=0)
        return shared + sum(megabytes(pid, "RssAnon") for pid in pids)
