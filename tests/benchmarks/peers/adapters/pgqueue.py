"""pgqueue itself, run as its docs say."""

from collections.abc import Sequence

from django.db import connection

from pgqueue import DurableContext, chord, task
from pgqueue.compat import celery
from pgqueue.compat.celery import shared_task
from tests.benchmarks.peers import work
from tests.benchmarks.peers.peer import Commands, OnDjango

# The one place that says how we run.
BEST = ("--processes", "2", "--threads", "4")
ONE_BY_ONE = ("--threads", "8")
# Each step commits, and commits of many threads share a write to the disk.
WORKFLOWS = ("--processes", "2", "--threads", "16")
WHERE_TASKS_NAP = ("--processes", "2", "--threads", "1", "--async", str(work.AT_ONCE_IN_A_LOOP))


@task
def nothing(number: int) -> None:
    """Do nothing."""
    work.nothing(number)


@shared_task(ignore_result=True)
def compat(number: int) -> None:
    """Do nothing, as Celery's task does: what differs is the import."""
    work.nothing(number)


@task
async def nap(number: int) -> None:
    """Wait."""
    await work.anap(number)


@task
def query(number: int) -> None:
    """Ask the ORM."""
    work.query(number)


@task(atomic=bool(work.LEASE))
def note(number: int) -> None:
    """Leave an effect; where a worker is going to be killed, in one transaction with its end."""
    if work.LEASE:
        work.note_with(connection.cursor(), number)
    else:
        work.note(number)


@task(durable=True)
def workflow(run: DurableContext, number: int) -> None:
    """Do nothing in some steps."""
    for _ in range(work.STEPS):
        run.step(work.nothing, number)


@task
def gather(results: list[None]) -> int:
    """Take the results of many."""
    return len(results)


@shared_task
def compat_member(number: int) -> None:
    """Do nothing, as a member of a chord."""
    work.nothing(number)


@shared_task
def compat_gather(results: list[None]) -> int:
    """Take the results of many, as Celery's task does."""
    return len(results)


TASKS = {
    "nothing": nothing,
    "compat": compat.own,
    "nap": nap,
    "query": query,
    "note": note,
    "workflow": workflow,
}


class PGQueue(OnDjango):
    """Ours."""

    name = "pgqueue"
    title = "pgqueue"
    distribution = "pgqueue"
    pace = 40_000
    workflow_pace = 1_500
    settings = (
        f"`runworker {' '.join(BEST)}`; async, `{' '.join(WHERE_TASKS_NAP)}` where tasks nap; "
        f"`{' '.join(ONE_BY_ONE)}` where they come one by one; "
        f"`{' '.join(WORKFLOWS)}` for workflows; `atomic=True` where it is killed"
    )
    notifies = True
    has_chords = True
    tables = (
        "pgqueue_message",
        "pgqueue_step",
        "pgqueue_history",
        "pgqueue_policy",
        "pgqueue_lane",
        "pgqueue_gate",
        "pgqueue_bell",
        "pgqueue_flow",
        "pgqueue_dependency",
        "pgqueue_blocked",
        "pgqueue_failed_member",
        "pgqueue_worker",
    )
    unfinished = "pgqueue_message WHERE state IN ('ready', 'running', 'scheduled')"
    finished = """
        INSERT INTO pgqueue_history (
            id, channel, key, task, payload, metadata, priority, run_at, worker_id, attempt,
            failures, lost, max_attempts, ordered, errors, claimed_at, started_at, created_at,
            outcome)
        SELECT nextval(pg_get_serial_sequence('pgqueue_message', 'id')), 'default', '',
               'tests.benchmarks.peers.adapters.pgqueue.nothing', '[[1],{}]', '{}', 0, now(),
               gen_random_uuid(), 1, 0, 0, 5, false, '[]', now(), now(), now(), 'succeeded'
        FROM generate_series(1, %(count)s)
    """

    def enqueue(self, task: str, number: int) -> None:
        TASKS[task].enqueue(number)

    def enqueue_many(self, task: str, numbers: Sequence[int]) -> None:
        TASKS[task].enqueue_many((number,) for number in numbers)

    def chord(self, kind: str, count: int) -> None:
        if kind == "chord":
            result = chord(nothing.map(range(count)), gather).enqueue()
            returned = result.wait(timeout=60).return_value
        else:
            members = celery.chord([compat_member.s(number) for number in range(count)])
            returned = members(compat_gather.s()).get(timeout=60)
        assert returned == count

    def workers(self, task: str, *, lease: float) -> Commands:
        options = {"nap": WHERE_TASKS_NAP, "note": ONE_BY_ONE, "workflow": WORKFLOWS}
        return [self.command("runworker", *options.get(task, BEST))]


PEER = PGQueue()
