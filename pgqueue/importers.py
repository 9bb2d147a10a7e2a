"""Pending work of other queues, moved over: what each has, and what became of it."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import DatabaseError, connections, transaction

from pgqueue import registry
from pgqueue.conf import settings
from pgqueue.exceptions import InvalidSchedule, InvalidTask, PGQueueError
from pgqueue.models import Schedule
from pgqueue.statements import load
from pgqueue.tasks import scheduling

SQL = load(__name__)
BATCH = 1000

SOURCES = {
    "django-tasks-db": "django_tasks_database_dbtaskresult",
    "procrastinate": "procrastinate_jobs",
    "celery-beat": "django_celery_beat_periodictask",
}
"""Their tables."""


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
    """What was moved, by task or schedule; and what was left where it is, by the reason."""

    moved: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)


def move(source: str, *, dry_run: bool = False) -> Report:
    """Move what waits in another queue's tables over, 1 000 in a transaction; or its schedules.

    What runs there already is left to its own workers. A job that is moved is deleted there
    in the same transaction, so that moving again finds nothing twice.

    Args:
        source: one of SOURCES.
        dry_run: roll back each transaction.

    Raises:
        SourceMissing: its tables are not in the queue's database.
    """
    report = Report()
    alias = settings().database
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


def _rows(alias: str, statement: str, **parameters: Any) -> list[tuple[Any, ...]]:
    with connections[alias].cursor() as cursor:
        cursor.execute(SQL[statement], parameters)
        return list(cursor.fetchall())
