import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from unittest.mock import patch

import pytest
from django.db import connections, transaction
from django.test import TransactionTestCase
from hypothesis import settings

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


@cache
def _tables(alias: str) -> list[str]:
    kept = {"django_migrations", "django_content_type", "auth_permission"}
    introspection = connections[alias].introspection
    names = introspection.django_table_names(only_existing=True, include_views=False)
    return sorted(set(names) - kept)
