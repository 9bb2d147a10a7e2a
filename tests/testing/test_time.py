"""Moving the stored times of the queue."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pgqueue import Channel, RateLimited, TaskContext, task
from pgqueue.models import Message
from pgqueue.testing import advance, run_all
from tests import jobs

pytestmark = pytest.mark.django_db


@task(takes_context=True, max_attempts=1)
def ask(context: TaskContext, scope: Any, is_busy: bool = False) -> None:
    if is_busy and context.attempt == 1:
        raise RateLimited(600, scope=scope)


def test_time_passes_for_every_message() -> None:
    jobs.add.using(run_after=60, ttl=120).enqueue(1)
    before = Message.objects.get()

    advance(timedelta(seconds=30))

    after = Message.objects.get()
    for name in ("created_at", "run_at", "expires_at"):
        assert getattr(before, name) - getattr(after, name) == timedelta(seconds=30)
    assert run_all() == []


@pytest.mark.parametrize("scope", ["channel", "key", "task"])
def test_the_pause_of_a_rate_limit_passes(scope: str) -> None:
    ask.using(key="a").enqueue(scope, is_busy=True)
    run_all()
    ask.using(key="a").enqueue(scope)

    while_paused = run_all()
    advance(timedelta(minutes=10))

    assert while_paused == []
    assert [run.status for run in run_all()] == ["succeeded"] * 2


@pytest.mark.parametrize(("passed", "failed"), [(59, 1), (61, 2)])
def test_failures_that_a_breaker_counts_grow_old(passed: float, failed: int) -> None:
    Channel("default").policy(breaker=(2, 60, 600))
    jobs.fail.using(max_attempts=1).enqueue("first")
    run_all()

    advance(passed)
    jobs.fail.using(max_attempts=1).enqueue("second")
    run_all()
    jobs.fail.using(max_attempts=1).enqueue("third")

    # The second failure opens the breaker, unless the first one no longer counts.
    assert len(run_all()) == failed - 1


def test_the_pause_of_a_breaker_passes() -> None:
    Channel("default").policy(breaker=(1, 60, 600))
    jobs.fail.using(max_attempts=1).enqueue("first")
    run_all()
    jobs.add.enqueue(1, 2)
    jobs.add.enqueue(3, 4)

    while_open = run_all()
    advance(timedelta(minutes=10))

    assert while_open == []
    assert [run.status for run in run_all()] == ["succeeded"] * 2


def test_time_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="does not go back"):
        advance(-1)
