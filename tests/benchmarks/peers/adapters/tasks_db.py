"""django-tasks-db, the reference of a backend for django.tasks on the database.

A worker runs one task at a time and polls: more workers run more. Two processes, as there are two
cores, that look again 10 ms after they found nothing. What is enqueued at once is enqueued in one
transaction, for lack of a bulk. Nothing takes over what a killed worker ran.
"""

from collections.abc import Sequence

from django.db import transaction

from tests.benchmarks.harness.tasks import django_task
from tests.benchmarks.peers import work
from tests.benchmarks.peers.peer import Commands, OnDjango

PROCESSES = 2


@django_task(backend="tasks_db")
def nothing(number: int) -> None:
    """Do nothing."""
    work.nothing(number)


@django_task(backend="tasks_db")
def nap(number: int) -> None:
    """Wait."""
    work.nap(number)


@django_task(backend="tasks_db")
def query(number: int) -> None:
    """Ask the ORM."""
    work.query(number)


@django_task(backend="tasks_db")
def note(number: int) -> None:
    """Leave an effect."""
    work.note(number)


TASKS = {"nothing": nothing, "nap": nap, "query": query, "note": note}


class TasksDb(OnDjango):
    """One task at a time in a process."""

    name = "tasks_db"
    title = "django-tasks-db"
    distribution = "django-tasks-db"
    pace = 240
    settings = f"{PROCESSES} × `db_worker --interval 0.01`"
    has_bulk = False
    tables = ("django_tasks_database_dbtaskresult",)
    unfinished = "django_tasks_database_dbtaskresult WHERE status IN ('READY', 'RUNNING')"
    finished = """
        INSERT INTO django_tasks_database_dbtaskresult (
            id, status, enqueued_at, started_at, finished_at, args_kwargs, priority, task_path,
            worker_ids, queue_name, backend_name, run_after, exception_class_path, traceback)
        SELECT gen_random_uuid(), 'SUCCESSFUL', now(), now(), now(),
               '{"args": [1], "kwargs": {}}', 0,
               'tests.benchmarks.peers.adapters.tasks_db.nothing',
               '["a"]', 'default', 'tasks_db', '9999-01-01', '', ''
        FROM generate_series(1, %(count)s)
    """

    def enqueue(self, task: str, number: int) -> None:
        TASKS[task].enqueue(number)

    def enqueue_many(self, task: str, numbers: Sequence[int]) -> None:
        with transaction.atomic():
            super().enqueue_many(task, numbers)

    def workers(self, task: str, *, lease: float) -> Commands:
        options = ["--backend", "tasks_db", "--interval", "0.01", "--no-startup-delay"]
        return [self.command("db_worker", *options)] * PROCESSES


PEER = TasksDb()
