"""`migrate` is killed before each statement of the newest migrations, and run again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
import pytest
from django.db import DatabaseError, connections
from psycopg.sql import SQL, Identifier
from pytest_django import DjangoDbBlocker

from pgqueue import Channel
from pgqueue.database.connections import connect
from pgqueue.database.migration_check import NotMigrated
from pgqueue.models import Message
from tests import jobs
from tests.unmigrated import empty_database, migrate

# A database is copied, which nobody may use meanwhile.
pytestmark = [pytest.mark.slow, pytest.mark.new_sessions]

NEWEST = (
    "0015_tenant_metrics",
    "0016_more_weights",
    "0017_breakers",
    "0018_truncation",
    "0019_begun_runs",
)
BEFORE = "0014_jit"
SCHEMA = """
SELECT 'column', format('%s.%s %s %s %s %s', table_name, column_name, data_type, is_nullable,
                        column_default, generation_expression)
FROM information_schema.columns WHERE table_schema = 'public'
UNION ALL
SELECT 'index', indexdef FROM pg_indexes WHERE schemaname = 'public'
UNION ALL
SELECT 'constraint', format('%s %s %s', conrelid::regclass, conname, pg_get_constraintdef(oid))
FROM pg_constraint WHERE connamespace = 'public'::regnamespace
UNION ALL
SELECT 'function', pg_get_functiondef(oid) FROM pg_proc
WHERE pronamespace = 'public'::regnamespace AND prokind = 'f'
UNION ALL
SELECT 'trigger', pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
UNION ALL
SELECT 'relation', format('%s %s %s', relname, relkind, reloptions) FROM pg_class
WHERE relnamespace = 'public'::regnamespace
UNION ALL
SELECT 'migration', name FROM django_migrations WHERE app = 'pgqueue'
ORDER BY 1, 2
"""


RECORD = 'INSERT INTO "django_migrations"'


class StatementKiller:
    """Ends the server's process of a session before its statement of a number.

    Attributes:
        statements: how many statements there were.

    Args:
        number: None: it ends none.
        of: only statements that begin so count.
    """

    def __init__(self, admin: psycopg.Connection[Any], number: int | None, of: str = "") -> None:
        self._admin = admin
        self._number = number
        self._of = of
        self.statements = 0

    def __call__(
        self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any
    ) -> Any:
        self.statements += str(sql).startswith(self._of)
        if self.statements == self._number:
            self._number = None
            pid = context["connection"].connection.info.backend_pid
            self._admin.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
        return execute(sql, params, many, context)


def migrate_until_killed(admin: psycopg.Connection[Any], number: int | None, of: str = "") -> int:
    """Apply the newest migrations; return how many statements were sent."""
    connection = connections["default"]
    connection.ensure_connection()
    killer = StatementKiller(admin, number, of)
    with suppress(DatabaseError), connection.execute_wrapper(killer):
        migrate()
    # A process that was killed left no session, nor its transaction.
    session = connection.connection
    connection.connect()
    connection.close()
    if session is not None:
        session.close()
    return killer.statements


def schema() -> list[tuple[str, str]]:
    with connections["default"].cursor() as cursor:
        cursor.execute(SCHEMA)
        rows: list[tuple[str, str]] = cursor.fetchall()
    connections["default"].close()
    return rows


@pytest.fixture(scope="module")
def before(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[str]:
    """The name of a database that lacks the newest migrations."""
    with django_db_blocker.unblock(), empty_database():
        migrate(BEFORE)
        connections["default"].close()
        yield connections["default"].settings_dict["NAME"]


@contextmanager
def copied(name: str, admin: psycopg.Connection[Any]) -> Iterator[None]:
    """Have the alias lead to a copy of a database."""
    settings = connections["default"].settings_dict
    copy = f"{name}_copy"
    admin.execute(SQL("CREATE DATABASE {} TEMPLATE {}").format(Identifier(copy), Identifier(name)))
    settings["NAME"] = copy
    try:
        yield
    finally:
        connections["default"].close()
        settings["NAME"] = name
        admin.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(copy)))


@pytest.fixture(scope="module")
def admin(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Any]:
    with django_db_blocker.unblock():
        admin = connect("default", name="admin")
    yield admin
    admin.close()


@pytest.mark.parametrize("number", range(1, len(NEWEST) + 1))
def test_a_migration_is_recorded_in_its_own_transaction(
    admin: psycopg.Connection[Any], before: str, django_db_blocker: DjangoDbBlocker, number: int
) -> None:
    with django_db_blocker.unblock(), copied(before, admin):
        assert migrate_until_killed(admin, number, RECORD) == number

        migrate()

        assert ("migration", NEWEST[-1]) in schema()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.nightly)])
def test_a_migration_that_was_killed_anywhere_ends_as_another_one(
    admin: psycopg.Connection[Any], before: str, django_db_blocker: DjangoDbBlocker, every: int
) -> None:
    with django_db_blocker.unblock():
        with copied(before, admin):
            count = migrate_until_killed(admin, None)
            expected = schema()
        for number in range(1, count + 1, every):
            with copied(before, admin):
                migrate_until_killed(admin, number)

                migrate()

                assert schema() == expected, f"killed before statement {number} of {count}"

    assert count > 3 * len(NEWEST)
    assert {name for kind, name in expected if kind == "migration"} >= set(NEWEST)


def test_a_producer_that_is_newer_than_the_tables_stores_messages_or_says_what_is_missing(
    admin: psycopg.Connection[Any], before: str, django_db_blocker: DjangoDbBlocker
) -> None:
    with django_db_blocker.unblock(), copied(before, admin):
        result = jobs.add.enqueue(1, 2)
        with pytest.raises(NotMigrated, match=r"breaker_\w+.*run manage.py migrate"):
            Channel("default").policy(max_running=1)

        migrate()

        assert Message.objects.get().pk == int(result.id)
        Channel("default").policy(max_running=1)


def test_the_newest_migrations_are_tried() -> None:
    from django.db.migrations.loader import MigrationLoader

    graph = MigrationLoader(None, ignore_no_migrations=True).graph
    [(_, newest)] = graph.leaf_nodes("pgqueue")

    assert newest == NEWEST[-1], f"add {newest} to NEWEST, so that it is killed, too"
