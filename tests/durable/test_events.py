"""Durable runs that wait for events of the log."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction

from pgqueue import Event, publish
from pgqueue.durable import DurableContext
from pgqueue.exceptions import InvalidEvent, InvalidFilter, InvalidStep, WaitTimeout
from pgqueue.models import EventWait, Message, StoredSignal
from pgqueue.testing import advance, run_all
from tests.durable.running import Oops, attempts, deliver, durable, kept, refused, returned, run

pytestmark = pytest.mark.django_db(transaction=True)


class Settled(Event, topic="durable.settled"):
    order: int
    total: int


def pays(**options: Any) -> Any:
    """Return a durable task that waits for a payment, and returns its key and total."""

    @durable
    def works(run: DurableContext) -> Any:
        paid = run.wait_for_event("payment.settled", **options)
        return None if paid is None else [paid.key, paid.payload["total"]]

    return works


def pay(total: int, key: str = "7") -> None:
    publish("payment.settled", {"total": total}, key=key)


@pytest.mark.parametrize("when", ["before", "while", "after"])
def test_an_event_since_the_enqueue_is_found(when: str) -> None:
    pay(1)
    result = pays(key="7", timeout=60).enqueue()
    pay(2, key="8")
    deliver()
    if when == "before":
        pay(12)
        deliver()
    elif when == "while":
        pay(12)  # it has no position yet
    run(result)
    if when == "after":
        assert EventWait.objects.count() == 1
        pay(13, key="8")
        pay(12)
    deliver()

    assert returned(result) == ["7", 12]
    assert not EventWait.objects.exists()
    assert attempts(result) == (1 if when == "before" else 2)


def test_conditions_on_the_payload_are_met() -> None:
    result = pays(where={"total__gte": 10}).enqueue()
    pay(9)
    deliver()
    run(result)
    pay(8)
    pay(11, key="x")
    pay(12)
    deliver()

    assert returned(result) == ["x", 11]


def test_conditions_hold_for_events_before_too() -> None:
    result = pays(key="7", where={"total__gte": 10}).enqueue()
    for total in (9, 11, 12):
        pay(total)
    deliver()

    assert returned(result) == ["7", 11]


def test_an_event_behind_a_position_is_found() -> None:
    for total in (1, 2, 3):
        pay(total)
    deliver()

    @durable
    def works(run: DurableContext, after: int) -> list[int]:
        totals = []
        for _ in range(3):
            event = run.wait_for_event("payment.settled", after=after)
            assert event is not None
            totals.append(event.payload["total"])
            after = event.position
        return totals

    assert returned(works.enqueue(0)) == [1, 2, 3]


def test_a_class_of_events_gives_its_instances() -> None:
    seen = []

    @durable
    def works(run: DurableContext) -> None:
        for _ in range(2):
            seen.append(run.wait_for_event(Settled, where={"order": 17}))
            run.sleep(0)

    result = works.enqueue()
    publish(Settled(order=17, total=3))
    deliver()
    returned(result)

    assert len(seen) > 2
    assert {(each.order, each.total) for each in seen if each} == {(17, 3)}
    assert all(isinstance(each, Settled) for each in seen)


def test_an_event_that_is_rolled_back_never_was() -> None:
    result = pays().enqueue()
    run(result)
    with pytest.raises(Oops), transaction.atomic():
        pay(1)
        raise Oops
    deliver()

    assert run(result) == "held"
    pay(2)
    deliver()
    assert returned(result) == ["7", 2]


def test_an_event_of_another_topic_wakes_nobody() -> None:
    result = pays().enqueue()
    run(result)
    publish("payment.refused", {"total": 1})
    deliver()

    assert run(result) == "held"
    assert attempts(result) == 1


def test_the_first_of_several_events_is_taken_once() -> None:
    result = pays(key="7").enqueue()
    run(result)
    for total in (1, 2, 3):
        pay(total)
    deliver()
    pay(4)
    deliver()
    assert StoredSignal.objects.count() == 1

    assert returned(result) == ["7", 1]
    assert attempts(result) == 2


def test_one_event_wakes_every_run_that_waits_for_it() -> None:
    task = pays(key="7")
    results = [task.enqueue() for _ in range(3)]
    run_all()
    pay(1)
    deliver()

    assert [returned(each) for each in results] == [["7", 1]] * 3


@pytest.mark.parametrize("required", [True, False])
def test_a_timeout_ends_the_wait(required: bool) -> None:
    @durable
    def works(run: DurableContext) -> str:
        try:
            return str(run.wait_for_event("payment.settled", timeout=60, required=required))
        except WaitTimeout as error:
            return str(error)

    result = works.enqueue()
    assert run(result) == "scheduled"
    advance(30)
    assert run(result) == "scheduled"
    advance(31)

    assert ("event 'payment.settled'" if required else "None") in returned(result)
    assert not EventWait.objects.exists()


def test_an_event_that_came_at_last_wins_against_the_timeout() -> None:
    result = pays(timeout=60).enqueue()
    run(result)
    advance(120)
    pay(5)
    deliver()

    assert returned(result) == ["7", 5]


def test_a_wait_leaves_nothing_behind_where_its_run_ends() -> None:
    result = pays(timeout=3600).enqueue()
    run(result)
    assert EventWait.objects.exists()
    result.cancel()

    assert run(result) == "cancelled"
    assert not EventWait.objects.exists()
    pay(1)
    deliver()
    assert not StoredSignal.objects.exists()


def test_a_worker_that_dies_before_it_has_looked_misses_nothing() -> None:
    from unittest.mock import patch

    from pgqueue.durable import waiting

    result = pays(key="7").enqueue()
    with patch.object(waiting, "_look", side_effect=SystemExit):
        run_all()
    assert EventWait.objects.exists()
    pay(1)
    deliver()
    Message.objects.all().run_now()

    assert returned(result) == ["7", 1]


def test_a_round_of_a_loop_does_not_get_the_event_of_the_round_before() -> None:
    @durable
    def works(run: DurableContext, after: int, totals: list[int]) -> list[int]:
        key = "7" if not totals else "8"
        event = run.wait_for_event("payment.settled", key=key, after=after)
        assert event is not None
        totals = [*totals, event.payload["total"]]
        if len(totals) == 2:
            return totals
        # The dispatch has matched another event meanwhile; and an earlier release has waited, too.
        EventWait.objects.create(
            message_id=run.claim.id, step="event:payment.settled", topic="gone", position=0
        )
        StoredSignal.objects.create(
            message_id=run.claim.id, name="@event:payment.settled", payload={"payload": {}}
        )
        raise run.continue_as(event.position, totals)

    result = works.enqueue(0, [])
    pay(1)
    deliver()
    run(result)
    assert EventWait.objects.get().key == "8"
    pay(2)
    pay(3, key="8")
    deliver()

    assert returned(result) == [1, 3]


def test_history_keeps_the_event() -> None:
    result = pays().enqueue()
    run(result)
    pay(3)
    deliver()
    returned(result)

    [step] = kept(result)["steps"]
    assert step["result"]["payload"]["payload"] == {"total": 3}


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"topic": "a.*"}, InvalidEvent),
        ({"topic": ""}, InvalidEvent),
        ({"topic": 7}, InvalidEvent),
        ({"topic": "a", "key": 7}, InvalidStep),
        ({"topic": "a", "where": 7}, InvalidFilter),
        ({"topic": "a", "timeout": "soon"}, InvalidStep),
    ],
)
def test_invalid_arguments_are_refused(given: Any, error: Any) -> None:
    def works(run: DurableContext) -> None:
        run.wait_for_event(**given)

    refused(works, with_=error)
