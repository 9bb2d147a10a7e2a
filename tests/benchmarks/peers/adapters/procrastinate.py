"""Procrastinate, with its asynchronous connector.

Its docs (howto/production/concurrency) say to raise `--concurrency` and to launch a worker process
for each core, and (discussions, pool size) that short jobs want a pool of as many connections as
concurrency, plus one. Async tasks, which they recommend. What a killed worker held is retried by
the periodic task of howto/production/retry_stalled_jobs, here every few seconds.
"""

import os
from collections.abc import Sequence

import procrastinate

from tests.benchmarks.peers import work
from tests.benchmarks.peers.peer import Commands, OnPostgres, module, python

CONCURRENCY = 10
PROCESSES = 2
DSN = os.environ["PEERS_DSN"]

# Workers are told; a client needs one for each of its threads.
_pool = int(os.environ.get("PEERS_POOL", work.THREADS))
app = procrastinate.App(
    connector=procrastinate.PsycopgConnector(conninfo=DSN, min_size=_pool, max_size=_pool),
    worker_defaults=(
        {"update_heartbeat_interval": work.LEASE / 3, "stalled_worker_timeout": work.LEASE}
        if work.LEASE
        else {}
    ),
)


@app.task(name="nothing")
async def nothing(number: int) -> None:
    """Do nothing."""
    work.nothing(number)


@app.task(name="nap")
async def nap(number: int) -> None:
    """Wait."""
    await work.anap(number)


@app.task(name="note")
def note(number: int) -> None:
    """Leave an effect."""
    work.note(number)


TASKS = {"nothing": nothing, "nap": nap, "note": note}

if work.LEASE:

    @app.periodic(cron="* * * * * */2")
    @app.task(queueing_lock="retry_stalled_jobs", pass_context=True)
    async def retry_stalled_jobs(context: procrastinate.JobContext, timestamp: int) -> None:
        """Retry what no worker is running any more."""
        for job in await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=work.LEASE):
            await app.job_manager.retry_job(job)


class Procrastinate(OnPostgres):
    """On asyncio; takes one job a trip, and keeps all events."""

    name = "procrastinate"
    title = "Procrastinate"
    distribution = "procrastinate"
    pace = 500
    settings = (
        f"{PROCESSES} processes, `--concurrency {CONCURRENCY}`, {work.AT_ONCE // PROCESSES} each "
        "where tasks nap; a pool as large; async tasks"
    )
    notifies = True
    tables = ("procrastinate_jobs", "procrastinate_events", "procrastinate_periodic_defers")
    # Not its own periodic task, which comes again and again.
    unfinished = """
        procrastinate_jobs
        WHERE status IN ('todo', 'doing') AND task_name IN ('nothing', 'nap', 'note')
    """
    # Without their events, three a job, of which it reads none while it runs jobs.
    finished = """
        INSERT INTO procrastinate_jobs (queue_name, task_name, args, status, attempts)
        SELECT 'default', 'nothing', '{"number": 1}', 'succeeded', 1
        FROM generate_series(1, %(count)s)
    """

    def install(self) -> None:
        with app.open():
            app.schema_manager.apply_schema()

    def open(self) -> None:
        app.open()

    def enqueue(self, task: str, number: int) -> None:
        TASKS[task].defer(number=number)

    def enqueue_many(self, task: str, numbers: Sequence[int]) -> None:
        TASKS[task].batch_defer(*({"number": number} for number in numbers))

    def workers(self, task: str, *, lease: float) -> Commands:
        concurrency = str(work.AT_ONCE // PROCESSES if task == "nap" else CONCURRENCY)
        command = python("procrastinate", "--app", f"{module(self.name)}.app", "worker")
        sized = [
            "env",
            f"PEERS_POOL={int(concurrency) + 1}",
            *command,
            "--concurrency",
            concurrency,
        ]
        return [sized] * PROCESSES


PEER = Procrastinate()
