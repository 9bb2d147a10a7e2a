"""Tasks with `batch`, for tests."""

from __future__ import annotations

import asyncio
from typing import Any

from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from django.db import connection

from pgqueue import BatchCall, Defer, Discard, TaskContext, task
from pgqueue.models import Message
from tests import jobs

runs: list[list[Any]] = []
"""The first argument of each call, run by run: of the runs in this process."""


def note(calls: list[BatchCall[...]]) -> None:
    runs.append([call.args[0] for call in calls])


@task(batch=10, batch_wait=0.3)
def double(calls: list[BatchCall[int]]) -> list[int]:
    note(calls)
    return [2 * call.args[0] for call in calls]


@task(batch=10, batch_wait=0.3)
async def adouble(calls: list[BatchCall[int]]) -> list[int]:
    note(calls)
    await asyncio.sleep(0)
    return [2 * call.args[0] for call in calls]


@task(batch=10, batch_wait=0.3)
def describe(calls: list[BatchCall[...]]) -> list[str]:
    note(calls)
    return [f"{call.id} {call.context.attempt} {sorted(call.kwargs)}" for call in calls]


@task(batch=10, batch_wait=0.3, batch_by="key")
def by_key(calls: list[BatchCall[int]]) -> None:
    note(calls)


@task(batch=10, batch_wait=0.3, max_attempts=2, backoff=[0])
def fail_odd(calls: list[BatchCall[int]]) -> list[int]:
    """Fail odd numbers; discard 100, defer 102 once."""
    note(calls)
    for call in calls:
        [number] = call.args
        if number % 2:
            call.fail(ValueError(f"{number} is odd"))
        elif number == 100:
            call.fail(Discard("100 is not wanted"))
        elif number == 102 and call.context.attempt == 1:
            call.fail(Defer(0, "seen"))
    return [call.args[0] for call in calls]


@task(batch=10, batch_wait=0.3, max_attempts=1)
def fail_all(calls: list[BatchCall[int]]) -> None:
    note(calls)
    calls[0].fail(KeyError("its own"))
    raise ValueError("of all")


@task(batch=10, batch_wait=0.3, max_attempts=1)
def return_too_few(calls: list[BatchCall[int]]) -> list[int]:
    return [1]


@task(batch=10, batch_wait=0.3, atomic=True, max_attempts=1)
def make_groups(calls: list[BatchCall[str]]) -> None:
    """Make a group for each call: "fail" fails its call, "raise" the batch."""
    note(calls)
    for call in calls:
        [name] = call.args
        if name == "fail":
            call.fail(ValueError("asked to fail"))
            continue
        Group.objects.create(name=name)
    if any(call.args == ("raise",) for call in calls):
        raise ValueError("asked to raise")


@task(batch=10, batch_wait=0.3, atomic=True)
def steal_the_first(calls: list[BatchCall[str]]) -> None:
    """Make a group for each call; in its first run, take the first message away from the worker."""
    note(calls)
    for call in calls:
        Group.objects.create(name=call.args[0])
    if calls[0].context.attempt == 1:
        Message.objects.filter(pk=calls[0].id).update(attempt=77)


@task(batch=10, batch_wait=0.3, timeout=0.2, max_attempts=1)
def sleep_in_the_database(calls: list[BatchCall[int]]) -> None:
    with connection.cursor() as cursor:
        for _ in range(600):
            cursor.execute("SELECT pg_sleep(0.05)")


@task(batch=10, batch_wait=0.3, timeout=0.2, max_attempts=1)
async def await_for_ever(calls: list[BatchCall[int]]) -> None:
    await asyncio.sleep(60)


@task(batch=100, batch_wait=60)
def wait_a_minute(calls: list[BatchCall[int]]) -> None: ...


@task(batch=3, batch_wait=60)
def of_three(calls: list[BatchCall[int]]) -> None:
    note(calls)


@task(batch=10)
def without_a_wait(calls: list[BatchCall[int]]) -> None:
    note(calls)


@task(batch=2, batch_wait=60)
def wait_for_cancel(calls: list[BatchCall[int]]) -> list[str]:
    """Wait until one of the calls is to be cancelled; fail this one alone."""
    Group.objects.create(name="begun")
    while not any(call.context.cancelled for call in calls):
        Group.objects.count()
    for call in calls:
        if call.context.cancelled:
            call.fail(RuntimeError("cancelled"))
    return [str(call.args[0]) for call in calls]


@task(batch=2, batch_wait=60)
async def await_cancel(calls: list[BatchCall[int]]) -> list[str]:
    await sync_to_async(Group.objects.create)(name="begun")
    while not any(call.context.cancelled for call in calls):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    for call in calls:
        if call.context.cancelled:
            call.fail(RuntimeError("cancelled"))
    return [str(call.args[0]) for call in calls]


@task(batch=10, batch_wait=0.3, redact=["arg1"], max_attempts=1)
def quote_all(calls: list[BatchCall[str]]) -> None:
    raise ValueError(f"no card of these is valid: {[call.args[0] for call in calls]}")


@task(batch=10, batch_wait=0.3)
def enqueue_another(calls: list[BatchCall[int]]) -> None:
    double.enqueue(1)


@task(takes_context=True)
def of_one(context: TaskContext, number: int) -> int:
    return double(number)


@task(batch=2)
def return_a_generator(calls: list[BatchCall[int]]) -> Any:
    return (call.args[0] for call in calls)


@task(batch=2, batch_wait=60, timeout=0.2, hard_timeout=0.5, max_attempts=1)
def receive(calls: list[BatchCall[int]]) -> None:
    jobs._receive()


@task(batch=2, batch_wait=60, timeout=0.2, hard_timeout=0.5, max_attempts=1, atomic=True)
def receive_atomically(calls: list[BatchCall[int]]) -> None:
    Group.objects.create(name="by a run that is stuck")
    jobs._receive()


@task(batch=2, batch_wait=60, timeout=0.2, hard_timeout=0.5, max_attempts=1)
async def receive_in_the_loop(calls: list[BatchCall[int]]) -> None:
    jobs._receive()


@task(batch=10, batch_wait=0.3)
def defer_once(calls: list[BatchCall[int]]) -> None:
    note(calls)
    if calls[0].context.attempt == 1:
        raise Defer(0)


@task(batch=10, batch_wait=0.3)
def grow(calls: list[BatchCall[int]]) -> None:
    """Add a message to the flow of each call with an odd number."""
    for call in calls:
        if call.args[0] % 2:
            call.context.flow.enqueue(jobs.add, call.args[0], 100)


@task(batch=10, batch_wait=0.3, atomic=True)
def grow_atomically(calls: list[BatchCall[int]]) -> None:
    grow.function(calls)  # type: ignore[attr-defined]
