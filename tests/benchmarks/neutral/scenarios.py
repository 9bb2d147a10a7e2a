"""The phases: each function lasts for so many seconds, and does to a queue what its name says."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import psycopg

from tests.chaos.harness.server import Server

READERS = 4
KILLS_A_SECOND = 2


@dataclass(frozen=True)
class Meddling:
    """The parts that a phase may disturb: the server, its database, the process of the adapter.

    Args:
        table: the first of the queue's tables.
        restart: kills the adapter, and starts it again.
    """

    server: Server
    dbname: str
    table: str
    restart: Callable[[], None]

    def connect(self) -> psycopg.Connection[tuple[object, ...]]:
        """Open a connection to the queue's database."""
        return self.server.connect(dbname=self.dbname, application_name="meddler")


def clean(given: Meddling, seconds: float) -> None:
    """Do nothing."""
    time.sleep(seconds)


def idle(given: Meddling, seconds: float) -> None:
    """Hold a transaction open that has an id and a snapshot."""
    with given.connect() as connection:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT txid_current()")
        time.sleep(seconds)
        connection.execute("ROLLBACK")


def readers(given: Meddling, seconds: float) -> None:
    """Scan the queue's first table by transactions that overlap."""
    stopping = threading.Event()

    def read() -> None:
        with given.connect() as connection:
            while not stopping.is_set():
                connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
                for _ in range(10):
                    connection.execute(f"SELECT count(*) FROM {given.table}")  # noqa: S608
                    stopping.wait(0.1)
                connection.execute("ROLLBACK")

    threads = [threading.Thread(target=read, daemon=True) for _ in range(READERS)]
    for each in threads:
        each.start()
    time.sleep(seconds)
    stopping.set()
    for each in threads:
        each.join(10)


def chaos(given: Meddling, seconds: float) -> None:
    """Terminate backends, restart the server, and kill the worker: each has a third of the time.

    In this thread: the server ends with the thread that has started it.
    """
    until = time.monotonic() + seconds / 6
    while time.monotonic() < until:
        with suppress(psycopg.Error), given.connect() as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid() "
                "AND backend_type = 'client backend' ORDER BY random() LIMIT 1"
            )
        time.sleep(1 / KILLS_A_SECOND)
    time.sleep(seconds / 6)
    given.server.stop("immediate")
    given.server.start()
    time.sleep(seconds / 3)
    given.restart()
    time.sleep(seconds / 3)


PHASES = {"clean": clean, "idle": idle, "readers": readers, "chaos": chaos}
