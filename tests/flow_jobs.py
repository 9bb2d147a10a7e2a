"""Tasks of the tests of flows."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from django.db import transaction

from pgqueue import Discard, ParentFailed, TaskContext, aget_flow, get_flow, task
from pgqueue.models import Flow

ran: list[Any] = []


@task
def number(value: int) -> int:
    return value


@task
def add_to(value: int, more: int) -> int:
    return value + more


@task
async def number_async(value: int) -> int:
    return value


@task
def named_as_options(task: int, after: int, on_failure: int) -> int:
    return task + after + on_failure


@task
def total(numbers: list[int], extra: int = 0) -> int:
    return sum(numbers) + extra


@task
def by_name(found: dict[str, int]) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted(found.items()))


@task
def someday(year: int) -> date:
    return date(year, 1, 1)


@task
def moment(year: int):  # type: ignore[no-untyped-def]  # what it returns says its type itself
    return datetime(year, 1, 1, tzinfo=UTC)


@task
def year_of(day: date) -> int:
    return day.year


@task
def kind_of(value):  # type: ignore[no-untyped-def]
    return type(value).__name__


@task
def nothing() -> None: ...


@task
def text() -> str:
    return "text"


@task(max_attempts=1)
def fail(message: str = "no") -> int:
    raise ValueError(message)


@task(max_attempts=1)
def need_flow(name: str) -> None:
    Flow.objects.get(name=name)


@task
def give_up() -> int:
    raise Discard("not worth it")


@task
def failures(*parents: Any) -> list[str]:
    return [
        f"{parent.outcome}: {parent.error['message'] if parent.error else ''}"
        if isinstance(parent, ParentFailed)
        else str(parent)
        for parent in parents
    ]


@task
def note(value: Any) -> None:
    ran.append(value)


@task(takes_context=True)
def grow(context: TaskContext, count: int) -> int:
    parts = context.flow.enqueue_many(number, [(each,) for each in range(count)], awaited=True)
    context.flow.enqueue(total, parts, awaited=True)
    return -1


@task(takes_context=True, atomic=True)
def grow_atomically(context: TaskContext, count: int) -> int:
    context.flow.enqueue_many(number, [(each,) for each in range(count)], awaited=True)
    return -1


@task(takes_context=True)
async def grow_async(context: TaskContext, count: int) -> int:
    context.flow.enqueue_many(number, [(each,) for each in range(count)], awaited=True)
    return -1


@task(takes_context=True, max_attempts=2, backoff=[0])
def grow_the_second_time(context: TaskContext) -> int:
    context.flow.enqueue(number, context.attempt, awaited=True)
    if context.attempt == 1:
        raise ValueError("not yet")
    return -1


@task(takes_context=True, max_attempts=1)
def grow_badly(context: TaskContext) -> None:
    context.flow.enqueue(number, 1, awaited=True)
    context.flow.enqueue(number, "text", awaited=True)
    context.flow.enqueue(number, object(), awaited=True)


@task(takes_context=True)
def grow_where_there_is_no_flow(context: TaskContext) -> None:
    context.flow.enqueue(number, 1)


@task(takes_context=True, max_attempts=1)
def grow_in_order(context: TaskContext, key: str, awaited: bool) -> int:
    part = context.flow.enqueue(number.using(ordered=True, key=key), 1)
    context.flow.enqueue(number, part, awaited=awaited)
    return -1


@task(takes_context=True, max_attempts=1)
def grow_behind_another(context: TaskContext, key: str) -> int:
    before = context.flow.enqueue(number.using(ordered=True, key=key), 1)
    context.flow.enqueue(number.using(ordered=True, key="new"), before)
    context.flow.enqueue(number.using(ordered=True, key="new"), 1, awaited=True)
    return -1


@task(takes_context=True, max_attempts=1)
def grow_with(context: TaskContext, options: dict[str, str], awaited: bool) -> int:
    context.flow.enqueue(number.using(**options), 1, awaited=awaited)  # type: ignore[typeddict-item]
    return -1


@task(takes_context=True, max_attempts=1)
def grow_after_what_ran(context: TaskContext) -> None:
    context.flow.enqueue(nothing, after=ran)


@task(takes_context=True)
def grow_though_cancelled(context: TaskContext) -> list[list[int]]:
    came_to = get_flow(context.flow.id).cancel()
    context.flow.enqueue(number.using(run_after=3600), 1)
    return [sorted(came_to.done), sorted(came_to.asked)]


@task(takes_context=True, max_attempts=1)
def grow_by_names(context: TaskContext) -> None:
    second = context.flow.enqueue(number, context.flow["first"], name="second")
    context.flow.enqueue(note, second)


@task(takes_context=True, max_attempts=1)
def grow_in_a_circle(context: TaskContext) -> int:
    context.flow.enqueue(number, 1, after=context.flow["last"], awaited=True)
    return -1


def _add_twice(context: TaskContext) -> None:
    with transaction.atomic():
        context.flow.enqueue(note, "kept")
        with suppress(ZeroDivisionError), transaction.atomic():
            context.flow.enqueue(note, "rolled back", awaited=True)
            _ = 1 / 0
        with suppress(ZeroDivisionError), transaction.atomic():
            context.flow.enqueue_many(note, [("rolled back too",)])
            _ = 1 / 0
        with transaction.atomic():
            context.flow.enqueue(note, "kept, too", awaited=True)
    with suppress(ZeroDivisionError), transaction.atomic():
        context.flow.enqueue(note, "rolled back last")
        _ = 1 / 0


@task(takes_context=True, atomic=True)
def grow_in_savepoints_atomically(context: TaskContext) -> int:
    _add_twice(context)
    return -1


@task(takes_context=True)
def grow_in_savepoints(context: TaskContext) -> int:
    _add_twice(context)
    return -1


@task(takes_context=True)
def grow_in_vain(context: TaskContext) -> int:
    with suppress(ZeroDivisionError), transaction.atomic():
        context.flow.enqueue(note, "rolled back")
        _ = 1 / 0
    return -1


@task(takes_context=True, max_attempts=1)
def wait_for_its_flow(context: TaskContext, how: str) -> None:
    if how == "context":
        context.flow.wait()
    get_flow(context.flow.id).wait(timeout=20)


@task(takes_context=True, max_attempts=1)
async def await_its_flow(context: TaskContext) -> None:
    await (await aget_flow(context.flow.id)).await_(timeout=20)


@task(takes_context=True)
def keeps_its_flow(context: TaskContext) -> None:
    context.flow.enqueue(nothing)
    ran.append(context.flow)


@dataclass(frozen=True)
class Sides:
    left: int
    right: int


@dataclass(frozen=True)
class Unhinted:
    member: Any


@task
def sides(both: Sides) -> list[int]:
    return [both.left, both.right]


@task
def pair(both: tuple[int, int]) -> list[int]:
    return list(both)


@task
def distinct(numbers: set[int]) -> list[int]:
    return sorted(numbers)


@task
def deep(found: Any) -> list[int]:
    return [found["a"][0]["b"], found["c"][0]]


@task
def echo(value: Any) -> Any:
    return value
