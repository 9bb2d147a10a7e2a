"""Store messages of several tasks in one transaction, in few statements and without deadlocks.

Transactions that take several locks deadlock if each waits for a lock of the other. Here all locks
are taken in one order (Havender, 1968): first ordered lanes, then lanes and channels of limited
size, last messages with dedupe keys. Within each kind, locks are taken by name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from functools import partial
from itertools import chain, groupby
from operator import itemgetter
from types import NoneType
from typing import Any, TypeAlias, TypeVar

from django.db import connections, transaction

from pgqueue import signals
from pgqueue.calls import tracing
from pgqueue.conf import settings
from pgqueue.database import guard
from pgqueue.database.migration_check import needing_tables
from pgqueue.engine import collecting
from pgqueue.engine import enqueue as engine
from pgqueue.engine.values import Cursors, Tuples
from pgqueue.exceptions import BatchTooLarge, DuplicateMessage, InvalidTask
from pgqueue.states import State
from pgqueue.tasks import tenants
from pgqueue.tasks.current import running_in
from pgqueue.tasks.declaration import Declaration
from pgqueue.tasks.options import COLLECT
from pgqueue.tasks.result import TaskResult
from pgqueue.values.instants import of_project

R = TypeVar("R", bound=TaskResult[Any])
Declared: TypeAlias = Declaration[Any, Any]
Results: TypeAlias = Sequence[TaskResult[Any]]

on_stored: ContextVar[Callable[[Results], None] | None]
on_stored = ContextVar("on_stored", default=None)
"""Called after messages were stored: `pgqueue.testing` runs them there."""

SCALARS = {int, str, float, bool, NoneType}


def lock(connection: Cursors, results: Iterable[TaskResult[Any]]) -> None:
    """Take the locks of lanes that storing these messages takes.

    Raises:
        BatchTooLarge: there are more ordered lanes, or keys of limited size, than one transaction
            may lock.
    """
    lanes: set[tuple[str, str]] = set()
    ordered: set[tuple[str, str]] = set()
    for each in results:
        lane = (each.task.queue_name, each.task.key_of(each.args, each.kwargs))
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
    """Yield the batches of messages that go out together: their tasks differ only in their keys.

    Messages with dedupe keys come last, in the order of their keys. To store such a message, a
    transaction waits for each open transaction that stored the same key.

    Args:
        apart: a function of the message. Messages of a batch share its return value, too.
    """
    plain: defaultdict[Hashable, list[R]] = defaultdict(list)
    deduplicated: list[tuple[tuple[str, str], Hashable, R]] = []
    numbers: dict[Hashable, int] = {}
    of_tasks: dict[Declared, int] = {}  # few for many messages, as a rule
    for each in results:
        task = each.task
        if (number := of_tasks.get(task)) is None:
            number = of_tasks[task] = numbers.setdefault(task.shared, len(numbers))
        shared = (number, apart(each))
        key = task.dedupe_key_of(each.args, each.kwargs)
        if key is None:
            plain[shared].append(each)
        else:
            deduplicated.append(((task.queue_name, key), shared, each))
    yield from plain.values()
    deduplicated.sort(key=itemgetter(0))
    for _, rows in groupby(deduplicated, key=itemgetter(1)):
        yield [each for _, _, each in rows]


def store(
    results: Sequence[R],
    ids: Sequence[int] | None = None,
    *,
    payloads: Sequence[str] | None = None,
    flow_id: int | None = None,
    waits: bool = False,
) -> Sequence[R]:
    """Store messages, and set their ids and states in their results.

    Args:
        results: at least one; the tasks of all have the same `shared`.
        ids: reserved ids, one for each result; None: the next free ids.
        payloads: the encoded arguments; None: this function encodes them.
        flow_id: the flow that the messages are part of. The flow's other messages follow, so
            `on_stored` is not called yet.
        waits: whether the messages wait for parents.

    Raises:
        InvalidArguments, ChannelFull, DuplicateMessage: as `enqueue` does.
    """
    task = results[0].task
    with tracing.sending(task.queue_name, task=task.name, count=len(results)) as sending:
        common = _common(task, sending)._replace(flow_id=flow_id, waits=waits)
        _store(task, results, ids, common, payloads)
        sending.stored((each.id for each in results), (each.came_of for each in results))
    return results


def _store(
    task: Declared,
    results: Results,
    ids: Sequence[int] | None,
    common: engine.Common,
    payloads: Sequence[str] | None,
) -> None:
    makes_keys = callable(task.key) or callable(task.dedupe_key)
    keys, dedupe_keys = guard.call(_keys, results) if makes_keys else _keys(results)
    if task.ordered and len(set(keys)) > engine.LOCKED_KEYS:
        raise InvalidTask(
            f"enqueue_many() of {task.name}: ordered messages may have {engine.LOCKED_KEYS} "
            "different keys in one call. Call it again for more."
        )
    encode = task.codec.encode
    texts = iter(payloads or (encode(result.args, result.kwargs) for result in results))
    verb: Callable[..., engine.Enqueued] = engine.enqueue
    if task.on_conflict == COLLECT:
        given = guard.call(list, texts)
        join = task.join
        join.check(given)
        texts, verb = iter(given), partial(collecting.enqueue, join=join)
    store = partial(
        verb,
        common=common,
        keys=keys,
        dedupe_keys=None if all(key is None for key in dedupe_keys) else dedupe_keys,
        ids=ids,
    )
    if task.enqueue_on_commit:
        _store_on_commit(task, results, partial(store, payloads=list(texts)))
    else:
        # The rest is encoded while the messages go out, except where encoding may run the user's
        # code, which may query the same database. The first one resolves the function's hints.
        ready = [next(texts)] if _are_scalars(results) else guard.call(list, texts)
        _note(task, results, _run(task, partial(store, payloads=chain(ready, texts))))
    _announce(task, results)
    if not task.enqueue_on_commit and common.flow_id is None:
        tell_stored(results)


def _announce(task: Declared, results: Results) -> None:
    if any(map(signals.task_enqueued.has_listeners, {each.task for each in results})):
        for result in results:
            signals.task_enqueued.send_robust(
                result.task, connection=task.connection, task_result=result
            )


def tell_stored(results: Results) -> None:
    """Call the receiver of `on_stored`, if there is one."""
    if (call := on_stored.get()) is not None:
        call(results)


def _store_on_commit(
    task: Declared,
    results: Results,
    store: Callable[..., engine.Enqueued],
) -> None:
    on_commit = task.enqueue_on_commit
    alias = on_commit if isinstance(on_commit, str) else task.alias
    ids: list[int] | None = None
    if not task.ordered:  # ordered messages get their ids in the order of the commits
        ids = _run(task, partial(engine.reserve, count=len(results)))
        for result, id in zip(results, ids or [], strict=True):
            result.id = str(id)
    for result in results:
        result.status = State.READY if task.run_after is None else State.SCHEDULED

    def enqueue() -> None:
        # A hook runs without a transaction. If _note() raises, none of several messages must stay.
        with nullcontext() if len(results) == 1 else atomic(task):
            _note(task, results, _run(task, partial(store, ids=ids)))
        tell_stored(results)

    transaction.on_commit(enqueue, using=alias)


def _run(task: Declared, verb: Callable[..., Any]) -> Any:
    """Run a verb of the engine on the task's connection, with Django's database errors."""
    with needing_tables(task.alias):
        if task.connection is not None:
            return verb(Tuples(task.connection))
        connection = connections[task.alias]
        with connection.wrap_database_errors:  # Django's cursors do this, except for COPY
            return verb(connection)


def atomic(task: Declared) -> AbstractContextManager[Any]:
    """Open a transaction, or a savepoint, on the connection that stores the task's messages."""
    if task.connection is not None:
        return Tuples(task.connection).atomic()
    return transaction.atomic(using=task.alias)


def _note(task: Declared, results: Results, stored: engine.Enqueued) -> None:
    """Write the outcome of the enqueue into the results.

    Raises:
        DuplicateMessage: a message with the dedupe key exists, and on_conflict is "raise".
    """
    for result, id, came_of in zip(results, stored.ids, stored.came_of, strict=True):
        result.id = "" if id is None else str(id)
        result.status = stored.state
        result.enqueued_at = of_project(stored.created_at)
        result.came_of = came_of
        if came_of == "existing":
            if task.on_conflict == "raise":
                raise DuplicateMessage(
                    f"Message {id} has the dedupe key of this {task.name} already."
                )
            result.look()


def _common(task: Declared, sending: tracing.Sending) -> engine.Common:
    return engine.Common(
        channel=task.queue_name,
        task=task.name,
        metadata=sending.metadata(tenants.carried(task.metadata_json)),
        max_attempts=task.max_attempts or settings().max_attempts,
        parent_id=None if task.connection else running_in(task.alias),
        **task.columns,
    )


def _keys(results: Results) -> tuple[list[str], list[str | None]]:
    """Return the keys and the dedupe keys of new messages."""
    return (
        [each.task.key_of(each.args, each.kwargs) for each in results],
        [each.task.dedupe_key_of(each.args, each.kwargs) for each in results],
    )


def _are_scalars(results: Results) -> bool:
    types = set(map(type, chain.from_iterable(result.args for result in results)))
    return types <= SCALARS and not any(result.kwargs for result in results)
