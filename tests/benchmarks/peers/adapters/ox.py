"""django-ox.

Its README has `--processes` worker processes, each with `--concurrency` threads; two, as there are
two cores. It polls: here 10 ms after it found nothing. Its lease is `--lock-timeout`.
"""

from collections.abc import Sequence

from django_ox.bulk import enqueue_many

from tests.benchmarks.harness.tasks import django_task
from tests.benchmarks.peers import work
from tests.benchmarks.peers.peer import Commands, OnDjango

CONCURRENCY = 4
PROCESSES = 2


@django_task(backend="ox")
def nothing(number: int) -> None:
    """Do nothing."""
    work.nothing(number)


@django_task(backend="ox")
def nap(number: int) -> None:
    """Wait."""
    work.nap(number)


@django_task(backend="ox")
def query(number: int) -> None:
    """Ask the ORM."""
    work.query(number)


@django_task(backend="ox")
def note(number: int) -> None:
    """Leave an effect."""
    work.note(number)


TASKS = {"nothing": nothing, "nap": nap, "query": query, "note": note}


class Ox(OnDjango):
    """Processes of threads that take a task a trip."""

    name = "ox"
    title = "django-ox"
    distribution = "django-ox"
    pace = 520
    settings = (
        f"`ox_worker --processes {PROCESSES} --concurrency {CONCURRENCY} --interval 0.01`, "
        f"{work.AT_ONCE // PROCESSES} each where tasks nap"
    )
    tables = ("django_ox_oxtask",)
    unfinished = "django_ox_oxtask WHERE status IN ('READY', 'RUNNING')"
    finished = """
        INSERT INTO django_ox_oxtask (
            id, task_path, args, kwargs, queue_name, priority, takes_context, backend_name, status,
            attempts, max_attempts, errors, worker_ids, enqueued_at, started_at, last_attempted_at,
            finished_at, lease_epoch)
        SELECT gen_random_uuid(), 'tests.benchmarks.peers.adapters.ox.nothing', '[1]', '{}',
               'default', 0, false, 'ox', 'SUCCESSFUL', 1, 3, '[]', '["a"]', now(), now(), now(),
               now(), 1
        FROM generate_series(1, %(count)s)
    """

    def enqueue(self, task: str, number: int) -> None:
        TASKS[task].enqueue(number)

    def enqueue_many(self, task: str, numbers: Sequence[int]) -> None:
        enqueue_many(TASKS[task], [((number,), {}) for number in numbers])

    def workers(self, task: str, *, lease: float) -> Commands:
        concurrency = work.AT_ONCE // PROCESSES if task == "nap" else CONCURRENCY
        options = ["--backend", "ox", "--interval", "0.01", "--processes", str(PROCESSES)]
        options += ["--concurrency", str(concurrency)]
        if lease:
            options += ["--lock-timeout", str(lease)]
        return [self.command("ox_worker", *options)]


PEER = Ox()
