"""Moving the stored times of the queue."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pgqueue import RateLimited, TaskContext, task
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


def test_time_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="does not go back"):
        advance(-1)
