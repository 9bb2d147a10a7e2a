"""PgQueuer, with asyncpg.

Its docs (guides/performance-tuning) say to raise `batch_size` for short jobs and leave
`max_concurrent_tasks` open, and (comparisons/benchmarks) that asyncpg gives 1.7 times the
throughput of psycopg; `pgq autovac` sets what they recommend for its tables, `durable` is what the
others are. Two processes, as there are two cores; a batch that is larger still makes it no faster.
Its lease is `heartbeat_timeout` (guides/heartbeat).
"""

import asyncio
import os
import signal
import threading
from collections.abc import Coroutine, Sequence
from datetime import timedelta
from typing import Any

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries
from psycopg.conninfo import conninfo_to_dict

from tests.benchmarks.peers import work
from tests.benchmarks.peers.peer import Commands, OnPostgres, module, python

BATCH = work.AT_ONCE_IN_A_LOOP
PROCESSES = 2

_mine = threading.local()


async def _connect() -> AsyncpgDriver:
    parameters = conninfo_to_dict(os.environ["PEERS_DSN"])
    parameters["database"] = parameters.pop("dbname")
    return AsyncpgDriver(await asyncpg.connect(**parameters))


async def run() -> None:
    """Work, as `pgqueuer run` does: with typer 0.29 that command does not start."""
    queue = PgQueuer(await _connect())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, queue.shutdown.set)

    @queue.entrypoint("nothing")
    async def nothing(job: Job) -> None:
        work.nothing(int(job.payload or b""))

    @queue.entrypoint("nap")
    async def nap(job: Job) -> None:
        await work.anap(int(job.payload or b""))

    @queue.entrypoint("note")
    async def note(job: Job) -> None:
        await asyncio.to_thread(work.note, int(job.payload or b""))

    options = {}
    if work.LEASE:
        # It looks for what a silent worker held when it polls.
        lease = timedelta(seconds=work.LEASE)
        options = {"heartbeat_timeout": lease, "dequeue_timeout": lease}
    await queue.run(batch_size=BATCH, **options)


class PgQueuerPeer(OnPostgres):
    """On asyncio; batches what it claims and what it finishes."""

    name = "pgqueuer"
    title = "PgQueuer"
    distribution = "pgqueuer"
    pace = 25_000
    settings = f"asyncpg, {PROCESSES} processes, `batch_size={BATCH}`, `pgq autovac`"
    notifies = True
    tables = ("pgqueuer", "pgqueuer_log", "pgqueuer_statistics")
    unfinished = "pgqueuer"
    finished = """
        INSERT INTO pgqueuer_log (job_id, status, priority, entrypoint, aggregated)
        SELECT -n, 'successful', 0, 'nothing', true FROM generate_series(1, %(count)s) AS n
    """

    def install(self) -> None:
        queries = _run(_queries())
        _run(queries.install())
        _run(queries.optimize_autovacuum())

    def enqueue(self, task: str, number: int) -> None:
        _run(_mine_or_new().enqueue(task, b"%d" % number))

    def enqueue_many(self, task: str, numbers: Sequence[int]) -> None:
        count = len(numbers)
        payloads = [b"%d" % number for number in numbers]
        _run(_mine_or_new().enqueue([task] * count, payloads, [0] * count))

    def workers(self, task: str, *, lease: float) -> Commands:
        return [python(module(self.name))] * PROCESSES


async def _queries() -> Queries:
    return Queries(await _connect())


def _mine_or_new() -> Queries:
    """Return this thread's, with a connection of its own."""
    if not hasattr(_mine, "queries"):
        _mine.queries = _run(_queries())
    queries: Queries = _mine.queries
    return queries


def _run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run it in this thread's event loop."""
    if not hasattr(_mine, "loop"):
        _mine.loop = uvloop.new_event_loop()
        asyncio.set_event_loop(_mine.loop)
    return _mine.loop.run_until_complete(coroutine)


PEER = PgQueuerPeer()

if __name__ == "__main__":
    uvloop.run(run())
