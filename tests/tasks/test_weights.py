"""The weight of a message, from each way to enqueue it on to each way to run it again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection as django

from pgqueue import batch, flow, send
from pgqueue.database.connections import borrow
from pgqueue.exceptions import InvalidMessage, InvalidTask
from pgqueue.models import History, Message, Schedule
from pgqueue.tasks import scheduling
from pgqueue.tasks.options import weight_of
from tests import factories, jobs
from tests.backend import jobs as djangos_jobs

pytestmark = pytest.mark.django_db(transaction=True)


def weights() -> list[int]:
    """Return the weights that claims read, in the order of the messages."""
    with django.cursor() as cursor:
        cursor.execute(
            "SELECT coalesce((options ->> 'weight')::int, 1) FROM pgqueue_message ORDER BY id"
        )
        return [weight for (weight,) in cursor.fetchall()]


def in_a_flow() -> None:
    with flow("lifts") as f:
        f.enqueue(jobs.lift, f.enqueue(jobs.add.using(weight=5), 1))


def in_a_batch() -> None:
    with batch() as work:
        work.enqueue(jobs.lift, 1)
        work.enqueue(jobs.add.using(weight=5), 1)


def by_a_schedule() -> None:
    Schedule.objects.create(name="s", task=jobs.lift.name, cron="@daily", timezone="UTC", args=[1])
    scheduling.run("s")


PRODUCERS: dict[str, Callable[[], Any]] = {
    "decorator": lambda: jobs.lift.enqueue(1),
    "using": lambda: jobs.add.using(weight=5).enqueue(1),
    "later": lambda: jobs.lift.using(run_after=60).enqueue(1),
    "enqueue_many": lambda: jobs.lift.enqueue_many([(number,) for number in range(300)]),
    "debounced": lambda: [
        jobs.add.using(dedupe_key="d", on_conflict="replace").enqueue(1),
        jobs.lift.using(dedupe_key="d", on_conflict="replace").enqueue(1),
    ],
    "hold": lambda: jobs.lift.hold(for_=60).enqueue(1),
    "flow": in_a_flow,
    "batch": in_a_batch,
    "schedule": by_a_schedule,
    "django.tasks": lambda: djangos_jobs.lift.enqueue(1),
    "django.tasks.using": lambda: djangos_jobs.add.using(weight=5).enqueue(1),
    "send": lambda: send("mail", {}, weight=5),
    "command": lambda: call_command("pgqueue_enqueue", jobs.add.name, "a=1", "--weight=5"),
}


@pytest.mark.parametrize("producer", PRODUCERS)
def test_is_stored_however_a_message_is_enqueued(producer: str) -> None:
    PRODUCERS[producer]()

    assert {*weights()} == {5}


def test_is_one_for_a_message_whose_using_says_so() -> None:
    jobs.lift.using(weight=1).enqueue(1)
    jobs.add.enqueue(1)
    send("mail", {})
    send("mail", {}, weight=1)

    assert weights() == [1, 1, 1, 1]


@pytest.mark.parametrize("weight", [0, 101, 2.5, True, "5", None])
def test_is_refused_by_name(weight: Any) -> None:
    with pytest.raises(InvalidTask, match=r"weight=.*whole number from 1 to 100"):
        jobs.add.using(weight=weight)
    with pytest.raises(InvalidMessage, match=r"weight=.*whole number from 1 to 100"):
        send("mail", {}, weight=weight)


@pytest.fixture
def connection() -> Iterator[factories.Connection]:
    with borrow("default") as connection:
        yield connection


def test_is_kept_by_a_retry_a_replay_and_a_rerun(connection: factories.Connection) -> None:
    result = jobs.lift.enqueue(1)
    [claim] = factories.claim(connection)
    factories.settle.retry(connection, [factories.failure(claim, delay=timedelta(0))])
    assert weights() == [5]

    [claim] = factories.claim(connection)
    factories.settle.bury(connection, [factories.failure(claim)])
    Message.objects.dead().replay()
    assert weights() == [5]

    [claim] = factories.claim(connection)
    factories.settle.complete(connection, [factories.done(claim)])
    assert weight_of(History.objects.get().options) == 5
    result.rerun()
    call_command("pgqueue_rerun", result.id)
    assert weights() == [5, 5]


@pytest.mark.parametrize(
    ("options", "weight"),
    [
        (None, 1),
        ([], 1),
        ({}, 1),
        ({"weight": 5}, 5),
        ({"weight": True}, 1),
        ({"weight": "5"}, 1),
        ({"weight": -1}, 1),
        ({"weight": 1e300}, 100),
        ({"weight": Decimal("2.4")}, 2),
    ],
)
def test_is_shown_as_claims_read_it(options: Any, weight: int) -> None:
    assert weight_of(options) == weight
