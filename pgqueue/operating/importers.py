"""Pending work of other queues, moved over: what each has, and what became of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar

from django.db import DatabaseError, connections, transaction
from psycopg.sql import SQL as Text
from psycopg.sql import Identifier

from pgqueue.conf import settings
from pgqueue.database.sql_files import load
from pgqueue.engine import received
from pgqueue.engine.culprits import by_halves, in_words, may_be_own
from pgqueue.exceptions import (
    InvalidEvent,
    InvalidMessage,
    InvalidSchedule,
    InvalidTask,
    PayloadTooLarge,
    PGQueueError,
)
from pgqueue.inbox.aggregates import AggregateMessage
from pgqueue.inbox.receiving import REMEMBERED, known_as
from pgqueue.models import Schedule
from pgqueue.tasks import find_task, scheduling

T = TypeVar("T")

SQL = load(__name__)
BATCH = 1000

SOURCES = {
    "django-tasks-db": "django_tasks_database_dbtaskresult",
    "procrastinate": "procrastinate_jobs",
    "celery-beat": "django_celery_beat_periodictask",
    "transactional-outbox": "outbox",
    "transactional-inbox": "inbox",
}
"""Their tables."""
AGGREGATES = ("transactional-outbox", "transactional-inbox")
"""Those of pg-transactional-outbox, whose tables may have other names."""


class SourceMissing(PGQueueError):
    """The queue's database has no tables of this source."""


class Pending(NamedTuple):
    """A job that waits elsewhere, its arguments in JSON. By `position` they came in this order."""

    id: str
    position: str
    task: str
    args: str
    kwargs: str
    queue: str
    key: str
    priority: int
    run_at: datetime | None


class Waiting(NamedTuple):
    """A message of an aggregate that nobody has handled. By `position` they came in this order."""

    id: str
    position: str
    aggregate_type: str
    aggregate_id: str
    message_type: str
    segment: str | None
    concurrency: Any
    payload: str
    metadata: str
    locked_until: datetime | None


class Periodic(NamedTuple):
    """A periodic task of Celery's beat; `hindrance` is what no schedule of ours can say."""

    name: str
    task: str
    args: str
    kwargs: str
    queue: str
    enabled: bool
    cron: str
    every: timedelta | None
    timezone: str
    hindrance: str | None


@dataclass
class Report:
    """What was moved, by task, topic or schedule; and what was left where it is, by the reason.

    Attributes:
        remembered: how many ids of messages that an inbox has handled are known from now on; None:
            it was no inbox.
    """

    moved: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
    remembered: int | None = None


def move(source: str, *, table: str = "", sender: str = "", dry_run: bool = False) -> Report:
    """Move what waits in another queue's tables over, 1 000 in a transaction; or its schedules.

    What runs there already is left to its own workers. A job that is moved is deleted there
    in the same transaction, so that moving again finds nothing twice.

    Args:
        source: one of SOURCES.
        table: of AGGREGATES, if it has another name: "NAME" or "SCHEMA.NAME".
        sender: of an inbox: the source that its messages are received from.
        dry_run: roll back each transaction.

    Raises:
        SourceMissing: its tables are not in the queue's database.
        InvalidMessage: the sender can't be.
    """
    report = Report()
    alias = settings().database
    if source in AGGREGATES:
        _move_aggregates(source, table or SOURCES[source], sender, alias, report, dry_run=dry_run)
        return report
    if _rows(alias, "is_there", table=SOURCES[source]) == [(None,)]:
        raise SourceMissing(
            f"The database {alias!r} has no tables of {source}: "
            "jobs are moved in one transaction, within one database."
        )
    name = source.replace("-", "_")
    if source == "celery-beat":  # no job waits there, only schedules are kept
        _move_schedules(alias, report, dry_run=dry_run)
        return report
    after = ""
    while True:
        with transaction.atomic(using=alias):
            jobs = [Pending(*row) for row in _rows(alias, name, after=after, limit=BATCH)]
            moving = _Moving[Pending](
                take=lambda job, part: _take(job, alias, part),
                delete=lambda jobs: _rows(alias, f"{name}_delete", ids=[job.id for job in jobs]),
                name=attrgetter("task"),
            )
            _move_some(jobs, moving, alias, report)
            if dry_run:
                transaction.set_rollback(True, using=alias)
        if len(jobs) < BATCH:
            return report
        after = jobs[-1].position


@dataclass(frozen=True)
class _Moving(Generic[T]):
    """How rows of a source are moved.

    Args:
        take: stores one here, and returns whether it could; it notes in the report what came of it.
        delete: deletes some there.
        name: returns what the report calls one.
    """

    take: Callable[[T, Report], bool]
    delete: Callable[[list[T]], object]
    name: Callable[[T], str]


def _move_some(items: Sequence[T], moving: _Moving[T], alias: str, report: Report) -> None:
    """Store rows here and delete them there; leave those that can't be deleted as they are."""

    def some(items: Sequence[T]) -> Report:
        part = Report()
        with transaction.atomic(using=alias):
            moving.delete([each for each in items if moving.take(each, part)])
        return part

    def leave(item: T, error: Exception) -> Report:
        return Report(left=Counter({f"{moving.name(item)}: {in_words(error)}": 1}))

    for part in by_halves(some, items, leave):
        report.moved += part.moved
        report.left += part.left


def _said(error: Exception) -> str:
    """Return what an error says, without the values of the row that it names."""
    return in_words(error) if isinstance(error, DatabaseError) else str(error)


def _take(job: Pending, alias: str, report: Report) -> bool:
    """Enqueue one job as a message, or note why it can't be."""
    try:
        task = find_task(job.task)
        if task is None:
            raise InvalidTask("no task has this name here")
        if task.alias != alias:
            raise InvalidTask(f"its queue is in the database {task.alias!r}")
        options: dict[str, Any] = {"key": job.key} if job.key else {}
        with transaction.atomic(using=alias):
            task.using(
                channel=job.queue,
                priority=job.priority,
                run_after=job.run_at,
                enqueue_on_commit=False,
                **options,
            ).enqueue(*json.loads(job.args), **json.loads(job.kwargs))
    except Exception as error:  # whatever its module raises as it is imported
        if isinstance(error, DatabaseError) and not may_be_own(error):
            raise
        report.left[f"{job.task}: {_said(error)}"] += 1
        return False
    report.moved[job.task] += 1
    return True


def _move_aggregates(
    source: str, table: str, sender: str, alias: str, report: Report, *, dry_run: bool
) -> None:
    schema, _, name = table.rpartition(".")
    found = _rows(alias, "table_named", schema=schema or None, name=name)
    if not found:
        raise SourceMissing(
            f"The database {alias!r} has no table {table}: name it by --table. "
            "Messages are moved in one transaction, within one database."
        )
    own = Identifier(*found[0])
    is_inbox = source == "transactional-inbox"
    if is_inbox:
        known_as("id", sender)  # or each of its messages would be left because of it
        report.remembered = _remember_ended(own, sender, alias, report, dry_run=dry_run)
    after = ""
    while True:
        with transaction.atomic(using=alias):
            rows = _rows(alias, "aggregates", own, after=after, limit=BATCH)
            waiting = [Waiting(*row) for row in rows]
            moving = _Moving[Waiting](
                take=lambda each, part: _take_message(
                    each, sender if is_inbox else None, alias, part
                ),
                delete=lambda waiting: _rows(
                    alias, "aggregates_delete", own, ids=[each.id for each in waiting]
                ),
                name=lambda each: f"{each.aggregate_type}.{each.message_type}",
            )
            _move_some(waiting, moving, alias, report)
            if dry_run:
                transaction.set_rollback(True, using=alias)
        if len(waiting) < BATCH:
            break
        after = waiting[-1].position
    for kind, message, count in _rows(alias, "aggregates_abandoned", own):
        report.left[f"{kind}.{message}: it was abandoned there"] += count


def _remember_ended(
    table: Identifier, sender: str, alias: str, report: Report, *, dry_run: bool
) -> int:
    """Remember what an inbox has handled or abandoned: its senders may repeat it."""
    count, after = 0, ""

    def some(known: Sequence[str]) -> int:
        with transaction.atomic(using=alias):
            return len(received.remember(connections[alias], list(known), lasting=REMEMBERED))

    def leave(id: str, error: Exception) -> None:
        report.left[f"an id that was handled there: {in_words(error)}"] += 1

    while True:
        with transaction.atomic(using=alias):
            rows = _rows(alias, "aggregates_ended", table, after=after, limit=BATCH)
            ids = [id for (id,) in rows]
            known = [known_as(id, sender) for id in ids]
            count += sum(by_halves(some, known, leave))
            if dry_run:
                transaction.set_rollback(True, using=alias)
        if len(ids) < BATCH:
            return count
        after = ids[-1]


def _take_message(waiting: Waiting, sender: str | None, alias: str, report: Report) -> bool:
    """Publish a message, of an inbox once for each id; or note why it can't be."""
    try:
        message = AggregateMessage(
            id=waiting.id,
            aggregate_type=waiting.aggregate_type,
            aggregate_id=waiting.aggregate_id,
            message_type=waiting.message_type,
            segment=waiting.segment,
            concurrency=waiting.concurrency,
            payload=json.loads(waiting.payload),
            metadata=json.loads(waiting.metadata),
            locked_until=waiting.locked_until,
        )
        with transaction.atomic(using=alias):
            if sender is None:
                message.publish(database=alias)
            else:
                message.receive(source=sender, database=alias)
    except (
        *(InvalidEvent, InvalidMessage, PayloadTooLarge),
        *(TypeError, ValueError, DatabaseError),
    ) as error:
        if isinstance(error, DatabaseError) and not may_be_own(error):
            raise
        report.left[f"{waiting.aggregate_type}.{waiting.message_type}: {_said(error)}"] += 1
        return False
    report.moved[message.topic] += 1
    return True


def _move_schedules(alias: str, report: Report, *, dry_run: bool) -> None:
    with transaction.atomic(using=alias):
        found = [Periodic(*row) for row in _rows(alias, "celery_beat")]
        moving = _Moving[Periodic](
            take=lambda each, part: _take_over(each, alias, part),
            delete=lambda found: _rows(
                alias, "celery_beat_delete", names=[each.name for each in found]
            ),
            name=attrgetter("name"),
        )
        _move_some(found, moving, alias, report)
        if dry_run:
            transaction.set_rollback(True, using=alias)


def _take_over(periodic: Periodic, alias: str, report: Report) -> bool:
    """Store a schedule for a periodic task, or note why there can't be one."""
    try:
        if periodic.hindrance:
            raise InvalidSchedule(periodic.hindrance)
        row = Schedule(
            name=periodic.name,
            task=periodic.task,
            cron=periodic.cron,
            every=periodic.every,
            timezone=periodic.timezone,
            args=json.loads(periodic.args or "[]"),
            kwargs=json.loads(periodic.kwargs or "{}"),
            channel=periodic.queue,
            paused=not periodic.enabled,
        )
        scheduling.check(row)
        if Schedule.objects.using(alias).filter(pk=row.pk).exists():
            raise InvalidSchedule("there is a schedule of this name already")
        with transaction.atomic(using=alias):
            row.save(using=alias, force_insert=True)
    except Exception as error:  # whatever its module raises as it is imported
        if isinstance(error, DatabaseError) and not may_be_own(error):
            raise
        report.left[f"{periodic.name}: {_said(error)}"] += 1
        return False
    report.moved[periodic.name] += 1
    return True


def _rows(
    alias: str, statement: str, table: Identifier | None = None, /, **parameters: Any
) -> list[tuple[Any, ...]]:
    text: Any = SQL[statement]
    if table is not None:
        text = Text(text).format(table=table)
    with connections[alias].cursor() as cursor:
        cursor.execute(text, parameters)
        return list(cursor.fetchall())
