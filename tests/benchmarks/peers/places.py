"""Where peers store: a database with nothing else in it, and one with a million finished tasks."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import psycopg
from django.db import connections
from psycopg.conninfo import make_conninfo
from psycopg.sql import SQL, Identifier

from tests.benchmarks.harness.database import ROOT
from tests.benchmarks.harness.group import Group
from tests.system import free_port

if TYPE_CHECKING:
    from redis import Redis


class Place:
    """A database, and the Redis that all share."""

    def __init__(self, database: str, *, redis_url: str | None, is_full: bool) -> None:
        self.database = database
        self.redis_url = redis_url
        self.is_full = is_full

    @property
    def environment(self) -> dict[str, str]:
        """What tells a process of it."""
        address, mark, options = os.environ["DATABASE_URL"].partition("?")
        redis = {"REDIS_URL": self.redis_url} if self.redis_url else {}
        return {
            **os.environ,
            "DATABASE_URL": f"{address.rpartition('/')[0]}/{self.database}{mark}{options}",
            "PEERS_DSN": make_conninfo(**_parameters(self.database)),
            # As Django has it by default; the test project has checks of health.
            "CONN_HEALTH_CHECKS": "0",
            **redis,
        }

    @cached_property
    def redis(self) -> Redis:
        """A client."""
        from redis import Redis

        if self.redis_url is None:
            raise RuntimeError("There is no Redis.")
        return Redis.from_url(self.redis_url)

    def ask(self, statement: str, parameters: Mapping[str, Any] | None = None) -> Any:
        """Return the one value that a statement returns."""
        [row] = self._connection.execute(statement.encode(), parameters).fetchall()
        return row[0]

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Return what a statement returns."""
        return self._connection.execute(statement.encode()).fetchall()

    def execute(self, statement: str, parameters: Mapping[str, Any] | None = None) -> None:
        """Execute and commit a statement."""
        self._connection.execute(statement.encode(), parameters)

    def settle_down(self, tables: Sequence[str]) -> None:
        """Have the server do now what it would otherwise do while a queue is measured."""
        self.execute(f"VACUUM (ANALYZE) {', '.join(tables)}")
        with suppress(psycopg.errors.InsufficientPrivilege):
            self.execute("CHECKPOINT")

    def close(self) -> None:
        """Let go of the database."""
        self._connection.close()

    @cached_property
    def _connection(self) -> psycopg.Connection[Any]:
        return psycopg.connect(**_parameters(self.database), autocommit=True)


@contextmanager
def places() -> Iterator[tuple[Place, Place]]:
    """Have both while this lasts: the empty one, which Django knows, and the full one."""
    name = connections["default"].settings_dict["NAME"]
    full = f"{name}_full"
    with (
        _redis() as redis_url,
        psycopg.connect(**_parameters("postgres"), autocommit=True) as server,
    ):
        # Of a run that was killed.
        server.execute(SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(Identifier(full)))
        server.execute(SQL("CREATE DATABASE {}").format(Identifier(full)))
        both = (
            Place(name, redis_url=redis_url, is_full=False),
            Place(full, redis_url=redis_url, is_full=True),
        )
        try:
            for place in both:
                _migrate(place)
            yield both
        finally:
            for place in both:
                place.close()
            server.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(full)))


def _parameters(database: str) -> dict[str, Any]:
    found = connections["default"].get_connection_params()
    wanted = ("host", "port", "user", "password", "sslmode")
    return {**{key: found[key] for key in wanted if key in found}, "dbname": database}


def _migrate(place: Place) -> None:
    subprocess.run(
        [sys.executable, "manage.py", "migrate", "--verbosity", "0"],
        check=True,
        cwd=ROOT,
        env=place.environment,
    )
    place.execute("CREATE TABLE peers_ledger (number bigint NOT NULL, at float8 NOT NULL)")


@contextmanager
def _redis() -> Iterator[str | None]:
    """Have a Redis that writes nothing to disk, on a port of its own; None where it is missing."""
    program = shutil.which("redis-server")
    if program is None:
        yield None
        return
    port = free_port()
    with TemporaryDirectory() as folder:
        options = {"bind": "127.0.0.1", "port": str(port), "dir": folder}
        options |= {"save": "", "appendonly": "no"}
        arguments = [word for name, value in options.items() for word in (f"--{name}", value)]
        with Group([program, *arguments], environment=os.environ, cwd=ROOT) as server:
            _wait_for(port, server)
            yield f"redis://127.0.0.1:{port}/0"


def _wait_for(port: int, server: Group) -> None:
    for _ in range(500):
        with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return
        if server.has_ended:
            break
        time.sleep(0.02)
    raise RuntimeError(f"redis-server does not start. It said:\n{server.said()}")
