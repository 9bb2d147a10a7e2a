"""Move pending jobs and schedules of other queues into this one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar

from django.db import DatabaseError, connections, transaction

from pgqueue.codec.scalars import as_float, as_number
from pgqueue.conf import settings
from pgqueue.database.sql_files import load
from pgqueue.engine.culprits import by_halves, in_words, may_be_own
from pgqueue.exceptions import (
    InvalidSchedule,
    InvalidTask,
    PGQueueError,
)
from pgqueue.models import Schedule
from pgqueue.tasks import find_task, scheduling
from pgqueue.tasks.dropping import refuse_dropped

T = TypeVar("T")

SQL = load(__name__)
BATCH = 1000

SOURCES = {
    "django-tasks-db": "django_tasks_database_dbtaskresult",
    "procrastinate": "procrastinate_jobs",
    "celery-beat": "django_celery_beat_periodictask",
}
"""The table of each source."""


class SourceMissing(PGQueueError):
    """The queue's database has no tables of this source."""


class Pending(NamedTuple):
    """A job that waits in another queue, its arguments in JSON; `position` gives their order."""

    id: str
    position: str
    task: str
    args: str
    kwargs: str
    queue: str
    key: str
    priority: int
    run_at: datetime | None


class Periodic(NamedTuple):
    """A periodic task of Celery's beat; `hindrance` says why no schedule here can express it."""

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
class ImportReport:
    """Counts of the moved items by task, topic or schedule, and of the others by the reason.

    Attributes:
        moved: the moved items.
        left: the items that stay in the other queue.
        remembered: how many ids of handled messages were taken over from an inbox; None: the source
            was no inbox.
    """

    moved: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
    remembered: int | None = None

    def leave(self, name: str, error: Exception) -> None:
        """Count an item that stays where it is, with the reason.

        Raises:
            DatabaseError: the error may not be the item's own: the database is away, for example.
        """
        if isinstance(error, DatabaseError) and not may_be_own(error):
            raise error
        self.left[f"{name}: {_said(error)}"] += 1


def move(source: str, *, dry_run: bool = False) -> ImportReport:
    """Move the waiting jobs of another queue, 1 000 in a transaction; or its schedules.

    Running jobs are left to the workers of the other queue. A moved job is deleted there in the
    same transaction, so that a second move does not find it again.

    Args:
        source: one of SOURCES.
        dry_run: roll back each transaction.

    Raises:
        SourceMissing: the queue's database lacks the tables of the source.
    """
    report = ImportReport()
    alias = settings().database
    if rows_of(alias, SQL["is_there"], table=SOURCES[source]) == [(None,)]:
        raise SourceMissing(
            f"The database {alias!r} has no tables of {source}: "
            "jobs are moved in one transaction, within one database."
        )
    name = source.replace("-", "_")
    if source == "celery-beat":  # it has schedules, but no jobs
        _move_schedules(alias, report, dry_run=dry_run)
        return report
    after = ""
    while True:
        with transaction.atomic(using=alias):
            jobs = [Pending(*row) for row in rows_of(alias, SQL[name], after=after, limit=BATCH)]
            moving = Moving[Pending](
                take=lambda job, part: _take(job, alias, part),
                delete=lambda jobs: rows_of(
                    alias, SQL[f"{name}_delete"], ids=[job.id for job in jobs]
                ),
                name=attrgetter("task"),
            )
            move_some(jobs, moving, alias, report)
            if dry_run:
                transaction.set_rollback(True, using=alias)
        if len(jobs) < BATCH:
            return report
        after = jobs[-1].position


@dataclass(frozen=True)
class Moving(Generic[T]):
    """The functions that move items of a source.

    Args:
        take: stores an item here, notes the result in the report, and returns whether it was
            stored.
        delete: deletes items from the source.
        name: returns the name of an item in the report.
    """

    take: Callable[[T, ImportReport], bool]
    delete: Callable[[list[T]], object]
    name: Callable[[T], str]


def move_some(items: Sequence[T], moving: Moving[T], alias: str, report: ImportReport) -> None:
    """Store items here and delete them from the source; leave an item whose deletion fails."""

    def some(items: Sequence[T]) -> ImportReport:
        part = ImportReport()
        with transaction.atomic(using=alias):
            moving.delete([each for each in items if moving.take(each, part)])
        return part

    def leave(item: T, error: Exception) -> ImportReport:
        return ImportReport(left=Counter({f"{moving.name(item)}: {in_words(error)}": 1}))

    for part in by_halves(some, items, leave):
        report.moved += part.moved
        report.left += part.left


def _said(error: Exception) -> str:
    """Return the text of an error, without the values of the row that it names."""
    return in_words(error) if isinstance(error, DatabaseError) else str(error)


def _take(job: Pending, alias: str, report: ImportReport) -> bool:
    """Enqueue a job as a message and return True, or note why the job stays."""
    try:
        task = find_task(job.task)
        if task is None:
            raise InvalidTask("no task has this name here")
        if task.alias != alias:
            raise InvalidTask(f"its queue is in the database {task.alias!r}")
        options: dict[str, Any] = {"key": job.key} if job.key else {}
        args = json.loads(job.args, parse_float=as_number)
        kwargs = json.loads(job.kwargs, parse_float=as_number)
        with transaction.atomic(using=alias):
            result = task.using(
                channel=job.queue,
                priority=job.priority,
                run_after=job.run_at,
                enqueue_on_commit=False,
                **options,
            ).enqueue(*args, **kwargs)
        refuse_dropped(job.queue, result)
    except Exception as error:  # the import of its module may raise any error
        report.leave(job.task, error)
        return False
    report.moved[job.task] += 1
    return True


def _move_schedules(alias: str, report: ImportReport, *, dry_run: bool) -> None:
    with transaction.atomic(using=alias):
        found = [Periodic(*row) for row in rows_of(alias, SQL["celery_beat"])]
        moving = Moving[Periodic](
            take=lambda each, part: _take_over(each, alias, part),
            delete=lambda found: rows_of(
                alias, SQL["celery_beat_delete"], names=[each.name for each in found]
            ),
            name=attrgetter("name"),
        )
        move_some(found, moving, alias, report)
        if dry_run:
            transaction.set_rollback(True, using=alias)


def _take_over(periodic: Periodic, alias: str, report: ImportReport) -> bool:
    """Store a schedule for a periodic task and return True, or note why the task stays."""
    try:
        if periodic.hindrance:
            raise InvalidSchedule(periodic.hindrance)
        row = Schedule(
            name=periodic.name,
            task=periodic.task,
            cron=periodic.cron,
            every=periodic.every,
            timezone=periodic.timezone,
            args=json.loads(periodic.args or "[]", parse_float=as_float),
            kwargs=json.loads(periodic.kwargs or "{}", parse_float=as_float),
            channel=periodic.queue,
            paused=not periodic.enabled,
        )
        scheduling.check_schedule(row)
        if Schedule.objects.using(alias).filter(pk=row.pk).exists():
            raise InvalidSchedule("there is a schedule of this name already")
        with transaction.atomic(using=alias):
            row.save(using=alias, force_insert=True)
    except Exception as error:  # the import of its module may raise any error
        report.leave(periodic.name, error)
        return False
    report.moved[periodic.name] += 1
    return True


def rows_of(alias: str, statement: Any, **parameters: Any) -> list[tuple[Any, ...]]:
    """Return the rows that a statement finds or changes in the database `alias`."""
    with connections[alias].cursor() as cursor:
        cursor.execute(statement, parameters)
        return list(cursor.fetchall())
