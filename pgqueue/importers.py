"""Pending work of other queues, moved over: what each has, and what became of it."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import DatabaseError, connections, transaction
from psycopg.sql import SQL as Text
from psycopg.sql import Identifier

from pgqueue import registry
from pgqueue.conf import settings
from pgqueue.engine import received
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
from pgqueue.statements import load
from pgqueue.tasks import scheduling

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
            taken = [job.id for job in jobs if _take(job, alias, report)]
            _rows(alias, f"{name}_delete", ids=taken)
            if dry_run:
                transaction.set_rollback(True, using=alias)
        if len(jobs) < BATCH:
            return report
        after = jobs[-1].position


def _take(job: Pending, alias: str, report: Report) -> bool:
    """Enqueue one job as a message, or note why it can't be."""
    try:
        task = registry.find(job.task)
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
    except DatabaseError:
        raise
    except Exception as error:  # whatever its module raises as it is imported
        report.left[f"{job.task}: {error}"] += 1
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
        report.remembered = _remember_ended(own, sender, alias, dry_run=dry_run)
    after = ""
    while True:
        with transaction.atomic(using=alias):
            rows = _rows(alias, "aggregates", own, after=after, limit=BATCH)
            waiting = [Waiting(*row) for row in rows]
            taken = [
                each.id
                for each in waiting
                if _take_message(each, sender if is_inbox else None, alias, report)
            ]
            _rows(alias, "aggregates_delete", own, ids=taken)
            if dry_run:
                transaction.set_rollback(True, using=alias)
        if len(waiting) < BATCH:
            break
        after = waiting[-1].position
    for kind, message, count in _rows(alias, "aggregates_abandoned", own):
        report.left[f"{kind}.{message}: it was abandoned there"] += count


def _remember_ended(table: Identifier, sender: str, alias: str, *, dry_run: bool) -> int:
    """Remember what an inbox has handled or abandoned: its senders may repeat it."""
    count, after = 0, ""
    while True:
        with transaction.atomic(using=alias):
            rows = _rows(alias, "aggregates_ended", table, after=after, limit=BATCH)
            ids = [id for (id,) in rows]
            known = [known_as(id, sender) for id in ids]
            count += len(received.remember(connections[alias], known, lasting=REMEMBERED))
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
    except (InvalidEvent, InvalidMessage, PayloadTooLarge, TypeError, ValueError) as error:
        report.left[f"{waiting.aggregate_type}.{waiting.message_type}: {error}"] += 1
        return False
    report.moved[message.topic] += 1
    return True


def _move_schedules(alias: str, report: Report, *, dry_run: bool) -> None:
    with transaction.atomic(using=alias):
        found = [Periodic(*row) for row in _rows(alias, "celery_beat")]
        taken = [each.name for each in found if _take_over(each, alias, report)]
        _rows(alias, "celery_beat_delete", names=taken)
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
        row.save(using=alias, force_insert=True)
    except DatabaseError:
        raise
    except Exception as error:  # whatever its module raises as it is imported
        report.left[f"{periodic.name}: {error}"] += 1
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
