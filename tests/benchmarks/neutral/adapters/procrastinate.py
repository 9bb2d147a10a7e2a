"""Procrastinate, as its docs have it for short jobs: async, a pool as large as its concurrency."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from importlib.metadata import version

import procrastinate
import psycopg

from tests.benchmarks.neutral.pgqueue_bench.protocol import (
    Counts,
    Options,
    Sampler,
    describe,
    produce,
)

MANIFEST = {
    "system": "procrastinate",
    "db_name": "procrastinate_bench",
    "event_tables": ["public.procrastinate_jobs", "public.procrastinate_events"],
    "extensions": [],
}
URL = os.environ["DATABASE_URL"]
DEPTH = "SELECT count(*) FROM procrastinate_jobs WHERE status = 'todo'"
options, counts = Options.given(), Counts()
app = procrastinate.App(
    connector=procrastinate.PsycopgConnector(
        conninfo=URL, min_size=options.workers + 4, max_size=options.workers + 4
    )
)


@app.task(name="work")
async def work(enqueued_at: float, padding: str) -> None:
    """Work for as long as the harness says."""
    counts.note_started(enqueued_at)
    if options.work_ms:
        await asyncio.sleep(options.work_ms / 1000)
    counts.note_completed()


def depth() -> int:
    """Count jobs that wait."""
    with psycopg.connect(URL, autocommit=True) as connection:
        [(count,)] = connection.execute(DEPTH).fetchall()
        return int(count)


def feed(stopping: threading.Event) -> None:
    """Enqueue by its bulk API, on a connector of its own."""
    producer = procrastinate.App(connector=procrastinate.SyncPsycopgConnector(conninfo=URL))
    padding = "x" * options.payload_bytes
    with producer.open():
        deferrer = producer.configure_task("work")

        def enqueue(count: int) -> None:
            deferrer.batch_defer(*[{"enqueued_at": time.time(), "padding": padding}] * count)

        produce(options, counts, stopping, depth=depth, enqueue=enqueue)


async def main() -> None:
    """Make the tables, produce, and work until a SIGTERM."""
    stopping = threading.Event()
    async with app.open_async():
        if not await app.check_connection_async():
            await app.schema_manager.apply_schema_async()
        describe(MANIFEST, options, version=version("procrastinate"), schema_version="current")
        sampler = Sampler("procrastinate", options, counts, depth)
        sampler.start()
        threading.Thread(target=feed, args=[stopping], daemon=True).start()
        worker = asyncio.create_task(
            app.run_worker_async(
                concurrency=options.workers, install_signal_handlers=False, delete_jobs="never"
            )
        )
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.cancel)
        try:
            await worker
        except asyncio.CancelledError:
            pass
        finally:
            stopping.set()
            sampler.stop()


if __name__ == "__main__":
    asyncio.run(main())
