"""The database that a run measures on: made for it alone, and dropped afterwards."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg.sql import SQL as Text
from psycopg.sql import Identifier

ROOT = Path(__file__).resolve().parents[3]
LOCK = 0x70677162  # "pgqb": one run of benchmarks at a time on a server


WITH_EVENTS = {"wal_level": "logical"}


@contextmanager
def database(*, by_wal: bool = False) -> Iterator[None]:
    """Make a database, and point Django and the workers to it while this lasts.

    Args:
        by_wal: the WAL is to be followed; an embedded server that is started writes it so.
    """
    os.environ.update(
        DATABASE_URL=_url(by_wal=by_wal),
        DJANGO_SETTINGS_MODULE="tests.benchmarks.harness.settings",
        DEBUG="0",
    )
    import django

    django.setup()

    from django.core.management import call_command
    from django.db import connections

    parameters = connections["default"].get_connection_params()
    name = Identifier(connections["default"].settings_dict["NAME"])
    with _server(parameters) as server:
        # Of a run that was killed.
        server.execute(Text("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))
        server.execute(Text("CREATE DATABASE {}").format(name))
        try:
            call_command("migrate", verbosity=0)
            yield
        finally:
            connections.close_all()
            server.execute(Text("DROP DATABASE {} WITH (FORCE)").format(name))


def _url(*, by_wal: bool) -> str:
    """Return the address of the server, with a database beside the one it names."""
    address, query, options = server_url(by_wal=by_wal).partition("?")
    return f"{address}_bench{query}{options}"


def server_url(*, by_wal: bool = False) -> str:
    """Return the address of the server, and of a database on it."""
    if "DATABASE_URL" in os.environ:
        return os.environ["DATABASE_URL"]
    from pgqueue import embedded

    found = embedded.hold(project=ROOT, settings=WITH_EVENTS if by_wal else {})
    # For django-environ, which would leave libpq's %2F as it is.
    return "postgresql://{user}@:{port}/{host}/{dbname}".format_map(found)


@contextmanager
def _server(parameters: dict[str, Any]) -> Iterator[psycopg.Connection[Any]]:
    """Connect to the server, for us alone among benchmarks."""
    wanted = ("host", "port", "user", "password", "sslmode")
    found = {key: parameters[key] for key in wanted if key in parameters}
    with psycopg.connect(**found, dbname="postgres", autocommit=True) as server:
        row = server.execute("SELECT pg_try_advisory_lock(%s)", [LOCK]).fetchone()
        if row != (True,):
            print("Waiting for other benchmarks on this server …", file=sys.stderr)
            server.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        yield server
