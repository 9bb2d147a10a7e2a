"""What type checkers know of tasks. `make types` reads this file; nothing runs it."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, assert_type

from pgqueue import (
    BatchCall,
    Event,
    RecordedEvent,
    Task,
    TaskContext,
    TaskResult,
    chain,
    chord,
    flow,
    group,
    subscribe,
    task,
    webhooks,
)
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


@task
def total(numbers: list[int], more: int = 0) -> int:
    return sum(numbers) + more


async def the_result_of_an_async_task_is_what_its_coroutine_returns() -> None:
    assert_type(double.enqueue(1).return_value, int)
    assert_type((await double.aenqueue(1)).return_value, int)
    assert_type(double.enqueue_many([(1,)])[0].return_value, int)
    assert_type(double.get_result(1).return_value, int)
    assert_type(add.enqueue(1).return_value, float)


def a_call_of_many_fits_the_function() -> None:
    assert_type(add.enqueue_many(add.call(number) for number in range(3))[0].return_value, float)
    add.enqueue_many([(1,), {"a": 2}, add.call(3, b="x")])

    add.enqueue_many([add.call("x")])  # type: ignore[list-item]
    add.enqueue_many([add.call(1, c=2)])  # type: ignore[call-overload]
    add.enqueue_many(["x", 1])  # type: ignore[list-item]


def a_step_of_a_canvas_may_leave_the_result_of_the_step_before_out() -> None:
    chord(double.map([1, 2, 3]), total.call(more=4)).enqueue(name="squares")
    group(double.call(2), double.call(3)).enqueue()
    chain(double.call(2), double, double.using(priority=5)).enqueue()

    total.call(more="x")  # type: ignore[call-overload]
    total.call([1], more="x")  # type: ignore[call-overload]


def a_call_in_a_flow_fits_the_function() -> None:
    with flow("squares") as f:
        parts = [f.enqueue(double.call(number)) for number in range(3)]
        last = f.enqueue(total.call([part.result for part in parts], more=1), name="total")
        f.enqueue(total, parts, more=1, after=last)
        f.enqueue(add.call(last.result))
        f.enqueue(add.call("x"))  # type: ignore[call-overload]
        f.enqueue(add.call([part.result for part in parts]))  # type: ignore[call-overload]
    assert_type(last.return_value, int)
    assert_type(parts[0].return_value, int)
    assert_type(f.enqueue(double, 1).return_value, int)


class Paid(Event, topic="order.paid"):
    order: int


@subscribe("order.paid")
def count(event: Paid) -> int:
    return event.order


@subscribe("order.*", batch=3)
async def count_many(events: list[RecordedEvent]) -> int:
    return len(events)


@subscribe("order.*", takes_context=True)
def told_of(context: TaskContext, event: RecordedEvent) -> str:
    return f"{context.id}: {event}"


@subscribe("order.paid", name="twice")
@subscribe("order.*", name="once")
def twice(event: RecordedEvent) -> None: ...


@subscribe("order.paid")  # type: ignore[type-var]
def wrong(order: int) -> None: ...


@subscribe("order.paid")  # type: ignore[arg-type]
def takes_nothing() -> None: ...


def the_task_of_a_subscription_takes_events(event: RecordedEvent) -> None:
    assert_type(count(Paid(order=1)), int)
    assert_type(count(event), int)
    assert_type(count.enqueue(event).return_value, int)
    assert_type(count_many.enqueue([event]).return_value, int)
    told_of.enqueue(event)
    twice.enqueue(event)

    count(1)  # type: ignore[call-overload]
    count.enqueue(1)  # type: ignore[arg-type]
