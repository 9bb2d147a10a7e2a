"""What type checkers know of tasks. `make types` reads this file; nothing runs it."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, assert_type

from pgqueue import BatchCall, Task, TaskContext, TaskResult, subscribe, task, webhooks
from pgqueue.events import subscriptions


@task
def add(a: int, b: str = "") -> float:
    return a


@task(takes_context=True)
def told(context: TaskContext, a: int) -> str:
    return f"{context.id}: {a}"


@task
async def double(a: int) -> int:
    return 2 * a


@task(batch=10, batch_wait=0.5, batch_by="key")
def index(calls: list[BatchCall[int, str]]) -> list[float]:
    return [call.args[0] for call in calls]


@task(batch=10)
def collect(calls: list[BatchCall[...]]) -> None: ...


@task(batch=10)
async def halve(calls: list[BatchCall[int]]) -> list[float]:
    return [call.args[0] / 2 for call in calls]


def a_batch_task_is_enqueued_one_call_at_a_time() -> None:
    assert_type(index, Task[[int, str], float])
    assert_type(index.enqueue(1, "x"), TaskResult[float])
    assert_type(index(1, "x"), float)
    assert_type(halve, Task[[int], Coroutine[Any, Any, float]])
    collect.enqueue(1, name="x")

    index.enqueue(1)  # type: ignore[call-arg]
    index.enqueue("x", "x")  # type: ignore[arg-type]
    task(batch="10")  # type: ignore[call-overload]


async def a_task_is_called_as_its_function_is(context: TaskContext) -> None:
    assert_type(add(1, b="x"), float)
    assert_type(add.using(priority=1)(1), float)
    assert_type(told(context, 1), str)
    assert_type(await double(1), int)

    add("x")  # type: ignore[call-overload]
    add()  # type: ignore[call-overload]
    told(context, "x")  # type: ignore[call-overload]


def what_is_enqueued_fits_the_function() -> None:
    add.enqueue(1, b="x")
    told.enqueue(1)

    add.enqueue("x")  # type: ignore[arg-type]
    told.enqueue()  # type: ignore[call-arg]


def an_option_of_a_subscription_has_its_name_and_its_type() -> None:
    subscribe("order.*", batch=2, split_by="{key}", channel="mail", max_attempts=3)
    subscriptions.create("a", add, topics=["order.*"], start="beginning", expires_after=60)
    webhooks.create("a", "https://example.com/", gzip=False, timeout=3, where={"total__gte": 1})

    subscribe("order.*", split_by=1)  # type: ignore[arg-type]
    subscribe("order.*", splitby="{key}")  # type: ignore[call-arg]
    subscriptions.create("a", add, batch="2")  # type: ignore[arg-type]
    subscriptions.create("a", add, priority=1)  # type: ignore[call-arg]
    webhooks.create("a", "https://example.com/", gzip="no")  # type: ignore[arg-type]
    webhooks.create("a", "https://example.com/", key="a")  # type: ignore[call-arg]
