"""The tasks of a proof. Each writes down when it runs, and leaves an effect."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection

from pgqueue import TaskContext, task
from pgqueue.durable import DurableContext
from tests.proof.operations import invoked

# A run that meets a fault is charged a failure, which must not end its message.
PATIENT: dict[str, Any] = {"max_attempts": 1000, "backoff": [0.1]}


@contextmanager
def running(context: TaskContext | DurableContext, number: int) -> Iterator[None]:
    """Write down that a message runs."""
    operation = invoked("run", number=number, message=int(context.id), attempt=context.attempt)
    try:
        yield
    except Exception as error:
        operation.say("fail", why=f"{type(error).__name__}: {error}"[:300])
        raise
    else:
        operation.say("ok")


def leave(number: int, attempt: int, what: str = "task") -> None:
    """Leave an effect, in the transaction that is open."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO proof_effect (what, number, attempt) VALUES (%s, %s, %s)",
            [what, number, attempt],
        )


def work(context: TaskContext, number: int, seconds: float) -> None:
    """Run, and leave the effect last: the order of effects is the order of the ends."""
    with running(context, number):
        time.sleep(seconds)
        leave(number, context.attempt)


@task(takes_context=True, **PATIENT)
def plain(context: TaskContext, number: int, seconds: float = 0) -> None:
    work(context, number, seconds)


@task(takes_context=True, atomic=True, **PATIENT)
def atomic(context: TaskContext, number: int, seconds: float = 0) -> None:
    work(context, number, seconds)


@task(takes_context=True, atomic=True, channel="lanes", **PATIENT)
def in_order(context: TaskContext, number: int, seconds: float = 0) -> None:
    """Fail the first time, one in ten: then the lane waits."""
    with running(context, number):
        leave(number, context.attempt)
        time.sleep(seconds)
        if number % 10 == 0 and not context.task_result.failures:
            raise ValueError("the first time, it fails")


@task(takes_context=True, channel="crowded", **PATIENT)
def limited(context: TaskContext, number: int, seconds: float = 0) -> None:
    work(context, number, seconds)


@task(takes_context=True, channel="metered", **PATIENT)
def metered(context: TaskContext, number: int, seconds: float = 0) -> None:
    work(context, number, 0)


@task(takes_context=True, atomic=True, **PATIENT)
def fails_once(context: TaskContext, number: int, seconds: float = 0) -> None:
    """Leave an effect, and fail the first time: the effect is rolled back."""
    with running(context, number):
        leave(number, context.attempt)
        if not context.task_result.failures:
            raise ValueError("the first time, it fails")


@task(takes_context=True, atomic=True, max_attempts=1)
def hopeless(context: TaskContext, number: int, seconds: float = 0) -> None:
    with running(context, number):
        leave(number, context.attempt)
        raise ValueError("it always fails")


@task(takes_context=True, atomic=True, **PATIENT)
def member(context: TaskContext, number: int, parents: list[int], seconds: float = 0) -> int:
    """Be part of a flow."""
    with running(context, number):
        time.sleep(seconds)
        leave(number, context.attempt)
    return number


STEPS = ("one", "two", "three")


@task(durable=True, **PATIENT)
def in_steps(run: DurableContext, number: int) -> None:
    """Fail between two steps the first time, one in three: the next run goes on behind them."""
    with running(run, number):
        for name in STEPS:
            run.step(leave, number, run.attempt, f"step {name}", atomic=True, name=name)
            time.sleep(0.5 if number % 5 == 0 else 0.05)
            if name == "two" and number % 3 == 0 and run.attempt == 1:
                raise ValueError("the first time, it fails between two steps")
        leave(number, run.attempt)


@task
def ticked() -> None:
    """A tick of the schedule: its message is dumped."""
