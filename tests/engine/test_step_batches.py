"""Steps of several messages that are stored in one statement."""

from __future__ import annotations

from datetime import timedelta

import pytest
from psycopg import DataError

from pgqueue.engine import lease, steps
from pgqueue.engine.steps import DoneStep, StoredStep
from pgqueue.engine.values import Claim
from pgqueue.models import Step
from tests.factories import OVER, Connection, claim, run

SECOND = timedelta(seconds=1)


def done(held: Claim, name: str = "charge", result: str | None = "7") -> DoneStep:
    return DoneStep(held, StoredStep(name, 1, "step", "charge", result=result), SECOND)


def keys(*stored: DoneStep) -> set[tuple[int, str]]:
    return {(each.claim.id, each.step.name) for each in stored}


def names() -> set[tuple[int, str]]:
    return set(Step.objects.values_list("message_id", "name"))


def test_are_stored_as_one_by_one(connection: Connection) -> None:
    alone, together = run(connection, 2)
    step = StoredStep("charge", 3, "atomic", "shop.charge", result='{"a": 1}', tries=2)

    steps.store(connection, alone, step, took=SECOND)
    assert steps.store_done(connection, [DoneStep(together, step, SECOND)]) == {
        (together.id, "charge")
    }

    rows = [
        {
            field.name: getattr(each, field.name)
            for field in Step._meta.concrete_fields
            if field.name not in ("message_id", "started_at", "finished_at")
        }
        for each in Step.objects.all()
    ]
    assert rows[0] == rows[1]
    for each in Step.objects.all():
        assert each.finished_at is not None
        assert each.finished_at - each.started_at == SECOND


def test_of_one_message_are_stored_together(connection: Connection) -> None:
    [held] = run(connection)
    both = [done(held, "charge"), done(held, "ship", None)]

    assert steps.store_done(connection, both) == keys(*both) == names()


def test_of_a_lost_lease_are_left_out(connection: Connection) -> None:
    lost = run(connection, lease=OVER)
    lease.rescue(connection, max_lost=3)
    [again] = claim(connection)
    [held] = run(connection)

    assert again.id == lost[0].id
    assert steps.store_done(connection, [done(lost[0]), done(held)]) == keys(done(held))
    assert names() == keys(done(held))
    assert steps.store_done(connection, [done(again)]) == keys(done(again))


def test_of_a_locked_message_are_left_out_and_nothing_waits(
    connection: Connection, other: Connection
) -> None:
    locked, held = run(connection, 2)
    other.execute("SET lock_timeout = '1ms'")
    with connection.transaction():
        connection.execute("SELECT FROM pgqueue_message WHERE id = %s FOR UPDATE", [locked.id])

        assert steps.store_done(other, [done(locked), done(held)]) == keys(done(held))


def test_during_a_rescue_that_is_not_committed_are_left_out(
    connection: Connection, other: Connection
) -> None:
    [held] = run(connection, lease=OVER)
    with connection.transaction():
        assert len(lease.rescue(connection, max_lost=3)) == 1

        assert steps.store_done(other, [done(held)]) == set()

    assert names() == set()


def test_keep_a_rescue_away_until_their_commit(connection: Connection, other: Connection) -> None:
    [held] = run(connection, lease=OVER)
    with connection.transaction():
        steps.store_done(connection, [done(held)])

        assert lease.rescue(other, max_lost=3) == []
        free = other.execute("SELECT FROM pgqueue_message FOR NO KEY UPDATE SKIP LOCKED").fetchall()
        assert free == [], "an UPDATE must wait, too"


def test_that_are_done_stay_as_they_are(connection: Connection) -> None:
    [held] = run(connection)
    steps.store_done(connection, [done(held)])

    assert steps.store_done(connection, [done(held, result="8")]) == set()
    assert Step.objects.get().result == 7


@pytest.mark.parametrize("state", ["retrying", "waiting"])
def test_take_the_place_of_a_try_before(connection: Connection, state: str) -> None:
    [held] = run(connection)
    before = StoredStep("charge", 1, "step", "charge", state=state, error='{"class": "Oops"}')
    steps.store(connection, held, before, delay=SECOND)

    assert steps.store_done(connection, [done(held)]) == keys(done(held))

    step = Step.objects.get()
    assert (step.state, step.result, step.error, step.until) == ("done", 7, None, None)


def test_are_not_stored_if_one_result_is_not_storable(connection: Connection) -> None:
    bad, held = run(connection, 2)

    with pytest.raises(DataError):
        steps.store_done(connection, [done(bad, result='"\\u0000"'), done(held)])

    assert names() == set()
