"""A server that has all the tables."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.chaos.harness.server import Server, home, url
from tests.starting import run

TABLES = Path(__file__).parent.parent / "tables.sql"


@contextmanager
def migrated(name: str) -> Iterator[Server]:
    """Make a server with migrated tables, stopped; it is gone at the end."""
    with home(name) as folder:
        server = Server(folder)
        server.make_cluster()
        server.start()
        try:
            _fill(server)
            server.stop()
            yield server
        finally:
            server.stop("immediate")


def _fill(server: Server) -> None:
    with closing(server.connect(dbname="postgres")) as connection:
        connection.execute("CREATE DATABASE chaos")
    run(
        ["manage.py", "migrate", "-v", "0"],
        check=True,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.chaos.settings",
            "DATABASE_URL": url(server.port),
        },
    )
    with closing(server.connect()) as connection:
        connection.execute(TABLES.read_text())
