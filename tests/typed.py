"""What type checkers know of tasks. `make types` reads this file; nothing runs it."""

from __future__ import annotations

from typing import assert_type

from pgqueue import TaskContext, subscribe, task, webhooks
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
