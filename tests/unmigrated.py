"""Databases without our tables, or with old ones, for tests of what is said about that."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch
from uuid import uuid4

from django.db import connections
from django.db.migrations.executor import MigrationExecutor
from psycopg.sql import SQL, Identifier

from tests.eventually import eventually


@contextmanager
def empty_database(alias: str = "default") -> Iterator[None]:
    """Have an alias lead to a database without any table, which is dropped at the end."""
    # It would go on with its connection to the database that the alias leads to now.
    eventually(lambda: not listens(), what="a listener has subscriptions, or lingers")
    connection = connections[alias]
    name = f"{connection.settings_dict['NAME']}_{uuid4().hex[:8]}"
    with connection.cursor() as cursor:
        cursor.execute(SQL("CREATE DATABASE {} TEMPLATE template0").format(Identifier(name)))
    connection.close()
    try:
        with patch.dict(connection.settings_dict, NAME=name):
            yield
            connection.close()
    finally:
        with connection.cursor() as cursor:
            cursor.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))


def listens() -> bool:
    """Return whether this process has a listener."""
    return any(each.name == "listener" for each in threading.enumerate())


def migrate(to: str | None = None) -> None:
    """Apply our migrations, all of them or those up to one."""
    executor = MigrationExecutor(connections["default"])
    targets = [("pgqueue", to)] if to else executor.loader.graph.leaf_nodes("pgqueue")
    executor.migrate(targets)
