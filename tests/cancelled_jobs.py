"""Tasks that run until they are cancelled."""

from __future__ import annotations

import asyncio
import time

from pgqueue import Cancel, DurableContext, TaskContext, task

LONG = 120.0  # seconds; longer than any test waits


def _wait_until_cancelled(context: TaskContext) -> None:
    until = time.monotonic() + LONG
    while time.monotonic() < until:
        if context.cancelled:
            raise Cancel("as asked")
        time.sleep(0.01)


@task(takes_context=True, max_attempts=1)
def until_cancelled(context: TaskContext) -> None:
    _wait_until_cancelled(context)


@task(max_attempts=1)
async def until_cancelled_async() -> None:
    await asyncio.sleep(LONG)


def take_long() -> None:
    time.sleep(0.01)


@task(durable=True, max_attempts=1)
def many_steps(run: DurableContext) -> None:
    until = time.monotonic() + LONG
    while time.monotonic() < until:
        run.step(take_long)


@task(durable=True, max_attempts=1)
def calls_until_cancelled(run: DurableContext) -> None:
    run.gather([run.call(until_cancelled)], cancels=True)
