"""awa, by its Python SDK.

Its docs (configuration) say to set `max_workers` for each queue, and to keep the other defaults.
With its own default, 50, it ran a third of the jobs. They say (deployment) to have a pool of the
queues plus 4 connections, 10 by default, and more processes for more work: two, as there are two
cores. Its README has async handlers, and COPY for many jobs. A silent process loses its jobs by
`heartbeat_staleness_ms`.

Jobs that have ended stay in tables that take turns. SQL can hardly make such rows, so it is not
measured beside a million of them. Its own statistics scan these tables: the jobs that are left are
counted by its sequence and by its batches of ends.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import urlencode

import awa
from psycopg.conninfo import conninfo_to_dict

from tests.benchmarks.peers import work
from tests.benchmarks.peers.peer import Commands, Peer, module, python
from tests.benchmarks.peers.places import Place

QUEUE = "default"
MAX_WORKERS = work.AT_ONCE_IN_A_LOOP
PROCESSES = 2


@dataclass
class Nothing:
    """The arguments of a job that does nothing."""

    number: int


@dataclass
class Nap:
    """The arguments of a job that waits."""

    number: int


@dataclass
class Note:
    """The arguments of a job that leaves an effect."""

    number: int


TASKS: dict[str, Any] = {"nothing": Nothing, "nap": Nap, "note": Note}
TABLES = (
    *("awa.ready_entries", "awa.ready_segments", "awa.lease_claim_batches", "awa.done_entries"),
    *("awa.receipt_completion_batches", "awa.lease_claim_closure_batches"),
)
LEFT = """
    SELECT (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM awa.job_id_seq)
         - (SELECT coalesce(sum(completed_count), 0) FROM awa.receipt_completion_batches)
         - (SELECT count(*) FROM awa.done_entries)
"""


class Awa(Peer):
    """A Rust runtime that calls coroutines; append-only tables that take turns."""

    name = "awa"
    title = "awa"
    distribution = "awa-pg"
    pace = 4_000
    settings = f"{PROCESSES} processes, `max_workers` {MAX_WORKERS}"
    notifies = True

    def install(self) -> None:
        client = awa.Client(_url())
        client.migrate()
        client.install_queue_storage()

    def open(self) -> None:
        _client()

    def enqueue(self, task: str, number: int) -> None:
        _client().insert(TASKS[task](number), queue=QUEUE)

    def enqueue_many(self, task: str, numbers: Sequence[int]) -> None:
        _client().enqueue_many_copy([TASKS[task](number) for number in numbers], queue=QUEUE)

    def workers(self, task: str, *, lease: float) -> Commands:
        return [python(module(self.name))] * PROCESSES

    def left(self, place: Place) -> int:
        return int(place.ask(LEFT))

    def empty(self, place: Place) -> None:
        """Make its tables again, which takes seconds, unless nothing was enqueued."""
        if place.ask("SELECT is_called FROM awa.job_id_seq"):
            awa.Client(_url()).install_queue_storage(reset=True)

    def settle_down(self, place: Place) -> None:
        place.settle_down(TABLES)


def _url() -> str:
    """Return where it stores, as sqlx reads it."""
    found: dict[str, Any] = conninfo_to_dict(os.environ["PEERS_DSN"])
    return f"postgresql:///{found.pop('dbname')}?{urlencode(found)}"


@cache
def _client() -> awa.Client:
    return awa.Client(_url(), max_connections=work.THREADS)


async def run() -> None:
    """Work until a SIGTERM."""
    client = awa.AsyncClient(_url())

    @client.task(Nothing, queue=QUEUE)
    async def nothing(job: awa.Job[Nothing]) -> None:
        work.nothing(job.args.number)

    @client.task(Nap, queue=QUEUE)
    async def nap(job: awa.Job[Nap]) -> None:
        await work.anap(job.args.number)

    @client.task(Note, queue=QUEUE)
    async def note(job: awa.Job[Note]) -> None:
        await asyncio.to_thread(work.note, job.args.number)

    options: dict[str, int] = {}
    if work.LEASE:
        lease = int(work.LEASE * 1000)
        options = {
            "heartbeat_interval_ms": lease // 3,
            "heartbeat_staleness_ms": lease,
            "heartbeat_rescue_interval_ms": lease // 5,
        }
    await client.start([(QUEUE, MAX_WORKERS)], **options)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()
    await client.shutdown()


PEER = Awa()

if __name__ == "__main__":
    asyncio.run(run())
