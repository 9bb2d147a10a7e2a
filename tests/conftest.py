import math
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from unittest.mock import patch

import pytest
from django.db import OperationalError, connections, transaction
from django.test import TransactionTestCase
from hypothesis import settings
from pytest_django import DjangoDbBlocker

# The same examples each time: what lands is not a matter of luck. To look for more,
# `pytest --hypothesis-profile=default`, which finds others in each run.
settings.register_profile("repeatable", derandomize=True)
settings.load_profile("repeatable")


def pytest_configure(config: pytest.Config) -> None:
    """Start the embedded server and keep it up while the tests run."""
    # A worker of pytest-xdist is a child of the process that already holds it.
    if "DATABASE_URL" not in os.environ and not hasattr(config, "workerinput"):
        from pgqueue import embedded

        embedded.hold(project=Path(__file__).parent.parent)


@pytest.fixture(scope="session", autouse=True)
def _tables_are_swept() -> Iterator[None]:
    """Empty the tables by DELETE after a test that commits.

    Django's way, a TRUNCATE of every table and what migrations do at their end, takes longer than
    most tests.
    """

    def sweep(test: TransactionTestCase) -> None:
        for alias in test._databases_names(include_mirrors=False):
            with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
                cursor.execute("; ".join(f'DELETE FROM "{name}"' for name in _tables(alias)))  # noqa: S608

    with patch.object(TransactionTestCase, "_fixture_teardown", sweep):
        yield


@pytest.fixture(scope="session", autouse=True)
def _nobody_is_left(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """End, and name, sessions that tests left behind: no database is dropped under them."""
    yield
    with django_db_blocker.unblock():
        made = [
            each for each in connections.all() if each.settings_dict["NAME"].startswith("test_")
        ]
        for each in made:
            with suppress(OperationalError), each.cursor() as cursor:
                cursor.execute(
                    "SELECT application_name, state, left(query, 200), "
                    "pg_terminate_backend(pid, 5000) "
                    "FROM pg_stat_activity WHERE datname = current_database() "
                    "AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
                )
                for left in cursor.fetchall():
                    print("\nA test has left a session behind:", *left, file=sys.stderr)


@cache
def _tables(alias: str) -> list[str]:
    kept = {"django_migrations", "django_content_type", "auth_permission"}
    introspection = connections[alias].introspection
    names = introspection.django_table_names(only_existing=True, include_views=False)
    return sorted(set(names) - kept)


@pytest.fixture
def looks_are_expensive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let who looks from the front in vain not look again for a second; see `turns`."""
    constants = {"EXPENSIVE": 0, "LOOK_AGAIN_COST_WHEN_IDLE": math.inf, "LOOK_AGAIN_COST": math.inf}
    for name, value in {**constants, "LOOK_AGAIN_AT_LATEST": 1.0}.items():
        monkeypatch.setattr(f"pgqueue.claiming.turns.{name}", value)
