"""One migrated database, of which each process of pytest-xdist gets copies.

The first process that needs it makes it; the others wait for that. The template's comment is the
id of the test run, written last: a template that is incomplete, or of another run, is made again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import connections
from psycopg.sql import SQL, Identifier

LOCK = 0x70677174  # "pgqt"
COMMENT = """
SELECT shobj_description(oid, 'pg_database') = %s FROM pg_database WHERE datname = %s
"""


def use(run: str) -> None:
    """Have Django copy the template for each test database; make it unless this run has one."""
    name = _name()
    with _server() as server:
        server.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        if server.execute(COMMENT, [run, name]).fetchone() != (True,):
            _make(name)
            server.execute(SQL("COMMENT ON DATABASE {} IS {}").format(Identifier(name), run))
    for alias in connections:
        connections[alias].settings_dict["TEST"]["TEMPLATE"] = name


def drop() -> None:
    """Drop the template, if there is one."""
    with _server() as server:
        server.execute(SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(Identifier(_name())))


def _make(name: str) -> None:
    settings = connections["default"].settings_dict
    its_own, its_test = settings["NAME"], settings["TEST"]["NAME"]
    settings["TEST"]["NAME"] = name
    try:
        creation = connections["default"].creation
        creation.create_test_db(verbosity=0, autoclobber=True)
        # No database is copied while a session is open on it.
        connections["default"].close()
    finally:
        settings["NAME"], settings["TEST"]["NAME"] = its_own, its_test


def _name() -> str:
    return f"test_{connections['default'].settings_dict['NAME']}_template"


@contextmanager
def _server() -> Iterator[psycopg.Connection[Any]]:
    """Connect to the database that every server has."""
    parameters = connections["default"].get_connection_params()
    wanted = ("host", "port", "user", "password", "sslmode")
    found = {key: parameters[key] for key in wanted if key in parameters}
    with psycopg.connect(**found, dbname="postgres", autocommit=True) as server:
        yield server
