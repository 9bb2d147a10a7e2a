"""Operate on all messages that a filter finds, however many, by a message that does it in batches.

The walk goes through the messages by their ids, downwards from the newest id at the request. The
changes of a batch and the place of the walk are committed together. So the walk goes on from this
place after an error, a restart or the death of its worker, and meets no message twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timedelta
from time import monotonic
from typing import Any

from django.apps import apps
from django.db import transaction
from django.db.models import Exists, OuterRef

from pgqueue.conf import settings
from pgqueue.database.connections import borrow
from pgqueue.database.migration_check import needing_tables
from pgqueue.engine import purge as purging
from pgqueue.engine.lookup import LARGEST
from pgqueue.engine.operate import BATCH, VERBS, Operated, unless_locked
from pgqueue.exceptions import Cancel, UnknownOperation
from pgqueue.listing.index import NOT_IN_ORDER, without
from pgqueue.listing.messages import failed_with, newest_first
from pgqueue.listing.waits import waiting_for
from pgqueue.models import History, Message, Operation
from pgqueue.models.message import MessageQuerySet
from pgqueue.operating.channels import WAITING
from pgqueue.operating.searching import matching
from pgqueue.states import State
from pgqueue.tasks import Task, TaskContext, TaskResult, task
from pgqueue.tasks.dropping import refuse_dropped
from pgqueue.values.error_words import hint
from pgqueue.values.names import as_channel, as_key, as_path
from pgqueue.values.number_checks import as_age, as_count
from pgqueue.values.searches import as_search
from pgqueue.values.waits import as_wait

CHANNEL = "operations"
"""A channel of its own: an operation does not wait behind the messages that it changes."""
RUN_FOR = 10.0
"""Seconds after which a run hands its message back, so that a worker that stops need not wait."""
NAMED = 10
"""Ids of locked messages that the progress names."""
GOVERNED = "governed"
"""A filter's state for ready messages of governed lanes."""


@dataclass(frozen=True, kw_only=True)
class Filter:
    """The messages whose columns equal the given values; None: any value.

    Args:
        state: a state, or "governed".
        key: "" means messages without a key.
        error: the class of the last error: its import path, or the path's end.
        flow: the id of the messages' flow.
        waits: what runs of durable tasks wait for: sleep, signal, event, call or retry; with a
            name: signal:approved.
        match: a value of their arguments, metadata or tags, or a part of their last error's text:
            args.order_id=7, args.order.id=7, meta.tenant=a, tag=import, error=no such order.

    Raises:
        ValueError, TypeError: a value is invalid.
    """

    state: str | None = None
    channel: str | None = None
    task: str | None = None
    key: str | None = None
    error: str | None = None
    flow: int | None = None
    waits: str | None = None
    match: str | None = None

    def __post_init__(self) -> None:
        if self.state is not None and self.state not in (*State.values, GOVERNED):
            raise ValueError(f"{self.state!r} is no state. {hint(self.state, State.values)}")
        checks = {
            "channel": as_channel,
            "task": as_path,
            "key": as_key,
            "error": as_path,
            "waits": as_wait,
            "match": as_search,
        }
        for name, check in checks.items():
            if getattr(self, name) is not None:
                check(getattr(self, name))
        if self.flow is not None:
            as_count(self.flow, most=LARGEST)

    def wanted(self) -> dict[str, Any]:
        """Return the columns' wanted values, for a listing."""
        return wanted({name: value for name, value in asdict(self).items() if value is not None})


NARROWED_BY = tuple(each.name for each in fields(Filter))
"""The names of the conditions that choose messages: the one registry.

The admin's list of messages, the pages that confirm an operation, and the options of commands are
made of it. Each has its own words for a name.
"""


def wanted(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns' wanted values, for a listing, by the values of a filter's attributes."""
    columns = dict(given)
    if columns.get("state") == GOVERNED:
        columns |= {"state": State.READY.value, "governed": True}
    if error := columns.pop("error", None):
        columns |= failed_with(error)
    if waits := columns.pop("waits", None):
        columns |= waiting_for(waits)
    if match := columns.pop("match", None):
        columns |= matching(match)
    if flow := columns.pop("flow", None):
        columns["flow_id"] = flow
    return columns


@dataclass(kw_only=True)
class OperationProgress:
    """The progress of an operation.

    Attributes:
        newest: the largest id that the operation reaches.
        place: the id that the walk goes on from; None: it has not begun.
        walked: how many ids the walk has passed.
        done: how many messages were changed.
        asked: how many running messages were asked to stop.
        busy: how many messages were locked, and left unchanged.
        busy_ids: the first ids of locked messages.
        has_ended: whether the walk is over, and logged.
        up_to: a purge discards the messages with ids up to this one.
        before: a purge discards the messages that were enqueued before this time.
    """

    newest: int
    place: int | None = None
    walked: int = 0
    done: int = 0
    asked: int = 0
    busy: int = 0
    busy_ids: list[int] = field(default_factory=list)
    has_ended: bool = False
    up_to: int | None = None
    before: str | None = None

    def add(self, operated: Operated) -> None:
        """Count the result of a batch."""
        self.done += len(operated.done)
        self.asked += len(operated.asked)
        self.busy += len(operated.busy)
        self.busy_ids = [*self.busy_ids, *sorted(operated.busy)][:NAMED]

    @property
    def share(self) -> float:
        """The share of the ids that the walk has passed, from 0 to 1."""
        if self.has_ended:
            return 1.0
        return max(0.0, min(self.walked / max(self.newest, 1), 0.99))

    def move(self, place: int, *, walked: int) -> None:
        """Note the place of the walk."""
        self.place, self.walked = place, walked


@dataclass(frozen=True, kw_only=True)
class FoundMessages:
    """The messages that `find_messages()` has found.

    Attributes:
        ids: their ids, the newest first.
        is_all: whether every live message was looked at.
        looked_at: how many messages were looked at, at most.
        back_to: when the first message that was not looked at was enqueued; None: it was the last.
    """

    ids: list[int]
    is_all: bool
    looked_at: int
    back_to: datetime | None


def find_messages(
    filter: Filter, *, limit: int = 100, seconds: float = 1.0, database: str | None = None
) -> FoundMessages:
    """Look for live messages that a filter finds, the newest first, within a bounded time.

    Args:
        limit: the most messages.
        seconds: the time after which no further stretch of messages is begun.
        database: the alias of the queue's database, if not the one of `PGQUEUE`.

    Raises:
        ValueError, TypeError: `limit` is no whole number of 1 or more.
    """
    most, until = as_count(limit), monotonic() + seconds
    listing = newest_first(Message.objects.using(database or settings().database), filter.wanted())
    stretch, ids, looks = listing.stretch(), list[int](), 1
    ids += stretch.ids
    while stretch.next and len(ids) < most and monotonic() < until:
        stretch, looks = listing.stretch(stretch.next), looks + 1
        ids += stretch.ids
    return FoundMessages(
        ids=ids[:most],
        is_all=stretch.next is None and len(ids) <= most,
        looked_at=looks * listing.looks_at,
        back_to=listing.looked_back_to(stretch),
    )


def newest(database: str | None = None) -> int:
    """Return the id of the newest message; 0: there is none."""
    rows = Message.objects.using(database or settings().database).order_by("-pk")
    with without(rows.db, *NOT_IN_ORDER):
        return rows.values_list("pk", flat=True).first() or 0


def start(
    operation: str,
    filter: Filter,
    *,
    newest: int,
    user: Mapping[str, Any] | None = None,
    database: str | None = None,
) -> TaskResult[Any]:
    """Enqueue an operation on all messages up to an id that the filter finds.

    Args:
        operation: "replay", "discard", "cancel", "run_now" or "release".
        newest: messages with a larger id are left alone.
        user: the id and the name of the user who asks. The log names them at the operation's end.
        database: the alias of the queue's database, if not the one of `PGQUEUE`.

    Returns:
        The message that runs the operation. Its `cancel()` stops the operation after its batch.

    Raises:
        ValueError: there is no such operation.
        ChannelFull: the channel of operations is full.
    """
    if operation not in VERBS:
        raise ValueError(f"{operation!r} is no operation. {hint(operation, VERBS)}")
    given = {name: value for name, value in asdict(filter).items() if value is not None}
    return _start(operate, user, database, operation, newest, given)


def start_purge(
    channel: str,
    *,
    newest: int,
    states: Collection[str] = (*WAITING, State.DEAD),
    older_than: float | None = None,
    keep: int | None = None,
    user: Mapping[str, Any] | None = None,
    database: str | None = None,
) -> TaskResult[Any]:
    """Enqueue a message that does `Channel.purge()`, or with limits `Channel.trim()`.

    Args:
        states: the states of the messages that are purged; a trim takes waiting ones.
        older_than: trim messages that were enqueued more than so many seconds before this call.
        keep: trim all waiting messages but the newest `keep`.
        newest, user, database: see `start()`.

    Raises:
        ValueError: a value is invalid.
        ChannelFull: the channel of operations is full.
    """
    chosen = sorted(State(state).value for state in states)
    if State.RUNNING in chosen:
        raise ValueError("Running messages are not purged: cancel them.")
    older_than = None if older_than is None else as_age(older_than).total_seconds()
    keep = None if keep is None else as_count(keep, least=0)
    given = ("purge", newest, as_channel(channel), chosen, older_than, keep)
    return _start(purge, user, database, *given)


def _start(
    task: Task[Any, Any], user: Mapping[str, Any] | None, database: str | None, *args: Any
) -> TaskResult[Any]:
    """Enqueue an operation, and record the request: a producer has no right to make this record."""
    alias = database or settings().database
    known = dict(user) if user else None
    metadata = {"acting": {"user": known}} if known else {}
    with needing_tables(alias), transaction.atomic(using=alias):
        started = task.using(database=alias, metadata=metadata).enqueue(*args)
        refuse_dropped(CHANNEL, started)
        rows = Operation.objects.using(alias)
        messages, ended = Message.objects.using(alias), History.objects.using(alias)
        # An operation that has ended can still be looked at by its user.
        lives, has_ended = (Exists(each.filter(pk=OuterRef("pk"))) for each in (messages, ended))
        rows.filter(~lives, ~has_ended).delete()
        rows.create(message_id=int(started.id), user=known)
    return started


def patience(error: BaseException, result: Any) -> Any:
    """Return how long an operation waits after an error; None: it dies, for lack of a request."""
    return None if isinstance(error, UnknownOperation) else settings().backoff(error, result)


def _asked_for(context: TaskContext) -> Operation:
    """Return the row that names the user who asked for an operation.

    Raises:
        UnknownOperation: somebody without the rights of an operator has stored the message.
    """
    found = Operation.objects.using(context.database).filter(pk=context.id).first()
    if found is None:
        raise UnknownOperation(
            f"Message {context.id} asks for an operation, but no operator has requested it. "
            "Request it in the admin, or by pgqueue.operating.bulk.start()."
        )
    return found


@task(channel=CHANNEL, takes_context=True, backoff=patience)
def purge(
    context: TaskContext,
    operation: str,
    newest: int,
    channel: str,
    states: list[str],
    older_than: float | None,
    keep: int | None,
) -> dict[str, int]:
    """Discard the messages in these states, or beyond these limits, from the last place on."""
    _asked_for(context)
    until, progress = monotonic() + RUN_FOR, _progress(context, newest)
    if progress.up_to is None:
        # The limits are computed once: they hold for the messages of the operation's beginning.
        is_trim = older_than is not None or keep is not None
        age = None if older_than is None else timedelta(seconds=older_than)
        with borrow(context.database) as connection:
            # The age counts from the request: the run may begin hours later.
            bounds = purging.bounds(
                connection, channel, keep=keep, older_than=age, asking=int(context.id)
            )
        progress.up_to = min((bounds.surplus or 0) if is_trim else newest, newest)
        progress.before = bounds.before.isoformat() if bounds.before else None
    while not progress.has_ended and (progress.place or 0) < newest:
        with transaction.atomic(using=context.database):
            with borrow(context.database) as connection:
                step = purging.discard(
                    connection,
                    channel,
                    states=[State(state) for state in states],
                    after=progress.place or 0,
                    newest=newest,
                    up_to=progress.up_to,
                    before=datetime.fromisoformat(progress.before) if progress.before else None,
                )
            progress.done += step.ended
            place = newest if step.last is None else step.last
            progress.move(place, walked=place)
            context.checkpoint(asdict(progress))
        _go_on(context, operation, progress, until)
    return _ended(context, operation, progress)


@task(channel=CHANNEL, takes_context=True, backoff=patience)
def operate(
    context: TaskContext, operation: str, newest: int, filter: dict[str, Any]
) -> dict[str, int]:
    """Go on with the operation; hand the message back after a while, so that workers may stop."""
    _asked_for(context)
    verb, until = VERBS[operation], monotonic() + RUN_FOR
    walk = _IdWalk(context, operation, Filter(**filter), _progress(context, newest))
    for ids in walk.batches():
        with transaction.atomic(using=context.database):
            with borrow(context.database) as connection:
                walk.progress.add(unless_locked(connection, verb, ids))
            context.checkpoint(asdict(walk.progress))
        _go_on(context, operation, walk.progress, until)
    return _ended(context, operation, walk.progress)


TASKS = (operate.name, purge.name)


@dataclass
class _IdWalk:
    """The ids that are left, newest first."""

    context: TaskContext
    operation: str
    filter: Filter
    progress: OperationProgress

    def batches(self) -> Iterator[list[int]]:
        """Yield ids in batches; when a batch is yielded, the progress has passed it."""
        listing = newest_first(self._rows, self.filter.wanted())
        while not self.progress.has_ended and self.progress.place != 0:
            place = self.progress.place
            stretch = listing.stretch(None if place is None else f"[{place}]")
            following = int(stretch.next.strip("[]")) if stretch.next else 0
            for start in range(0, len(stretch.ids), BATCH):
                batch = stretch.ids[start : start + BATCH]
                is_last = start + BATCH >= len(stretch.ids)
                self._move(following if is_last else batch[-1] - 1)
                yield batch
            if not stretch.ids:
                self._move(following)
                yield []

    def _move(self, place: int) -> None:
        self.progress.move(place, walked=self.progress.newest - place)

    @property
    def _rows(self) -> MessageQuerySet:
        # An operation on all messages would end itself, or other running operations.
        rows = Message.objects.using(self.context.database).exclude(task__in=TASKS)
        if self.operation == "cancel":
            rows = rows.to_cancel(self.filter.flow)
        return rows.filter(pk__lte=self.progress.newest)


def _progress(context: TaskContext, newest: int) -> OperationProgress:
    return OperationProgress(**(context.progress or {"newest": newest}))


def _go_on(context: TaskContext, operation: str, progress: OperationProgress, until: float) -> None:
    """Return for the next batch, unless the operation must stop, or hand its message back.

    Raises:
        EndOfRun: it must.
    """
    # The row is read here, since the next heartbeat may be far away.
    rows = Message.objects.using(context.database).filter(pk=context.id)
    if rows.filter(cancel_requested_at__isnull=False).exists():
        _end(context, operation, progress, "stopped")
        raise Cancel("It was asked to stop.")
    if monotonic() > until:
        context.defer(0)


def _ended(context: TaskContext, operation: str, progress: OperationProgress) -> dict[str, int]:
    """Note that the walk is over; return its counts."""
    if not progress.has_ended:
        _end(context, operation, progress, "ended")
    return {name: getattr(progress, name) for name in ("done", "asked", "busy")}


def _end(context: TaskContext, operation: str, progress: OperationProgress, how: str) -> None:
    """Note the end, and write it to the admin's log for the user who asked."""
    progress.has_ended = how == "ended"
    with transaction.atomic(using=context.database):
        context.checkpoint(asdict(progress))
        user = _asked_for(context).user
        if user and apps.is_installed("django.contrib.admin"):
            _log(context, user["id"], f"{operation}: {how}, {progress.done} done.")


def _log(context: TaskContext, user_id: Any, text: str) -> None:
    from django.contrib.admin.models import CHANGE, LogEntry
    from django.contrib.auth import get_user_model
    from django.contrib.contenttypes.models import ContentType

    # The user may have been deleted meanwhile.
    if get_user_model()._default_manager.filter(pk=user_id).exists():
        LogEntry.objects.create(
            user_id=user_id,
            content_type=ContentType.objects.get_for_model(Message),
            object_id=context.id,
            object_repr=f"{context.task.name} #{context.id}",
            action_flag=CHANGE,
            change_message=f"{text[0].upper()}{text[1:]}",
        )
