"""Durable tasks that the suite's workers run, in two releases."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from django.db import connection

from pgqueue import task
from pgqueue.durable import DurableContext

IS_NEW = os.environ.get("CHAOS_RELEASE") == "new"
PATIENT: dict[str, Any] = {"max_attempts": 1000, "backoff": [0.1]}


def leave(run: DurableContext, number: int) -> int:
    """Leave the row that the test counts: one for each call that was committed."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO chaos_effect (number, message_id, attempt) VALUES (%s, %s, %s)",
            [number, int(run.id), run.attempt],
        )
    return number


async def slow(is_first: bool) -> None:
    """Take long, if the worker is to be killed meanwhile."""
    if is_first:
        await asyncio.sleep(60)


@task(durable=True, **PATIENT)
async def in_three_steps(run: DurableContext) -> int:
    first = await run.astep(leave, run, 1, atomic=True, name="first")  # type: ignore[arg-type]
    await run.astep(slow, run.attempt == 1)
    second = await run.astep(leave, run, 2, atomic=True, name="second")  # type: ignore[arg-type]
    return int(first + second)


def reserve(run: DurableContext) -> int:
    return leave(run, 1)


def legacy(run: DurableContext) -> int:
    return leave(run, 2)


def charge(run: DurableContext) -> int:
    return leave(run, 3)


def welcome(run: DurableContext) -> int:
    return leave(run, 4)


def receipt(run: DurableContext) -> int:
    return leave(run, 5)


@task(durable=True, **PATIENT)
def checkout(run: DurableContext) -> str:
    """The new release has dropped a step, moved one, and adds one where it still may."""
    if IS_NEW:
        run.step(receipt, run, atomic=True)
        run.step(reserve, run, atomic=True)
    else:
        run.step(reserve, run, atomic=True)
        run.step(legacy, run, atomic=True)
    for _ in range(3):
        run.wait_for("go")
    is_patched = IS_NEW and run.patched("welcome")
    if is_patched:
        run.step(welcome, run, atomic=True)
    run.step(charge, run, atomic=True)
    run.wait_for("end")
    if not IS_NEW:
        run.step(receipt, run, atomic=True)
    return f"{is_patched}"
