"""Tasks that tests enqueue, and what they leave behind."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import Group
from django.db import connection, transaction

from pgqueue import TaskContext, task


@task
def add(a: int, b: int = 0) -> int:
    return a + b


@task(channel="mail", priority=5, max_attempts=2, backoff=[0], metadata={"from": "decorator"})
def mail(address: str) -> None: ...


@task(takes_context=True)
def attempt_number(context: TaskContext) -> int:
    return context.attempt


@task(takes_context=True)
def metadata(context: TaskContext) -> dict[str, Any]:
    return context.metadata


@task
async def double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


@task(key=lambda tenant: f"tenant:{tenant}")
def keyed(tenant: int) -> None: ...


@task(max_attempts=3, backoff=[0])
def fail(message: str) -> None:
    raise ValueError(f"{message}: \x00 and \udc80")


@task(max_attempts=3, backoff=[0], takes_context=True)
def fail_twice(context: TaskContext) -> str:
    if context.task_result.failures < 2:
        raise ValueError("not yet")
    return "done"


def give_up_on_value_errors(error: BaseException, result: Any) -> timedelta | None:
    return None if isinstance(error, ValueError) else timedelta()


@task(backoff=give_up_on_value_errors, max_attempts=50)
def fail_as(name: str) -> None:
    raise {"value": ValueError, "type": TypeError}[name]("as told")


@task
def leave(name: str) -> None:
    """Leave a trace in the database, by a row."""
    Group.objects.create(name=name)


@task(max_attempts=2, backoff=[0])
def rename(group: Group, name: str) -> None:
    group.name = name
    group.save()


@task
def sleep(seconds: float, name: str = "") -> None:
    if name:
        Group.objects.create(name=f"{name} began")
    time.sleep(seconds)
    if name:
        Group.objects.create(name=f"{name} ended")


@task
def sleep_and_sign(seconds: float) -> None:
    Group.objects.create(name=f"{os.getpid()} began")
    time.sleep(seconds)
    Group.objects.create(name=f"{os.getpid()} ended")


@task
def thread(seconds: float) -> int:
    """Tell which thread it runs in, once others had the time to begin."""
    time.sleep(seconds)
    return threading.get_ident()


@task(timeout=0.2, max_attempts=1)
def loop_for_ever() -> None:
    while True:
        time.sleep(0.01)


@task(timeout=0.2, max_attempts=1)
async def wait_for_ever() -> None:
    await asyncio.sleep(3600)


@task
def unstorable() -> object:
    return object()


@task
def end_the_process() -> None:
    raise SystemExit(3)


@task(atomic=True, max_attempts=1)
def leave_atomically(name: str, end: str = "return") -> str:
    """Leave a trace, and end in one of the ways that are hard to get right."""
    Group.objects.create(name=name)
    if end == "raise":
        raise ValueError("after its effect")
    if end == "swallow":
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1 / 0")
        except Exception:  # noqa: S110
            pass
    if end == "late":
        transaction.on_commit(lambda: 1 / 0)
    return (transaction.get_connection().in_atomic_block and "in a transaction") or "outside"


@task(atomic=True)
async def leave_atomically_async(name: str) -> None:
    await Group.objects.acreate(name=name)


@task
def backend_pid() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()
    return pid


@task
def close_connection() -> None:
    """Break the thread's connection, as a restart of the server would."""
    connection.ensure_connection()
    connection.connection.close()


@task
def kill_its_worker() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@task
def name_group(name: str) -> None:
    """A channel's handler: it gets the payload."""
    Group.objects.create(name=name)


@task(takes_context=True, max_attempts=3, backoff=[0])
def name_group_by_body(context: TaskContext, payload: Any) -> None:
    """A handler that fails at first, and looks at more than the payload."""
    if not context.task_result.failures:
        raise ValueError("not yet")
    Group.objects.create(name=f"{context.body!r} {payload!r} {context.metadata}")
