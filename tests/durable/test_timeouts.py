"""The time that each try of a step may take."""

from __future__ import annotations

import asyncio
import time

import pytest
from django.contrib.auth.models import Group

from pgqueue.durable import DurableContext
from pgqueue.exceptions import StepFailed
from tests.durable.running import calls, durable, returned

pytestmark = pytest.mark.django_db(transaction=True)

TIMEOUT = "pgqueue.exceptions.StepTimeout"


def dawdle() -> None:
    Group.objects.get_or_create(name="dawdled")
    calls.append("dawdle")
    until = time.monotonic() + 20
    while time.monotonic() < until:
        time.sleep(0.01)


async def adawdle() -> None:
    calls.append("dawdle")
    await asyncio.sleep(20)


@pytest.mark.parametrize("atomic", [False, True])
def test_a_try_that_takes_too_long_fails_and_is_tried_again(atomic: bool) -> None:
    @durable
    def works(run: DurableContext) -> tuple[str, int]:
        try:
            run.step(dawdle, atomic=atomic, retries=1, backoff=[0], timeout=0.2)
        except StepFailed as error:
            return error.class_name, error.tries
        return "in time", 0

    assert returned(works.enqueue()) == (TIMEOUT, 2)
    assert calls == ["dawdle"] * 2
    assert Group.objects.count() == (0 if atomic else 1)


def test_a_coroutine_that_takes_too_long_fails() -> None:
    @durable
    async def works(run: DurableContext) -> str:
        try:
            await run.astep(adawdle, retries=0, timeout=0.2)
        except StepFailed as error:
            return error.class_name
        return "in time"

    assert returned(works.enqueue()) == TIMEOUT


def test_the_run_goes_on_and_its_own_timeout_still_holds() -> None:
    @durable(timeout=0.5, max_attempts=1)
    def works(run: DurableContext) -> None:
        with pytest.raises(StepFailed):
            run.step(dawdle, retries=0, timeout=0.1)
        run.step(dawdle, name="again")

    result = works.enqueue()
    with pytest.raises(AssertionError, match="TaskTimeout"):
        returned(result)
    assert result.status == "dead"
