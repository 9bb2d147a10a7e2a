"""Enqueue the staged rows of a backfill in small batches, at a rate; resume where it stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from django.core.exceptions import ObjectDoesNotExist
from django.db import DatabaseError, transaction

from pgqueue.conf import settings
from pgqueue.database import guard
from pgqueue.database.connections import borrow
from pgqueue.engine import backfill as engine
from pgqueue.engine.culprits import by_halves, in_words, may_be_own
from pgqueue.exceptions import (
    BackfillConflict,
    BatchTooLarge,
    ChannelFull,
    DuplicateMessage,
    InvalidArguments,
    InvalidTask,
    InvalidTenant,
    UnreadablePayload,
)
from pgqueue.tasks import Task, tenants
from pgqueue.tasks.dropping import refuse_dropped

FULL = 1.0
"""Seconds until a full channel is tried again."""
OF_A_KEY = (
    *(InvalidTask, ObjectDoesNotExist, AssertionError, AttributeError),
    *(TypeError, ValueError, LookupError, ArithmeticError),
)
"""Errors of a task's function for its key that may be the fault of the row."""


def begun(task: Task[..., Any], name: str, *, source: str) -> engine.BackfillProgress | None:
    """Return the backfill of this name, if it has begun.

    Raises:
        BackfillConflict: its task or its source is another one.
    """
    with borrow(task.alias) as connection:
        found = engine.find_progress(connection, name)
    if found and (found.task, found.source) != (task.name, source):
        raise BackfillConflict(
            f"The backfill {name!r} is of {found.task}, from {found.source}: give another name."
        )
    return found


def begin(
    task: Task[..., Any], name: str, *, source: str, attempts: list[int], total: int
) -> engine.BackfillProgress:
    """Record staged rows as a backfill.

    Raises:
        BackfillConflict: another process has begun a backfill of this name meanwhile.
    """
    with borrow(task.alias) as connection:
        is_new = engine.record(
            connection, name, task=task.name, source=source, attempts=attempts, total=total
        )
    if not is_new:
        raise BackfillConflict(f"Another process has begun the backfill {name!r}: it goes on.")
    return engine.BackfillProgress(task.name, source, 0, total, None)


def release(
    task: Task[..., Any],
    name: str,
    *,
    rate: float | None,
    batch: int,
    is_typed: bool = True,
    skip: Callable[[InvalidArguments], None] | None = None,
    progress: Callable[[int], None] = lambda count: None,
) -> None:
    """Enqueue the rows that are left, in transactions of at most `batch` rows each.

    It may be interrupted at any moment: each transaction records its progress. Where the channel
    has no room for a batch, a smaller batch is tried; where it is full, it is tried again.

    Args:
        rate: messages a second, at most; None: no limit.
        is_typed: whether the source of the rows has types: see `call_of`.
        skip: is called for each row that does not fit the task, once its transaction is done;
            None: such a row is an error.
        progress: is called with the number of rows of each transaction.

    Raises:
        InvalidArguments: a row does not fit the task. The rows of earlier transactions are
            enqueued.
    """
    if settings().tenant is not None:
        tenants.current()  # its error would be taken for one of the first row
    # The messages are stored in the transaction that takes their rows, not after its commit.
    own = task.using(enqueue_on_commit=False)
    limit = batch if rate is None else max(1, min(batch, int(rate)))
    room = limit
    due = time.monotonic()
    while True:
        left_out: list[InvalidArguments] = []
        leave = None if skip is None else left_out.append
        try:
            count = _release_some(own, name, room, is_typed, leave)
        except ChannelFull:
            if room == 1:
                time.sleep(FULL)
            room = max(1, room // 2)
            continue
        except (BatchTooLarge, InvalidTask):
            if room == 1:
                raise
            # Its rows have more keys than one transaction may lock.
            room = limit = room // 2
            continue
        if skip is not None:
            for error in left_out:
                skip(error)
        if count is None:
            return
        progress(count)
        room = min(2 * room, limit)
        if rate is not None:
            # A delay is not made up for, so that the rate is never exceeded.
            due = max(due, time.monotonic() - 1) + count / rate
            time.sleep(max(0.0, due - time.monotonic()))


def _release_some(
    task: Task[..., Any],
    name: str,
    limit: int,
    is_typed: bool,
    skip: Callable[[InvalidArguments], None] | None,
) -> int | None:
    with transaction.atomic(using=task.alias):
        with borrow(task.alias) as connection:
            payloads = engine.take(connection, name, limit=limit)
        if payloads is None:
            return None
        calls = []
        for payload in payloads:
            try:
                calls.append((call_of(task, payload, is_typed=is_typed), payload))
            except InvalidArguments as error:
                if skip is None:
                    raise
                skip(error)
        _enqueue(task, calls, skip)
        return len(payloads)


def _enqueue(
    task: Task[..., Any],
    calls: Sequence[tuple[dict[str, Any], str]],
    skip: Callable[[InvalidArguments], None] | None,
) -> None:
    """Enqueue calls; skip the rows whose messages are refused.

    Raises:
        InvalidArguments: there is such a row, and `skip` is None.
    """

    def some(calls: Sequence[tuple[dict[str, Any], str]]) -> None:
        with transaction.atomic(using=task.alias):
            refuse_dropped(task.queue_name, *task.enqueue_many([call for call, _ in calls]))

    def leave(call: tuple[dict[str, Any], str], error: Exception) -> None:
        refused = InvalidArguments(f"{in_words(error)} The row: {call[1]:.500}")
        if skip is None:
            raise refused from error
        skip(refused)

    list(by_halves(some, calls, leave, is_own=_is_refused))


def _is_refused(error: BaseException) -> bool:
    """Return whether the row would be refused again at another try."""
    if isinstance(error, InvalidArguments | DuplicateMessage):
        return True
    return isinstance(error, DatabaseError) and may_be_own(error)


def check_may_be_open(task: Task[..., Any]) -> None:
    """Refuse a task that asks for encryption.

    Raises:
        InvalidTask: the task asks for encryption.
    """
    if task.encrypted:
        raise InvalidTask(
            f"{task.name} is encrypted, but a backfill stages its rows in the open. Read the rows "
            "in your own code, and call enqueue_many()."
        )


def call_of(task: Task[..., Any], payload: str, *, is_typed: bool = True) -> dict[str, Any]:
    """Return the arguments of the call for a row: options of the task may be functions of them.

    A text is read by the parameter's hint: "5" is 5 where the hint is int, and stays a text where
    the hint takes texts or there is none.

    Args:
        payload: the payload of a staged row.
        is_typed: whether the source of the row has types. A cell of CSV has none: see
            `Codec.read_row`.

    Raises:
        InvalidArguments: the arguments do not fit the task, or its function for a key fails.
    """
    try:
        arguments = task.codec.read_row(payload, is_typed=is_typed)
        task.codec.check_fit((), arguments)
    except (UnreadablePayload, ObjectDoesNotExist) as error:
        raise InvalidArguments(f"{error} The row: {payload:.500}") from error
    if callable(task.key) or callable(task.dedupe_key):
        _check_keys(task, arguments, payload)
    return arguments


def _check_keys(task: Task[..., Any], arguments: dict[str, Any], payload: str) -> None:
    """Call the task's functions for its keys.

    Raises:
        InvalidArguments: a function fails for this row, or returns no valid key.
    """
    try:
        guard.call(task.key_of, (), arguments)
        guard.call(task.dedupe_key_of, (), arguments)
    except InvalidTenant:
        raise
    except OF_A_KEY as error:
        said = error if isinstance(error, InvalidTask) else f"{type(error).__name__}: {error}"
        raise InvalidArguments(f"The key of {task.name}: {said} The row: {payload:.500}") from error
