"""Tasks of Celery's kind in real workers."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command

from pgqueue import Channel
from pgqueue.compat.celery import rates, states
from pgqueue.models import History, Policy
from tests.compat.celery import jobs
from tests.eventually import eventually
from tests.processes import worker

pytestmark = pytest.mark.django_db(transaction=True)


def test_what_delay_returns_waits_for_the_worker() -> None:
    with worker("--async", "10", lease=3):
        assert jobs.add.delay(1, 2).get(timeout=20) == 3
        assert jobs.double.delay(4).get(timeout=20) == 8
        assert ~jobs.add.s(1, 2) == 3
        failed = jobs.fail.delay("no")
        with pytest.raises(ValueError, match="no"):
            failed.get(timeout=20)
        cleaned = jobs.clean_up_at_the_soft_limit.apply_async(soft_time_limit=0.5)
        napping = jobs.nap.delay(60)
        eventually(lambda: napping.state == states.STARTED, what="it has not begun")
        napping.revoke(terminate=True)
        eventually(lambda: napping.state == states.REVOKED, what="it was not revoked")
        assert cleaned.get(timeout=20) == "cleaned up"


def test_a_rate_limit_is_a_policy_of_the_task_in_all_workers(settings: Any) -> None:
    settings.CELERY_TASK_ANNOTATIONS = {jobs.limited.name: {"rate_limit": "600/m"}}
    results = [jobs.limited.delay(number) for number in range(3)]
    call_command("runworker", "--drain")

    assert [each.get() for each in results] == [0, 1, 2]
    policy = Policy.objects.get()
    assert (policy.channel, policy.scope, policy.key) == ("default", "key", jobs.limited.name)
    assert (policy.rate, policy.per) == (600, timedelta(minutes=1))
    started = sorted(History.objects.values_list("claimed_at", flat=True))
    assert started[2] - started[0] >= timedelta(seconds=0.15)


def test_a_policy_is_stated_when_the_limit_has_changed_and_else_left_alone(settings: Any) -> None:
    settings.CELERY_TASK_ANNOTATIONS = {jobs.limited.name: {"rate_limit": "10/m"}}
    rates.apply()
    Channel("default").policy(rate=10, per=60, max_running=1, key=jobs.limited.name)
    rates.apply()
    assert Policy.objects.get().max_running == 1

    settings.CELERY_TASK_ANNOTATIONS = {jobs.limited.name: {"rate_limit": "5/h"}}
    rates.apply()
    assert (Policy.objects.get().rate, Policy.objects.get().per) == (5, timedelta(hours=1))
    assert Policy.objects.get().max_running == 1


def test_a_rate_limit_that_no_policy_states_is_an_error_and_the_others_hold(
    settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.CELERY_TASK_ANNOTATIONS = {
        jobs.add.name: {"rate_limit": "often"},
        jobs.limited.name: {"rate_limit": "10/m"},
    }

    rates.apply()

    assert Policy.objects.get().key == jobs.limited.name
    [told] = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert told.startswith(f"{jobs.add.name}: its rate_limit does not hold, ")
    assert "rate_limit='often': it must have the form" in told


def test_that_a_rate_limit_holds_for_all_workers_is_said_once(
    settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.CELERY_TASK_ANNOTATIONS = {jobs.limited.name: {"rate_limit": "10/m"}}

    with caplog.at_level(logging.INFO, logger="pgqueue"):
        rates.apply()
        rates.apply()

    assert [each for each in caplog.messages if "its rate_limit" in each] == [
        f"{jobs.limited.name}: its rate_limit, 10 in 60 s, holds for all workers together, "
        "as a policy of the channel default"
    ]
