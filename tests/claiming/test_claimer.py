"""The statements of one claim: in which order, how many, and where one fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from itertools import count
from unittest.mock import Mock, patch

import psycopg
import pytest

from pgqueue import flow
from pgqueue.claiming import claimer as claiming
from pgqueue.database.connections import connect
from pgqueue.engine import claim as engine
from pgqueue.engine import claim_governed, route, settle
from pgqueue.engine.route import Look, Routed
from tests import jobs
from tests.claims import claimer
from tests.factories import Connection, done, enqueue, limit

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


def test_each_step_of_a_chain_is_claimed_after_one_look(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A millisecond passes from one look at the clock to the next: none from the front is due."""
    moments = count(1_000)
    monkeypatch.setattr(claiming, "time", Mock(monotonic=lambda: next(moments) / 1_000))
    ours = claimer(connection)
    with flow("chain") as f:
        steps = [f.enqueue(jobs.add, 1, 2)]
        for _ in range(6):
            steps.append(f.enqueue(jobs.add, 1, 2, after=steps[-1]))
    claimed = [each.claim for each in ours.claim(10)]

    for step in steps[1:]:
        settle.complete(connection, [done(each) for each in claimed])
        with (
            patch.object(route, "look", side_effect=route.look) as looks,
            patch.object(route, "channels", side_effect=route.channels) as governed,
        ):
            claimed = [each.claim for each in ours.claim(10, thoroughly=False)]

        assert [each.id for each in claimed] == [step.message_id]
        assert (looks.call_count, governed.call_count) == (1, 0)


def test_a_claim_that_is_overtaken_looks_no_further(connection: Connection) -> None:
    has_news = False
    ours = claimer(connection, is_overtaken=lambda: has_news)
    assert ours.claim(10) == []  # it has looked from the front
    enqueue(connection, 1)
    ours._governed_first = False  # a claim turns it over

    has_news = True
    with patch.object(route, "look", side_effect=route.look) as looks:
        assert ours.claim(10) == []

    assert looks.call_count == 1
    has_news = False
    assert len(ours.claim(10)) == 1


def test_a_ripe_lane_of_others_that_was_routed_ends_no_nap(connection: Connection) -> None:
    ours = claimer(connection)
    looks = [Look(False, False, timedelta()), Look(False, False, None)]

    with (
        patch.object(route, "look", side_effect=looks),
        patch.object(route, "route", return_value=Routed(0, frozenset(), has_marked=True)),
    ):
        assert ours.claim(10) == []

    assert ours._governed.wake_in is None


def test_a_claim_that_is_overtaken_keeps_its_messages(connection: Connection) -> None:
    limit("governed", max_running=1)
    governed = enqueue(connection, 1, channel="governed", key="a")

    claimed = claimer(connection, is_overtaken=lambda: True).claim(10)

    assert [each.claim.id for each in claimed] == governed
