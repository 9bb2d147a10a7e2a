"""One claim, of which a later statement fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from unittest.mock import patch

import psycopg
import pytest

from pgqueue.database.connections import connect
from pgqueue.engine import claim as engine
from pgqueue.engine import claim_governed, route
from tests.claims import claimer
from tests.factories import Connection, enqueue, limit

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def connection() -> Iterator[Connection]:
    with closing(connect("default", name="test")) as connection:
        yield connection


def failing(*args: object, **kwargs: object) -> None:
    raise psycopg.OperationalError("the server is gone")


@pytest.mark.parametrize("turn", [0, 1], ids=["free first", "governed first"])
def test_what_was_claimed_before_an_error_is_returned(connection: Connection, turn: int) -> None:
    limit("governed", max_running=1)
    governed = enqueue(connection, 1, channel="governed", key="a")
    free = enqueue(connection, 1)
    ours = claimer(connection)
    ours._governed_first = bool(turn)  # a claim turns it over

    broken = (claim_governed, "claim") if turn else (engine, "claim")
    with patch.object(*broken, side_effect=failing):
        claimed = ours.claim(10)

    assert [each.claim.id for each in claimed] == (free if turn else governed)


def test_an_error_is_raised_where_nothing_was_claimed(connection: Connection) -> None:
    enqueue(connection, 1)

    with (
        patch.object(route, "look", side_effect=failing),
        patch.object(engine, "channels", side_effect=failing),
        pytest.raises(psycopg.OperationalError, match="gone"),
    ):
        claimer(connection).claim(10)
