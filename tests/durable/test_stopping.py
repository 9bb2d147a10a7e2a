"""A worker that stops lets a durable run end its step, and repeats nothing."""

from __future__ import annotations

import signal

import pytest
from django.contrib.auth.models import Group

from pgqueue.models import Message, Step
from pgqueue.states import State
from pgqueue.testing import run_all
from tests.durable import tasks
from tests.eventually import eventually
from tests.processes import worker

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def names() -> list[str]:
    return list(Group.objects.order_by("pk").values_list("name", flat=True))


@pytest.mark.parametrize("arguments", [[], ["--processes", "1"]])
def test_a_step_ends_and_the_run_goes_on_elsewhere(arguments: list[str]) -> None:
    result = tasks.slow.enqueue()
    with worker("--threads", "1", *arguments) as process:
        eventually(lambda: "slow began" in names())
        process.signal(signal.SIGTERM)

        assert process.exit_status() == 0

    message = Message.objects.get()
    assert (message.state, message.failures, message.lost) == (State.READY, 0, 0)
    assert list(Step.objects.order_by("number").values_list("name", "state")) == [
        ("first", "done"),
        ("slow", "done"),
    ]
    run_all(raise_errors=True)
    result.refresh()
    assert result.return_value == "done"
    assert names() == ["first", "slow began", "slow ended", "last"]


@pytest.mark.parametrize("arguments", [[], ["--processes", "1"]])
@pytest.mark.parametrize("name", ["too_slow_a_step", "too_slow_a_block"])
def test_an_atomic_step_that_outlasts_the_grace_period_is_handed_back(
    name: str, arguments: list[str]
) -> None:
    getattr(tasks, name).enqueue()
    with worker("--threads", "1", "--grace", "0.5", *arguments, lease=3600) as process:
        eventually(lambda: "slow began" in names())
        process.signal(signal.SIGTERM)

        assert process.exit_status() == 0

    assert "1 messages handed back" in process.log
    message = Message.objects.get()
    assert (message.state, message.failures, message.lost) == (State.READY, 0, 0)
    assert list(Step.objects.values_list("name", flat=True)) == ["first"]
