"""What the suite's messages do. Each takes the number that a producer gave its message."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import threading
import time
from pathlib import Path

from asgiref.sync import sync_to_async
from django.db import connection

from pgqueue import Cancel, Discard, ParentFailed, TaskContext, task
from pgqueue.tasks.delivery import Delivery

# A run that meets a fault is charged a failure, which is not what the ledger asks about.
PATIENT = {"max_attempts": 1000, "backoff": [0.1]}


def leave(run: TaskContext | Delivery, number: int) -> None:
    """Leave the row that the ledger counts."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO chaos_effect (number, message_id, attempt) VALUES (%s, %s, %s)",
            [number, int(run.id), run.attempt],
        )


@task(takes_context=True, **PATIENT)
def plain(context: TaskContext, number: int, seconds: float = 0) -> None:
    time.sleep(seconds)
    leave(context, number)


@task(takes_context=True, atomic=True, **PATIENT)
def atomic(context: TaskContext, number: int, seconds: float = 0) -> None:
    leave(context, number)
    time.sleep(seconds)


@task(takes_context=True, atomic=True, channel="ordered", **PATIENT)
def in_order(context: TaskContext, number: int, seconds: float = 0) -> None:
    """Leave its row last: of two at once the order of the rows is not that of their beginning."""
    time.sleep(seconds)
    leave(context, number)


@task(takes_context=True, channel="limited", **PATIENT)
def limited(context: TaskContext, number: int, seconds: float = 0) -> None:
    run = [int(context.id), context.attempt]
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO chaos_run (message_id, attempt) VALUES (%s, %s)", run)
    time.sleep(seconds)
    leave(context, number)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE chaos_run SET ended_at = clock_timestamp() "
            "WHERE message_id = %s AND attempt = %s",
            run,
        )


@task(takes_context=True, channel="paced", **PATIENT)
def paced(context: TaskContext, number: int, seconds: float = 0) -> None:
    leave(context, number)


@task(takes_context=True, **PATIENT)
async def waiting(context: TaskContext, number: int, seconds: float = 0) -> None:
    await asyncio.sleep(seconds)
    await sync_to_async(leave)(context, number)


@task(takes_context=True, **PATIENT)
def fails_once(context: TaskContext, number: int, seconds: float = 0) -> None:
    if not context.task_result.failures:
        raise ValueError("the first time, it does")
    leave(context, number)


@task(takes_context=True, atomic=True, **PATIENT)
def fails_once_atomic(context: TaskContext, number: int, seconds: float = 0) -> None:
    """Leave its row both times, the first of them in vain."""
    leave(context, number)
    if not context.task_result.failures:
        raise ValueError("the first time, it does")


@task(takes_context=True, **PATIENT)
def in_parts(context: TaskContext, number: int, seconds: float = 0) -> None:
    """Note how far it came, and go on with that later."""
    if context.progress is None:
        context.extend(10)
        context.checkpoint("half", extend=10)
        context.defer(0.1)
    leave(context, number)


@task(**PATIENT)
def gives_up(number: int, seconds: float = 0) -> None:
    raise Cancel("it was to be")


@task(max_attempts=1)
def hopeless(number: int, seconds: float = 0) -> None:
    raise ValueError("it always does")


@task
def never(number: int, seconds: float = 0) -> None:
    """Due in an hour, and cancelled before."""
    raise AssertionError(f"{number} was to be cancelled")


@task(takes_context=True)
def unstorable(context: TaskContext, number: int, seconds: float = 0) -> object:
    leave(context, number)
    return object()


@task(takes_context=True)
def refused(context: TaskContext, number: int) -> None:
    """Be done, where the database refuses to store that."""
    leave(context, number)


@task(takes_context=True, **PATIENT)
def once(context: TaskContext, number: int) -> None:
    """Enqueued several times, and there only once."""
    leave(context, number)


@task(takes_context=True, **PATIENT)
def large(context: TaskContext, number: int, text: str, length: int) -> str:
    """Take much, and return some of it."""
    if len(text) != length:
        raise ValueError(f"{length} were sent, and {len(text)} came")
    leave(context, number)
    return text[:1000]


@task
def nothing(number: int) -> None:
    """Be as fast as can be."""


@task(atomic=True)
def nothing_atomic(number: int) -> None:
    """Be as fast as can be in a transaction of one's own."""


@task
def segfaults(number: int) -> None:
    ctypes.string_at(0)


@task(takes_context=True, **PATIENT)
def ends_a_thread(context: TaskContext, number: int, name: str) -> None:
    """End one of its process's threads, as nothing should; not when it runs once more."""
    leave(context, number)
    for thread in threading.enumerate():
        if thread.name == name and context.attempt == 1:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit)
            )


@task
def is_killed(number: int) -> None:
    """Die as by the kernel when memory is short."""
    os.kill(os.getpid(), signal.SIGKILL)


@task(takes_context=True)
def ignores_everything(
    context: TaskContext, number: int, folder: str, seconds: float = 120
) -> None:
    """Say that it began, and go on whatever is raised in it; but not when it runs once more."""
    leave(context, number)
    Path(folder, f"{number} began").touch()
    until = time.monotonic() + (seconds if context.attempt == 1 else 0)
    while time.monotonic() < until:
        try:
            time.sleep(0.05)
        except BaseException:  # noqa: S112
            continue


@task(takes_context=True, **PATIENT)
def stops_midway(context: TaskContext, number: int, folder: str, seconds: float = 30) -> None:
    """Have its effect, say so, and be about to settle for a while."""
    leave(context, number)
    Path(folder, f"{number} took effect").touch()
    time.sleep(seconds if context.attempt == 1 else 0)


@task(takes_context=True, atomic=True, **PATIENT)
def stops_midway_atomic(
    context: TaskContext, number: int, folder: str, seconds: float = 30
) -> None:
    """Do the same in one transaction with the settle."""
    leave(context, number)
    Path(folder, f"{number} took effect").touch()
    time.sleep(seconds if context.attempt == 1 else 0)


def check_parents(context: TaskContext, parents: object = None, whole: object = None) -> None:
    """Check that all parents have ended, as others see it, and that their results are whole.

    Raises:
        Discard: they have not, or are not; the books expect no such end.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT m.id FROM pgqueue_dependency d JOIN pgqueue_message m ON m.id = d.parent_id "
            "WHERE d.flow_id = %s AND d.child_id = %s AND m.state <> 'dead'",
            [int(context.flow.id), int(context.id)],
        )
        if live := cursor.fetchall():
            raise Discard(f"{context.id} runs before its parents {live} have ended")
    if parents != whole:
        raise Discard(f"{context.id} got {parents} for {whole}")


@task(takes_context=True, **PATIENT)
def member(context: TaskContext, number: int, parents: list[int], whole: list[int]) -> int:
    """Be part of a flow: return the number, and take those of the parents."""
    check_parents(context, parents, whole)
    time.sleep(number % 5 / 500)
    leave(context, number)
    return number


@task(takes_context=True, atomic=True, **PATIENT)
def member_atomic(context: TaskContext, number: int, parents: list[int], whole: list[int]) -> int:
    check_parents(context, parents, whole)
    leave(context, number)
    return number


@task(takes_context=True, max_attempts=1)
def fails_until_replayed(
    context: TaskContext, number: int, parents: list[int], whole: list[int]
) -> int:
    if "replayed_from" not in context.metadata:
        raise ValueError("the first time, it does")
    leave(context, number)
    return number


@task(takes_context=True, **PATIENT)
def reports(context: TaskContext, number: int, parents: list[object], whole: list[int]) -> None:
    """Run though each parent has failed, and is told of it."""
    check_parents(context)
    outcomes = [each.outcome for each in parents if isinstance(each, ParentFailed)]
    if len(outcomes) != len(whole) or not {"dead", "cancelled"}.issuperset(outcomes):
        raise Discard(f"{context.id} got {parents} for {whole}")
    leave(context, number)


@task(takes_context=True, **PATIENT)
def grows(context: TaskContext, number: int, more: list[int], whole: int) -> int:
    """Add members to the flow, and one that takes what they return; others wait for all of them."""
    parts = context.flow.enqueue_many(member, [(each, [], []) for each in more], awaited=True)
    context.flow.enqueue(member, whole, parts, more, awaited=True)
    leave(context, number)
    return number


@task(takes_context=True, atomic=True, **PATIENT)
def grows_atomically(context: TaskContext, number: int, more: list[int], whole: int) -> int:
    parts = context.flow.enqueue_many(member, [(each, [], []) for each in more], awaited=True)
    context.flow.enqueue(member, whole, parts, more, awaited=True)
    leave(context, number)
    return number


@task(channel="pulled", max_attempts=1000)
def pulled(number: int, seconds: float = 0) -> None:
    raise AssertionError(f"{number} is for consumers")


KINDS = {
    each.name.rpartition(".")[2]: each
    for each in (
        *(plain, atomic, in_order, limited, paced, waiting, fails_once, fails_once_atomic),
        *(in_parts, gives_up, hopeless, never, pulled),
    )
}
