"""Async durable tasks, and durable tasks in the transaction of a TestCase."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from django.test import TestCase

from pgqueue.durable import DurableContext
from pgqueue.testing import advance, run_all
from tests.durable.running import (
    Oops,
    add,
    calls,
    declared,
    durable,
    returned,
    run,
)

pytestmark = pytest.mark.django_db(transaction=True)


class TestAnAsyncTask:
    def of(self) -> Any:
        def square(value: int) -> int:
            return value * value

        task = declared(square)

        async def fetch(value: int) -> int:
            calls.append("fetch")
            return value

        def write(name: str) -> int:
            Group.objects.create(name=name)
            return 4

        @durable
        async def works(run: DurableContext) -> str:
            now = run.now()
            total = (
                await run.astep(fetch, 1)
                + await run.astep(add, 1, 1)  # type: ignore[arg-type]
                + await run.astep(write, "a", atomic=True)  # type: ignore[arg-type]
            )
            await run.asleep(0)
            answer = await run.await_for("go", int, timeout=60)
            [squared] = await run.agather([run.call(task, 3)])
            other = await run.aenqueue(task, 4)
            any = await run.await_for_any(["a", "b"], timeout=60)
            event = await run.await_for_event("nothing", timeout=0)
            calls.append((now, other.id))
            return f"{total} {answer} {squared} {any} {event} {run.random() < 1}"

        return works

    def test_has_all_the_verbs(self) -> None:
        result = self.of().enqueue()
        run(result)
        result.signal("go", 7)
        result.signal("b")

        assert returned(result) == "7 7 9 Signal(name='b', payload=None) None True"
        assert calls[:2] == ["fetch", ("add", 1, 1)]
        assert len(set(calls[2:])) == len(calls[2:]) == 1
        assert list(Group.objects.values_list("name", flat=True)) == ["a"]

    def test_has_retries(self) -> None:
        async def fetch() -> str:
            calls.append("fetch")
            if len(calls) < 3:
                raise Oops
            return "fetched"

        @durable
        async def works(run: DurableContext) -> str:
            return await run.astep(fetch, retries=2, backoff=[0])

        assert returned(works.enqueue()) == "fetched"
        assert len(calls) == 3

    def test_may_call_a_coroutine_function_in_an_atomic_step(self) -> None:
        async def write(name: str) -> str:
            await sync_to_async(Group.objects.create)(name=name)
            return name

        @durable
        async def works(run: DurableContext) -> str:
            return await run.astep(write, "a", atomic=True)

        assert returned(works.enqueue()) == "a"
        assert Group.objects.count() == 1


@pytest.mark.usefixtures("own_tasks")
class TestInATestCase(TestCase):
    """The same within a transaction that is never committed."""

    def test_a_durable_task_runs(self) -> None:
        calls.clear()

        @durable
        def works(run: DurableContext) -> list[Any]:
            run.step(add, 1, 1)
            with run.atomic("block") as block:
                Group.objects.create(name="a")
                block.result = run.attempt
            run.sleep(60)
            return [block.result, run.wait_for("go")]

        result = works.enqueue()
        run_all()
        advance(61)
        run_all()
        result.signal("go", 7)

        assert returned(result) == [1, 7]
        assert calls == [("add", 1, 1)]
        assert Group.objects.count() == 1

    def test_an_atomic_step_that_fails_is_rolled_back(self) -> None:
        def write() -> None:
            Group.objects.create(name="a")
            raise Oops

        @durable(max_attempts=1)
        def works(run: DurableContext) -> None:
            run.step(write, atomic=True, retries=1, backoff=[0])

        result = works.enqueue()

        assert run(result) == "dead"
        assert not Group.objects.exists()

    def test_an_async_durable_task_runs(self) -> None:
        calls.clear()

        @durable
        async def works(run: DurableContext) -> Any:
            total = await run.astep(add, 1, 1)  # type: ignore[arg-type]
            run.now()
            await run.asleep(0)
            return total + await run.await_for("go", int)

        result = works.enqueue()
        run_all()
        result.signal("go", 7)

        assert returned(result) == 9
        assert calls == [("add", 1, 1)]

    def test_gathers_run(self) -> None:
        def square(value: int) -> int:
            return value * value

        task = declared(square)

        @durable
        def works(run: DurableContext) -> list[int]:
            return run.gather([run.call(task, each) for each in (1, 2)])

        assert returned(works.enqueue()) == [1, 4]
