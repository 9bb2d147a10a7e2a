"""The embedded server that the tests run on."""

from __future__ import annotations

import os
from pathlib import Path

import psycopg

from pgqueue import embedded

PROJECT = Path(__file__).parent / os.environ.get("TESTS_SERVER", "")
"""Not the repository: the demo and the benchmarks use the server of that, which is durable. With
another TESTS_SERVER, a run of pytest has a server of its own beside another run.
"""

WITHOUT_FLUSHES = {"fsync": "off", "full_page_writes": "off"}
"""The data of the tests need not survive a crash of the machine. `tests/chaos` starts its own,
durable servers; `synchronous_commit` keeps its default, since the code under test changes it."""


SETTINGS = {"wal_level": "logical", "max_connections": "500"}
"""The WAL of the tests can be followed, and each process of pytest-xdist keeps some 40 sessions."""


def hold() -> None:
    """Start the server, and keep it up while this process lives.

    Raises EmbeddedServerError where PostgreSQL is missing or does not start.
    """
    found = embedded.hold(project=PROJECT, settings=SETTINGS)
    with psycopg.connect(**found, autocommit=True) as connection:
        for name, value in WITHOUT_FLUSHES.items():
            connection.execute(f"ALTER SYSTEM SET {name} = {value}")
        connection.execute("SELECT pg_reload_conf()")
