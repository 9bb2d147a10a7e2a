"""Enqueue many ended messages once more."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from django.db import connections

from pgqueue.engine import lookup
from pgqueue.engine.lookup import Found
from pgqueue.exceptions import InvalidArguments
from pgqueue.operating import bulk
from pgqueue.states import Outcome, State
from pgqueue.tasks import Task, find_task, rerunning
from pgqueue.tasks.declaration import Declaration

AT_ONCE = 100
"""Messages that are read at a time, with their arguments."""
ENDED = {*Outcome.values, State.DEAD.value}


def rerun_each(
    ids: Sequence[int], *, database: str, is_to_stop: Callable[[], bool] = lambda: False
) -> Iterator[tuple[int, int | None]]:
    """Enqueue ended messages and dead letters once more, in the order of the ids.

    Each message is stored by itself: in an open transaction by a savepoint, else by a transaction.
    So an error undoes no earlier one, and no two calls wait for each other's lanes.

    Args:
        is_to_stop: returns whether to end before the next message.

    Returns:
        An iterator over each id and the id of its rerun; None: the message does not exist, has not
        ended, no task has its name here, or the import of its task's module fails. Or it takes a
        result of its flow that is gone, or must not be stored. Or its metadata is not readable, or
        the database does not read a model instance among its arguments.

    Raises:
        ChannelFull: a policy's max_size is reached. Earlier messages stay enqueued.
    """
    for start in range(0, len(ids), AT_ONCE):
        batch = ids[start : start + AT_ONCE]
        found = lookup.find_each(connections[database], batch)
        for id in batch:
            if is_to_stop():
                return
            message = found.get(id)
            task = None if message is None else _task_of(message, database)
            again = None
            if message is not None and task is not None:
                with suppress(InvalidArguments):
                    again = rerunning.rerun(task, message)
            yield id, again


def _task_of(message: Found, database: str) -> Declaration[..., object] | None:
    """Return the task by which a message may be enqueued once more; None: there is none."""
    if message.state not in ENDED or message.task in bulk.TASKS:
        return None
    try:
        task: Task[..., object] | None = find_task(message.task)
    except Exception:  # the module's own, as it is imported
        return None
    return None if task is None else task.using(database=database)
