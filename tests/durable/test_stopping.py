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
