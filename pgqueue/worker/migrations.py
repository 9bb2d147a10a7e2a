"""Wait until `manage.py migrate` has made the tables that this version needs.

A deploy may start workers before it has migrated, or while it does.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Collection
from datetime import timedelta
from importlib import import_module

import psycopg
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from psycopg.errors import InsufficientPrivilege, UndefinedTable
from psycopg.sql import SQL, Identifier

from pgqueue import signals
from pgqueue.engine.values import Connection
from pgqueue.worker.main_session import MainSession
from pgqueue.worker.stopping import StopRequests

APP = "pgqueue"
LOOK = timedelta(seconds=1)
APPLIED = "SELECT name FROM {} WHERE app = %s"


def wait_until_migrated(
    alias: str, session: MainSession, requests: StopRequests, *, on_look: Callable[[], None]
) -> bool:
    """Wait until all migrations of pgqueue are applied, looking once a second.

    The first look that finds one missing is logged; after it an outage of the database is waited
    for, too.

    Args:
        alias: the queue's database.
        requests: end the wait.
        on_look: called while it waits, after each look.

    Returns:
        False if it was asked to stop before.

    Raises:
        psycopg.OperationalError: the database can't be reached at the first look.
    """
    is_told = False
    while not requests.count:
        try:
            with session.connected() as connection:
                missing = unapplied(connection)
        except psycopg.OperationalError:
            if not is_told:
                raise
        else:
            if not missing:
                return True
            if not is_told:
                is_told = True
                signals.send(signals.tables_missing, None, database=alias, missing=missing)
        on_look()
        requests.wait(LOOK)
    return False


def unapplied(connection: Connection) -> list[str]:
    """Return the names of this version's migrations that were not applied, in their order.

    All of them if no migration was ever recorded. None if this role may not read which were: then
    the first statement that finds a table missing says so.
    """
    table = Identifier(MigrationRecorder.Migration._meta.db_table)
    try:
        rows = connection.execute(SQL(APPLIED).format(table), [APP])
        applied = {name for (name,) in rows}
    except UndefinedTable:
        applied = set()
    except InsufficientPrivilege:
        return []
    package, _ = MigrationLoader.migrations_module(APP)
    return [name for name in _names(package) if not _is_applied(package, name, applied)]


def _names(package: str | None) -> list[str]:
    # None: by MIGRATION_MODULES the app has no migrations.
    path = import_module(package).__path__ if package else []
    return sorted(each.name for each in pkgutil.iter_modules(path) if not each.ispkg)


def _is_applied(package: str | None, name: str, applied: Collection[str]) -> bool:
    """Return whether a migration is recorded, or all those that it replaces are."""
    if name in applied:
        return True
    replaced = import_module(f"{package}.{name}").Migration.replaces
    return bool(replaced) and {each for _, each in replaced} <= set(applied)
