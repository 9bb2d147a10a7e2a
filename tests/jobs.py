"""Tasks that tests enqueue, and what they leave behind."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import uuid4

from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from django.db import DatabaseError, connection, connections, transaction

from pgqueue import Defer, Discard, TaskContext, task


@task
def add(a: int, b: int = 0) -> int:
    return a + b


@task
def anything(*args: Any, **kwargs: Any) -> None: ...


@task(channel="mail", priority=5, max_attempts=2, backoff=[0], metadata={"from": "decorator"})
def mail(address: str) -> None: ...


@task
def count_queries() -> int:
    """Return how many queries Django remembers, with one of this run."""
    Group.objects.count()
    return len(connection.queries)


@task
async def count_queries_async() -> int:
    return await sync_to_async(count_queries.func)()


@task(takes_context=True)
def attempt_number(context: TaskContext) -> int:
    return context.attempt


@task(takes_context=True, atomic=True)
def attempt_number_atomically(context: TaskContext) -> int:
    return context.attempt


@task(takes_context=True)
def metadata(context: TaskContext) -> dict[str, Any]:
    return context.metadata


@task
async def double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


@task
async def nap(seconds: float, name: str = "") -> None:
    if name:
        await Group.objects.acreate(name=f"{name} began")
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        print("cleaned up", file=sys.stderr, flush=True)
        raise


NAPPING: set[object] = set()


@task
async def count_naps(seconds: float) -> int:
    """Tell how many were at it at once."""
    me = object()
    NAPPING.add(me)
    await asyncio.sleep(seconds)
    count = len(NAPPING)
    NAPPING.discard(me)
    return count


@task(max_attempts=2, backoff=[0])
async def fail_async(message: str) -> None:
    raise ValueError(message)


@task(takes_context=True)
async def defer_once_async(context: TaskContext) -> str:
    if context.attempt == 1:
        context.defer(0.01)
    return "came back"


@task
async def leave_async(name: str) -> None:
    await Group.objects.acreate(name=name)


def _backend_pid() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()
    return int(pid)


@task
async def backend_pid_async() -> int:
    return await sync_to_async(_backend_pid)()


@task(max_attempts=1)
async def cut_own_connection_async() -> None:
    def cut() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    await sync_to_async(cut)()


@task(max_attempts=1)
async def exit_async() -> None:
    raise SystemExit(3)


@task(key=lambda tenant: f"tenant:{tenant}")
def keyed(tenant: int) -> None: ...


@task(max_attempts=3, backoff=[0])
def fail(message: str) -> None:
    raise ValueError(f"{message}: \x00 and \udc80")


class Unprintable(Exception):
    """Its text ends the process that asks for it."""

    def __init__(self, raised: BaseException) -> None:
        super().__init__()
        self.raised = raised

    def __str__(self) -> str:
        raise self.raised

    __repr__ = __str__


ENDING = {"SystemExit": SystemExit(3), "KeyboardInterrupt": KeyboardInterrupt()}


@task(max_attempts=2, backoff=[0])
def fail_unprintably(name: str) -> None:
    raise Unprintable(ENDING[name])


@task(max_attempts=2, backoff=[0], atomic=True)
def fail_unprintably_in_a_transaction(name: str) -> None:
    raise Unprintable(ENDING[name])


@task(max_attempts=3, backoff=[0], takes_context=True)
def fail_twice(context: TaskContext) -> str:
    if context.task_result.failures < 2:
        raise ValueError("not yet")
    return "done"


def give_up_on_value_errors(error: BaseException, result: Any) -> timedelta | None:
    return None if isinstance(error, ValueError) else timedelta()


def back_off_by_discarding(error: BaseException, result: Any) -> timedelta | None:
    raise Discard("which means nothing here")


@task(backoff=back_off_by_discarding)
def fail_with_a_strange_backoff() -> None:
    raise ValueError("as told")


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


@task(atomic=True)
def sleep_atomically(seconds: float) -> None:
    time.sleep(seconds)


@task(atomic=True)
def sleep_in_the_database(seconds: float) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(%s)", [seconds])


@task
def sleep_and_sign(seconds: float) -> None:
    name = f"{os.getpid()} {uuid4()}"
    Group.objects.create(name=f"{name} began")
    time.sleep(seconds)
    Group.objects.create(name=f"{name} ended")


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


@task(max_attempts=1)
def leave_a_transaction_open() -> None:
    """As a timeout does that arrives while Django leaves one."""
    transaction.atomic().__enter__()
    Group.objects.create(name="of a transaction that was left open")


LEFT: list[object] = []
"""What would end by itself if it were forgotten."""


def _begin(alias: str) -> None:
    """Begin a transaction that Django does not know of."""
    with connections[alias].cursor() as cursor:
        cursor.execute("BEGIN")


def _begin_after_savepoint() -> None:
    _begin("default")
    with connection.cursor() as cursor:
        cursor.execute("SAVEPOINT halfway")


def _fail_in_transaction() -> None:
    _begin("default")
    with suppress(DatabaseError), connection.cursor() as cursor:
        cursor.execute("SELECT 1 / 0")


def _declare() -> None:
    _begin("default")
    with connection.cursor() as cursor:
        cursor.execute("DECLARE left_open CURSOR FOR SELECT 1")


def _copy() -> None:
    connection.ensure_connection()
    copy = connection.connection.cursor().copy("COPY auth_group (name) FROM stdin")
    LEFT.append(copy)
    copy.__enter__()


def _pipeline() -> None:
    connection.ensure_connection()
    pipeline = connection.connection.pipeline()
    LEFT.append(pipeline)
    pipeline.__enter__()


def _begin_around_django() -> None:
    connection.ensure_connection()
    connection.connection.execute("BEGIN")


WAYS_TO_LEAVE_OPEN = {
    "atomic": lambda: transaction.atomic().__enter__(),
    "begin": lambda: _begin("default"),
    "begin around Django": _begin_around_django,
    "begin elsewhere": lambda: _begin("second"),
    "savepoint": _begin_after_savepoint,
    "failed": _fail_in_transaction,
    "autocommit": lambda: transaction.set_autocommit(False),
    "cursor": _declare,
    "copy": _copy,
    "pipeline": _pipeline,
}


def _leave_open(way: str, name: str) -> None:
    WAYS_TO_LEAVE_OPEN[way]()
    if way in ("atomic", "begin", "begin around Django", "savepoint", "autocommit", "cursor"):
        Group.objects.create(name=name)


@task(max_attempts=1)
def leave_open(way: str) -> None:
    """Leave a transaction open in one of many ways, and a row in it where that can be."""
    _leave_open(way, "in what was left open")


@task(max_attempts=1)
async def leave_open_async(way: str) -> None:
    await sync_to_async(_leave_open)(way, "in what was left open")


@task(max_attempts=1, atomic=True)
def leave_open_atomically(way: str) -> None:
    Group.objects.create(name="in what was left open")
    WAYS_TO_LEAVE_OPEN[way]()


@task(max_attempts=1)
def leave_open_and_defer(way: str) -> None:
    _leave_open(way, "in what was left open")
    raise Defer(timedelta())


@task(max_attempts=1)
def leave_open_and_fail(way: str) -> None:
    _leave_open(way, "in what was left open")
    raise ValueError("as told")


@task(max_attempts=1)
async def write_and_wait(seconds: float) -> None:
    """Write on the connection that async tasks share, in whatever transaction is open there."""
    await Group.objects.acreate(name="beside what was left open")
    await asyncio.sleep(seconds)


@task(atomic=True, max_attempts=1)
def leave_an_inner_transaction_open() -> None:
    transaction.atomic().__enter__()


@task(max_attempts=2, backoff=[0])
def leave_in_a_transaction(name: str) -> None:
    with transaction.atomic():
        Group.objects.create(name=name)


@task
def defer_what_is_refused() -> None:
    try:
        Group.objects.create(name="refused")
    except DatabaseError:
        raise Defer(timedelta()) from None


@task
async def change_session_async(text: str) -> None:
    await sync_to_async(change_session)(text, by="django")


@task
async def session_state_async() -> dict[str, str]:
    return await sync_to_async(session_state)()


@task(atomic=True)
async def leave_atomically_async(name: str) -> None:
    await Group.objects.acreate(name=name)


@task
def change_session(text: str, *, by: str) -> None:
    """Leave something behind in the session of this thread's connection."""
    if by == "psycopg":
        connection.ensure_connection()
        connection.connection.execute(text)
        return
    with connection.cursor() as cursor:
        cursor.execute(text)


@task
def session_state() -> dict[str, str]:
    """Return what a task may find in a session that it did not make."""
    queries = {
        "settings": "SELECT string_agg(name || '=' || setting, ',' ORDER BY name) FROM pg_settings "
        "WHERE source = 'session'",
        "search_path": "SHOW search_path",
        "user": "SELECT current_user || session_user",
        "prepared": "SELECT count(*) FROM pg_prepared_statements",
        "cursors": "SELECT count(*) FROM pg_cursors",
        "temporary": "SELECT count(*) FROM pg_class WHERE relpersistence = 't'",
        "locks": "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' "
        "AND pid = pg_backend_pid()",
        "channels": "SELECT count(*) FROM pg_listening_channels()",
    }
    found = {}
    with connection.cursor() as cursor:
        for name, query in queries.items():
            cursor.execute(query)
            found[name] = str(cursor.fetchone()[0])
    return found


@task
def backend_pid() -> int:
    return _backend_pid()


@task
def close_connection() -> None:
    """Break the thread's connection, as a restart of the server would."""
    connection.ensure_connection()
    connection.connection.close()


@task
def kill_its_worker() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@task
def end_a_thread(name: str) -> None:
    """End one of its process's threads, as nothing should."""
    for thread in threading.enumerate():
        if thread.name == name:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit)
            )


@task
def exit_quietly() -> None:
    """End the process as if all were well."""
    os._exit(0)


@task
def crash() -> None:
    """End the process as a fault in a library of C does."""
    ctypes.string_at(0)


@task
def pid() -> int:
    return os.getpid()


KEPT: list[bytes] = []


@task
def grow(megabytes: int) -> None:
    """Keep so much memory."""
    KEPT.append(b"x" * (megabytes * 1_000_000))


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


async def _exit() -> None:
    raise SystemExit(3)


@task(max_attempts=1)
async def exit_beside() -> None:
    """End the process from a task of its own, whose error the loop raises, too."""
    await asyncio.gather(_exit())


BACKGROUND: set[asyncio.Task[None]] = set()


async def _clean_up() -> None:
    try:
        await asyncio.sleep(3600)
    finally:
        print("cleaned up behind it", file=sys.stderr, flush=True)


@task
async def leave_a_task_behind() -> None:
    BACKGROUND.add(asyncio.create_task(_clean_up()))


@task
async def leave_a_thread_behind() -> None:
    """Run something in the loop's executor, whose threads Python waits for at its end."""
    asyncio.get_running_loop().run_in_executor(None, time.sleep, 3600)


@task
async def count_slowly(seconds: float) -> int:
    """Read more than one chunk, slowly, on a connection that has to stay open meanwhile."""
    count = 0
    async for _ in Group.objects.order_by("pk").aiterator(chunk_size=2):
        count += 1
        await asyncio.sleep(seconds)
    return count


@task
def return_a_coroutine() -> Any:
    return double.func(2)


@task(atomic=True)
def return_a_generator() -> Any:
    Group.objects.create(name="before a generator")
    return (number for number in range(3))


@task
async def return_a_future() -> Any:
    return asyncio.get_running_loop().create_future()


def _receive() -> None:
    """Wait in C for what never comes: no exception can be raised there."""
    one, other = socket.socketpair()
    with one, other:
        one.recv(1)


@task(timeout=0.2, hard_timeout=0.5, max_attempts=1)
def receive() -> None:
    _receive()


@task(timeout=0.2, hard_timeout=0.5, max_attempts=1, atomic=True)
def receive_atomically() -> None:
    Group.objects.create(name="by a run that is stuck")
    _receive()


@task(timeout=0.2, hard_timeout=0.5, max_attempts=1)
async def receive_in_the_loop() -> None:
    _receive()


@task(timeout=0.2, hard_timeout=0.5, max_attempts=1)
async def go_on_in_the_loop() -> None:
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.01)


@task(hard_timeout=0.5, max_attempts=1)
def receive_without_timeout() -> None:
    _receive()


@task(hard_timeout=0.5, max_attempts=1)
def outlast(seconds: float) -> None:
    time.sleep(seconds)


@task(timeout=0.2, max_attempts=2, backoff=[0])
def receive_by_default() -> None:
    _receive()


@task(weight=5)
def lift(number: int) -> int:
    return number


@task(dedupe_key="fold", on_conflict="replace", run_after=60, longest_wait=600)
def fold() -> None: ...
