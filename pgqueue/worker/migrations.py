"""Wait until `manage.py migrate` has made the tables that this version needs.

A deploy may start workers before or during the migration.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Collection
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
from pgqueue.worker.watchdog import SaysWell

APP = "pgqueue"
LOOK = timedelta(seconds=1)
APPLIED = "SELECT name FROM {} WHERE app = %s"


def wait_until_migrated(
    alias: str, session: MainSession, requests: StopRequests, *, wellness: SaysWell
) -> bool:
    """Wait until all migrations of pgqueue are applied, looking once a second.

    The first look that finds a missing migration is logged. After it, this also waits while the
    database is away.

    Args:
        alias: the queue's database.
        requests: requests to stop, which end the wait.
        wellness: tells during the wait, after each look, that this process is well.

    Returns:
        False if a request to stop ended the wait.

    Raises:
        psycopg.OperationalError: the database is unreachable at the first look.
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
        wellness.say_well()
        requests.wait(LOOK)
    return False


def unapplied(connection: Connection) -> list[str]:
    """Return the names of this version's migrations that were not applied, in their order.

    All names, if no migration was ever recorded. No names, if this role may not read the records:
    then the first statement on a missing table raises the error.
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
    # None: MIGRATION_MODULES disables the app's migrations.
    path = import_module(package).__path__ if package else []
    return sorted(each.name for each in pkgutil.iter_modules(path) if not each.ispkg)


def _is_applied(package: str | None, name: str, applied: Collection[str]) -> bool:
    """Return whether a migration is recorded, or all migrations that it replaces are."""
    if name in applied:
        return True
    replaced = import_module(f"{package}.{name}").Migration.replaces
    return bool(replaced) and {each for _, each in replaced} <= set(applied)
