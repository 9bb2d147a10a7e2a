"""Oban for Python.

Its docs (production) recommend `oban start`, which has uvloop and orjson, and say that the pool of
10 connections is enough for any limit of a queue. A limit is for one process (defining_queues), so
two processes, as there are two cores. With a limit of 500 it ran nearly twice as many as with 100.
Its jobs are async functions; a sync one would block the loop. `enqueue_many` is its bulk. The
leader rescues a job that has run for `rescue_after` seconds: a setting of the lifeline (production,
"Configure Job Maintenance"), in oban_leased.toml. A dead leader is the leader for 30 s, unless a
process with the same `--node` takes its place.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

import uvloop
from oban import Oban, job

from tests.benchmarks.peers import work
from tests.benchmarks.peers.peer import Commands, OnPostgres, module, python

LIMIT = work.AT_ONCE_IN_A_LOOP
PROCESSES = 2
LEASED = Path(__file__).with_name("oban_leased.toml")

_mine = threading.local()


@job()
async def nothing(number: int) -> None:
    """Do nothing."""
    work.nothing(number)


@job()
async def nap(number: int) -> None:
    """Wait."""
    await work.anap(number)


@job()
async def note(number: int) -> None:
    """Leave an effect."""
    await asyncio.to_thread(work.note, number)


TASKS: dict[str, Any] = {"nothing": nothing, "nap": nap, "note": note}


class ObanPeer(OnPostgres):
    """On asyncio; takes as many jobs a trip as it has room for, and settles them one by one."""

    name = "oban"
    title = "Oban"
    distribution = "oban"
    pace = 4_000
    settings = f"{PROCESSES} × `oban start --queues default:{LIMIT}`"
    notifies = True
    tables = ("oban_jobs", "oban_leaders", "oban_producers")
    unfinished = "oban_jobs WHERE state IN ('available', 'executing', 'retryable', 'scheduled')"
    finished = """
        INSERT INTO oban_jobs (state, worker, attempt, args, attempted_at, completed_at)
        SELECT 'completed', 'tests.benchmarks.peers.adapters.oban.nothing', 1, '{"number": 1}',
               timezone('UTC', now()), timezone('UTC', now())
        FROM generate_series(1, %(count)s)
    """

    def install(self) -> None:
        _run(_install())

    def enqueue(self, task: str, number: int) -> None:
        _run(_client().enqueue(TASKS[task].new(number)))

    def enqueue_many(self, task: str, numbers: Sequence[int]) -> None:
        _run(_client().enqueue_many(TASKS[task].new(number) for number in numbers))

    def workers(self, task: str, *, lease: float) -> Commands:
        options = ["--queues", f"default:{LIMIT}", "--log-level", "WARNING"]
        options += ["--config", str(LEASED)] if lease else []
        command = python(module(self.name), "start", *options)
        return [[*command, "--node", f"peers-{number}"] for number in range(PROCESSES)]


async def _install() -> None:
    from oban import schema

    pool = await Oban.create_pool(os.environ["PEERS_DSN"])
    await schema.install(pool)
    await pool.close()


def _client() -> Oban:
    """Return this thread's, with a pool of its own: a pool belongs to one event loop."""
    if not hasattr(_mine, "client"):
        pool = _run(Oban.create_pool(os.environ["PEERS_DSN"], min_size=1, max_size=1))
        _mine.client = Oban(pool=pool)
    client: Oban = _mine.client
    return client


def _run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run it in this thread's event loop."""
    if not hasattr(_mine, "loop"):
        _mine.loop = uvloop.new_event_loop()
        asyncio.set_event_loop(_mine.loop)
    return _mine.loop.run_until_complete(coroutine)


PEER = ObanPeer()

if __name__ == "__main__":
    from oban.cli import main

    os.environ["OBAN_DSN"] = os.environ["PEERS_DSN"]
    main()
