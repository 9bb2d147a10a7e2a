"""`manage.py pgqueue_restored`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from pgqueue.database.connections import connect
from pgqueue.engine import exports, identity
from pgqueue.engine.values import Position
from pgqueue.models import LogFloor
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


def test_it_lowers_a_floor_of_another_clusters_transactions(connection: Connection) -> None:
    (following,) = one(connection, "SELECT pg_current_xact_id()::text::bigint")
    LogFloor.objects.create(log="history", position=2**40)
    LogFloor.objects.create(log="event", position=2**40)

    call("pgqueue_restored")

    assert following < LogFloor.objects.get(log="history").position < 2**40
    assert LogFloor.objects.get(log="event").position == 2**40


@pytest.mark.usefixtures("_exported")
def test_it_says_the_same_as_json(connection: Connection) -> None:
    called = call("pgqueue_restored", "--format=json")

    assert called.json == {"identity": identity.of(connection), "exports": ["/lake"]}
