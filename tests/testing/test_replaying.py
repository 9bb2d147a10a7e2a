"""Calling the function of a durable message again, for a debugger."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group

from pgqueue import InvalidStep, TaskResultDoesNotExist
from pgqueue.models import Message, Step
from pgqueue.testing import Replayed, advance, replay, run_all
from tests import jobs
from tests.durable import tasks
from tests.durable.tasks import Approval
from tests.testing import durable_jobs

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    tasks.calls.clear()


def test_it_stops_in_front_of_the_first_step_that_is_not_done() -> None:
    result = tasks.sleeps.enqueue()
    run_all(raise_errors=True)
    before = list(Step.objects.values())

    replayed = replay(result.id)

    assert replayed == Replayed(None, "sleep", ["add"], [])
    assert tasks.calls == ["add"]
    assert list(Step.objects.values()) == before
    assert replay(tasks.plain.enqueue(1).id).stopped_at == "add"


def test_an_ended_message_is_replayed_to_its_end() -> None:
    result = tasks.asks.enqueue()
    result.signal("approved", Approval("ann", [1]))
    run_all(raise_errors=True)
    assert not Message.objects.exists()

    assert replay(int(result.id)) == Replayed("ann [1]", None, ["wait:approved"], [])


def test_a_wait_for_a_signal_that_has_come_takes_nothing() -> None:
    result = tasks.asks.enqueue()
    run_all(raise_errors=True)
    result.signal("approved", Approval("ann", [1]))

    assert replay(result.id).stopped_at == "wait:approved"
    run_all(raise_errors=True)
    result.refresh()
    assert result.return_value == "ann [1]"


def test_what_the_code_between_steps_writes_is_rolled_back() -> None:
    result = durable_jobs.writes_between.enqueue()
    run_all(raise_errors=True)
    assert Group.objects.count() == 1

    assert replay(result.id).value == "written"

    assert Group.objects.count() == 1


def test_an_error_of_the_function_is_raised() -> None:
    result = durable_jobs.fails_between.using(max_attempts=1).enqueue()
    run_all()

    with pytest.raises(ZeroDivisionError):
        replay(result.id)


def test_an_async_function_is_replayed() -> None:
    result = tasks.asynchronous.enqueue()
    run_all(raise_errors=True)

    replayed = replay(result.id)

    assert replayed.stopped_at == "wait:go"
    assert replayed.visited == ["now", "fetch", "add", "double"]


def test_a_message_that_has_no_steps_is_named() -> None:
    with pytest.raises(TaskResultDoesNotExist, match="no message 123"):
        replay(123)
    with pytest.raises(InvalidStep, match=r"jobs\.add is not durable"):
        replay(jobs.add.enqueue(1).id)


def test_waits_end_when_time_is_moved() -> None:
    result = durable_jobs.sleeps_long.enqueue()
    run_all(raise_errors=True)

    advance(14 * 86_400)
    run_all(raise_errors=True)

    result.refresh()
    assert result.return_value == "awake"
