"""Asserting what was enqueued."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group

from pgqueue.exceptions import UnknownTask
from pgqueue.testing import advance, assert_enqueued, assert_not_enqueued, run_all
from tests import jobs
from tests.backend import jobs as django_tasks

pytestmark = pytest.mark.django_db


def test_a_waiting_message_is_returned() -> None:
    first, second = jobs.add.enqueue(1), jobs.add.using(run_after=60).enqueue(2)
    held = jobs.add.hold(for_=60).enqueue(3)

    assert [each.id for each in assert_enqueued(jobs.add)] == [first.id, second.id, held.id]
    assert_not_enqueued(jobs.double)


def test_a_message_that_has_ended_does_not_wait() -> None:
    jobs.add.enqueue(1)
    run_all()

    assert_not_enqueued(jobs.add)
    with pytest.raises(AssertionError, match="Were they run already"):
        assert_enqueued(jobs.add)


@pytest.mark.parametrize(
    ("args", "kwargs"), [((1, 2), None), ((1,), {"b": 2}), (None, {"a": 1, "b": 2}), ([1, 2], {})]
)
def test_a_call_is_the_same_however_it_is_written(args: Any, kwargs: Any) -> None:
    jobs.add.enqueue(1, b=2)

    assert_enqueued(jobs.add, args=args, kwargs=kwargs)


def test_defaults_count_as_given() -> None:
    jobs.add.enqueue(1)

    assert_enqueued(jobs.add, args=(1, 0))


def test_a_call_whose_model_instance_is_gone_is_another_one() -> None:
    group, other = Group.objects.create(name="one"), Group.objects.create(name="two")
    jobs.rename.enqueue(group, "x")
    jobs.rename.enqueue(other, "y")
    group.delete()

    assert_enqueued(jobs.rename, args=(other, "y"), count=1)
    assert_not_enqueued(jobs.rename, args=(other, "x"))
    with pytest.raises(AssertionError, match="its arguments can't be read"):
        assert_enqueued(jobs.rename, args=(other, "x"))


@pytest.mark.parametrize("args", [(1,), (2, 2), (1, 2, 3), ()])
def test_another_call_is_not_the_same(args: tuple[int, ...]) -> None:
    jobs.add.enqueue(1, b=2)

    assert_not_enqueued(jobs.add, args=args)


def test_arguments_are_compared_as_what_they_are() -> None:
    group = Group.objects.create(name="one")
    jobs.rename.enqueue(group, "two")

    assert_enqueued(jobs.rename, args=(group, "two"))
    assert_not_enqueued(jobs.rename, args=(Group.objects.create(name="three"), "two"))


def test_a_context_is_no_argument() -> None:
    jobs.attempt_number.enqueue()

    assert_enqueued(jobs.attempt_number, args=())


def test_messages_are_counted() -> None:
    jobs.add.enqueue_many([(1,), (1,), (2,)])

    assert_enqueued(jobs.add, count=3)
    assert_enqueued(jobs.add, args=(1,), count=2)
    with pytest.raises(AssertionError, match=r"Expected 1 messages of tests\.jobs\.add .* found 2"):
        assert_enqueued(jobs.add, args=(1,), count=1)


def test_channel_and_key_are_compared() -> None:
    jobs.add.using(channel="mail", key="k").enqueue(1)

    assert_enqueued(jobs.add, channel="mail", key="k")
    assert_not_enqueued(jobs.add, channel="default")
    assert_not_enqueued(jobs.add, channel="mail", key="")


@pytest.mark.parametrize("run_after", [300, timedelta(minutes=5)])
def test_a_delay_is_compared(run_after: Any) -> None:
    jobs.add.using(run_after=300).enqueue(1)

    assert_enqueued(jobs.add, run_after=run_after)
    assert_not_enqueued(jobs.add, run_after=0)
    advance(200)
    assert_enqueued(jobs.add, run_after=run_after)


def test_a_time_is_compared() -> None:
    at = datetime(2090, 1, 2, 3, 4, 5, tzinfo=UTC)
    jobs.add.using(run_after=at).enqueue(1)

    assert_enqueued(jobs.add, run_after=at)
    assert_not_enqueued(jobs.add, run_after=at + timedelta(minutes=1))


@pytest.mark.parametrize("named", [lambda: django_tasks.add, lambda: "tests.backend.jobs.add"])
def test_a_task_of_django_is_known(named: Callable[[], Any]) -> None:
    django_tasks.add.enqueue(1, b=2)

    assert_enqueued(named(), args=(1, 2), count=1)


def test_an_unknown_task_is_an_error() -> None:
    with pytest.raises(UnknownTask, match="shop.tasks.gone"):
        assert_not_enqueued("shop.tasks.gone")


def test_a_failure_lists_what_waits() -> None:
    jobs.add.using(channel="mail", key="k").enqueue(1, b=2)

    with pytest.raises(AssertionError) as raised:
        assert_enqueued(jobs.add, args=(7,))

    text = str(raised.value)
    assert (
        "Expected one or more messages of tests.jobs.add with args=(7,) to wait, found 0." in text
    )
    assert "args=[1], kwargs={'b': 2}, channel='mail', key='k', ready" in text
