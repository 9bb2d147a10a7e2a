"""What type checkers know of tasks. `make types` reads this file; nothing runs it."""

from __future__ import annotations

from typing import assert_type

from pgqueue import TaskContext, task


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
