"""`manage.py pgqueue_restored`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from pgqueue.database.connections import connect
from pgqueue.engine import exports, identity
from pgqueue.engine.values import Position
from tests.factories import Connection, ended, exported, one
from tests.management.calling import call

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def connection() -> Iterator[Connection]:
    with closing(connect("default", name="test")) as connection:
        yield connection


@pytest.fixture
def _exported(connection: Connection) -> None:
    ended(connection)
    exported(connection, Position(*one(connection, "SELECT txid, id FROM pgqueue_history")))


@pytest.mark.usefixtures("_exported")
def test_it_gives_the_database_another_identity(connection: Connection) -> None:
    before = identity.of(connection)
    assert exports.passed(connection) > Position(0, 0)

    called = call("pgqueue_restored")

    assert identity.of(connection) != before
    assert called.lines[0].startswith(f"The database is {identity.of(connection)} now")
    assert called.lines[1].endswith("manage.py pgqueue_export --forget /lake")
    # Retention takes no notice of what was exported before.
    assert exports.passed(connection).txid == 0


@pytest.mark.usefixtures("_exported")
def test_it_says_the_same_as_json(connection: Connection) -> None:
    called = call("pgqueue_restored", "--format=json")

    assert called.json == {"identity": identity.of(connection), "exports": ["/lake"]}
