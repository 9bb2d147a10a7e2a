"""Store messages of several tasks in one transaction, in few statements and without deadlocks.

Transactions that take several locks deadlock if each waits for a lock of the other. Here all locks
are taken in one order (Havender, 1968): ordered lanes, lanes and channels of limited size, and last
the messages with dedupe keys; within each kind, by name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

from pgqueue.engine import enqueue as engine
from pgqueue.engine.values import Cursors
from pgqueue.exceptions import BatchTooLarge
from pgqueue.tasks.result import TaskResult

if TYPE_CHECKING:
    from pgqueue.tasks.definition import Task

R = TypeVar("R", bound=TaskResult[Any])


def lock(connection: Cursors, results: Iterable[TaskResult[Any]]) -> None:
    """Take the locks of lanes that storing these messages takes.

    Raises:
        BatchTooLarge: there are more ordered lanes, or keys of limited size, than one transaction
            may lock.
    """
    lanes: set[tuple[str, str]] = set()
    ordered: set[tuple[str, str]] = set()
    for each in results:
        lane = (each.task.queue_name, each.task.key_of(each))
        lanes.add(lane)
        if each.task.ordered:
            ordered.add(lane)
    if len(ordered) > engine.LOCKED_KEYS:
        raise BatchTooLarge
    engine.keep_order(connection, ordered)
    engine.keep_room(connection, lanes)


def together(
    results: Iterable[R], *, apart: Callable[[R], Hashable] = lambda result: None
) -> Iterator[list[R]]:
    """Yield the messages that go out together, whose tasks differ in nothing but their keys.

    Those with dedupe keys come last and in the order of these, since storing one waits for an open
    transaction that stored the same key.

    Args:
        apart: what else messages must have in common.
    """
    plain: defaultdict[Hashable, list[R]] = defaultdict(list)
    deduplicated: list[tuple[tuple[str, str], Hashable, R]] = []
    numbers: dict[Hashable, int] = {}
    of_tasks: dict[Task[Any, Any], int] = {}  # few for many messages, as a rule
    for each in results:
        task = each.task
        if (number := of_tasks.get(task)) is None:
            number = of_tasks[task] = numbers.setdefault(task.shared, len(numbers))
        shared = (number, apart(each))
        key = task.dedupe_key_of(each)
        if key is None:
            plain[shared].append(each)
        else:
            deduplicated.append(((task.queue_name, key), shared, each))
    yield from plain.values()
    deduplicated.sort(key=itemgetter(0))
    for _, rows in groupby(deduplicated, key=itemgetter(1)):
        yield [each for _, _, each in rows]
