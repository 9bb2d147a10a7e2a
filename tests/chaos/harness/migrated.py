"""A server that has all the tables."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.chaos.harness.server import Server, home, url
from tests.starting import ROOT, run

TABLES = Path(__file__).parent.parent / "tables.sql"


@contextmanager
def migrated(name: str, *, root: Path = ROOT) -> Iterator[Server]:
    """Make a server with migrated tables, stopped; it is gone at the end.

    Args:
        root: the checkout whose tables it has.
    """
    with home(name) as folder:
        server = Server(folder)
        server.make_cluster()
        server.start()
        try:
            _fill(server, root)
            server.stop()
            yield server
        finally:
            server.stop("immediate")


def migrate(server: Server, root: Path = ROOT) -> None:
    """Run `manage.py migrate` of a checkout."""
    run(
        ["manage.py", "migrate", "-v", "0"],
        check=True,
        cwd=root,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.chaos.settings",
            "DATABASE_URL": url(server.port),
        },
    )


def _fill(server: Server, root: Path) -> None:
    with closing(server.connect(dbname="postgres")) as connection:
        connection.execute("CREATE DATABASE chaos")
    migrate(server, root)
    with closing(server.connect()) as connection:
        connection.execute(TABLES.read_text())
