"""django-absurd, whose durable tasks are measured.

Its worker takes `--concurrency` tasks at once, one by default, and polls again 10 ms after it found
none. All tasks of a process share one connection: 20 or 50 tasks were no faster than 10. Async
tasks run in its event loop, and their steps change no thread. Two processes, as there are two
cores. Many tasks are enqueued in one transaction, for lack of a bulk.
"""

from collections.abc import Sequence

from django.db import transaction
from django_absurd import aget_absurd_context

from tests.benchmarks.harness.tasks import django_task
from tests.benchmarks.peers import work
from tests.benchmarks.peers.peer import Commands, OnDjango

CONCURRENCY = 10
PROCESSES = 2


@django_task(backend="absurd")
async def workflow(number: int) -> None:
    """Do nothing in some steps."""

    async def nothing() -> None:
        work.nothing(number)

    context = aget_absurd_context()
    for _ in range(work.STEPS):
        await context.step("nothing", nothing)


class Absurd(OnDjango):
    """Event loops that run tasks, each checkpoint of which is a row."""

    name = "absurd"
    title = "django-absurd"
    distribution = "django-absurd"
    workflow_pace = 300
    settings = (
        f"async tasks, {PROCESSES} × "
        f"`absurd_worker --concurrency {CONCURRENCY} --poll-interval 0.01`"
    )
    has_bulk = False
    tables = ("absurd.t_default", "absurd.r_default", "absurd.c_default")
    unfinished = """
        (SELECT task_id AS id FROM absurd.t_default
         WHERE state NOT IN ('completed', 'failed', 'cancelled')) AS unfinished
    """

    def enqueue(self, task: str, number: int) -> None:
        workflow.enqueue(number)

    def enqueue_many(self, task: str, numbers: Sequence[int]) -> None:
        with transaction.atomic():
            super().enqueue_many(task, numbers)

    def workers(self, task: str, *, lease: float) -> Commands:
        options = ["--concurrency", str(CONCURRENCY), "--poll-interval", "0.01"]
        return [self.command("absurd_worker", *options)] * PROCESSES


PEER = Absurd()
