"""Tasks that fork, in each of the ways there are."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import django
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from django.db import connection, connections

from pgqueue import task


def backend_pid() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


def _return() -> None: ...


def _raise() -> None:
    raise ValueError("in the child")


def _exit() -> None:
    sys.exit(3)


def _close() -> None:
    connection.close()


def _close_all() -> None:
    connections.close_all()


def _write() -> None:
    Group.objects.create(name=f"by a child in {backend_pid()}")


ENDS: dict[str, Callable[[], None]] = {
    "return": _return,
    "raise": _raise,
    "exit": _exit,
    "close": _close,
    "close all": _close_all,
    "write": _write,
}


def status_of(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _fork(end: str) -> list[int]:
    """Tell how the child has ended, and whether the parent's session is still the same."""
    before = backend_pid()
    child = os.fork()
    if not child:
        ENDS[end]()
        return [os.getpid()]
    return [status_of(child), before, backend_pid()]


@task(max_attempts=1)
def fork(end: str) -> list[int]:
    return _fork(end)


@task(max_attempts=1, atomic=True)
def fork_atomically(end: str) -> list[int]:
    Group.objects.create(name="by the parent")
    return _fork(end)


@task(max_attempts=1)
async def fork_async(end: str) -> list[int]:
    before = await sync_to_async(backend_pid)()
    child = os.fork()
    if not child:
        ENDS[end]()
        return [os.getpid()]
    status = await asyncio.to_thread(status_of, child)
    return [status, before, await sync_to_async(backend_pid)()]


@task(max_attempts=1)
async def fork_and_await() -> int:
    child = os.fork()
    if not child:
        await asyncio.sleep(0)
        await asyncio.sleep(0.1)
        return os.getpid()
    return await asyncio.to_thread(status_of, child)


@task(max_attempts=1)
async def leave_each_turn(turns: int) -> None:
    """Leave a row for each turn, by which a second process would be seen."""
    for turn in range(turns):
        await Group.objects.acreate(name=f"turn {turn} of {os.getpid()}")
        await asyncio.sleep(0.01)


@task(max_attempts=1)
def terminate(method: str) -> list[float]:
    """Tell how a process ended that was terminated, and how long that took."""
    context: Any = multiprocessing.get_context(method)
    process = context.Process(target=time.sleep, args=(60,))
    process.start()
    began = time.monotonic()
    time.sleep(0.3)  # it may be starting
    process.terminate()
    process.join(20)
    return [process.exitcode or 0, time.monotonic() - began]


@task(max_attempts=1, atomic=True)
def terminate_atomically(method: str) -> list[float]:
    return terminate(method)


@task(max_attempts=1)
def time_out_in_a_pool() -> str:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        try:
            pool.apply_async(time.sleep, (60,)).get(timeout=1)
        except multiprocessing.TimeoutError:
            return "timed out"
    return "returned"


def square(number: int) -> int:
    return number * number


def count_groups(_: int) -> int:
    return Group.objects.count()


@task(max_attempts=1)
def squares(method: str) -> list[int]:
    with multiprocessing.get_context(method).Pool(2, initializer=django.setup) as pool:
        return list(pool.map(square, range(4)))


@task(max_attempts=1, atomic=True)
def count_in_children() -> list[int]:
    """Ask the database in processes of a pool, which see nothing of this transaction."""
    Group.objects.create(name="not committed yet")
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return [*pool.map(count_groups, range(2)), Group.objects.count()]


@task(max_attempts=1)
def run_a_program(*, prepared: bool) -> list[Any]:
    before = backend_pid()
    answer = subprocess.run(
        [sys.executable, "-c", "import signal; print(signal.getsignal(signal.SIGTERM))"],
        preexec_fn=os.getpid if prepared else None,
        capture_output=True,
        text=True,
        check=True,
    )
    return [answer.stdout.strip(), backend_pid() == before]


@task(atomic=True)
def leave_a_child(seconds: float) -> None:
    """Leave a child that writes, and lives on; wait to be killed."""
    child = os.fork()
    if child:
        time.sleep(seconds)
    else:
        signal.alarm(int(seconds))
        _write()
        time.sleep(seconds)


@task(max_attempts=1)
def pid() -> int:
    return os.getpid()
