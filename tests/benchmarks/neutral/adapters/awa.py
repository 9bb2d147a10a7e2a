"""awa by its Python SDK, as its README has it: async handlers, and COPY for many jobs."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from dataclasses import dataclass
from importlib.metadata import version

import awa
import psycopg

from tests.benchmarks.neutral.pgqueue_bench.protocol import (
    Counts,
    Options,
    Sampler,
    describe,
    produce,
)

MANIFEST = {
    "system": "awa",
    "db_name": "awa_bench",
    "event_tables": ["awa.ready_entries", "awa.leases", "awa.lease_claims"],
    "extensions": [],
}
URL = os.environ["DATABASE_URL"]
QUEUE = "bench"
DEPTH = """
    SELECT coalesce(sum(awa.sequence_next_value(enqueued.seq_name)
                        - awa.sequence_next_value(claimed.seq_name)), 0)
    FROM awa.queue_enqueue_heads enqueued
    JOIN awa.queue_claim_heads claimed USING (queue, priority, enqueue_shard)
    WHERE queue = %s"""
options, counts = Options.given(), Counts()


@dataclass
class Work:
    """The arguments of a job."""

    enqueued_at: float
    padding: str


def feed(stopping: threading.Event) -> None:
    """Enqueue by COPY, on a client of its own."""
    client = awa.Client(URL, max_connections=2)
    padding = "x" * options.payload_bytes

    def enqueue(count: int) -> None:
        client.enqueue_many_copy([Work(time.time(), padding)] * count, queue=QUEUE)

    produce(options, counts, stopping, depth=depth, enqueue=enqueue)


def depth() -> int:
    """Count jobs that wait: how far the claims of each lane are behind the enqueues.

    `queue_stats()` reads all rows that are not pruned yet: beside an open transaction one call took
    longer than 20 s, and a core. The benchmark's own adapter calls a part of it that the SDK of
    Python does not have.
    """
    with psycopg.connect(URL, autocommit=True) as connection:
        [(count,)] = connection.execute(DEPTH, [QUEUE]).fetchall()
        return int(count)


async def main() -> None:
    """Make the tables, produce, and work until a SIGTERM."""
    await awa.migrate(URL)
    client = awa.AsyncClient(URL, max_connections=options.workers + 8)

    @client.task(Work, queue=QUEUE)
    async def work(job: awa.Job[Work]) -> None:
        counts.note_started(job.args.enqueued_at)
        if options.work_ms:
            await asyncio.sleep(options.work_ms / 1000)
        counts.note_completed()

    stopping = threading.Event()
    describe(MANIFEST, options, version=version("awa-pg"), schema_version="current")
    sampler = Sampler("awa", options, counts, depth)
    sampler.start()
    await client.start([(QUEUE, options.workers)])
    threading.Thread(target=feed, args=[stopping], daemon=True).start()
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()
    stopping.set()
    sampler.stop()
    await client.shutdown()


if __name__ == "__main__":
    asyncio.run(main())
