"""The ceiling: a bare psycopg loop that claims and settles, as many at once as the worker.

It runs the worker's own statements on the same kind of connection, and resumes each claim
after the last message of the one before, as `Turns` does; it never looks from the front
again. It is tried in two ways: one connection that claims and settles by turns, and two
threads, one of which claims ahead of the one that settles. The faster is the ceiling.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from queue import Queue
from threading import Thread
from typing import Any
from uuid import uuid4

from django.db import connections

from pgqueue.database.connections import connect
from pgqueue.engine import claim, settle
from pgqueue.engine.values import Claim, Connection
from pgqueue.worker.buffer import LARGEST
from pgqueue.worker.fetcher import BATCH
from tests.benchmarks.harness.messages import CHANNEL

AHEAD = LARGEST // BATCH  # batches: as much as a worker buffers
WORKER_ID = uuid4()
# The statement's columns: what it noticed, three of the search, and then a claim's.
ID, ATTEMPT, PRIORITY, RUN_AT = (
    4 + Claim._fields.index(name) for name in ("id", "attempt", "priority", "run_at")
)

Rows = list[tuple[Any, ...]]


class Claims:
    """Batches of one lane, each from after the last message of the one before."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        # From the front: ranks begin at -100.
        self._mark: tuple[int, datetime, int] = (-32768, datetime(1970, 1, 1, tzinfo=UTC), 0)

    def __iter__(self) -> Iterator[Rows]:
        while rows := self.take():
            yield rows

    def take(self) -> Rows:
        """Claim once."""
        rank, run_at, id = self._mark
        rows = self._connection.execute(
            claim.SQL["claim"],
            {
                "channels": [CHANNEL],
                "keys": [""],
                "ranks": [rank],
                "run_ats": [run_at],
                "ids": [id],
                "quotas": [BATCH],
                "searched": [],
                "after_keys": [],
                "after_ranks": [],
                "rooms": [],
                "shares": [],
                "limit": BATCH,
                "size": claim.BYTES,
                "aside": [],
                "takes_raw": False,
                "worker_id": WORKER_ID,
                "is_pooled": False,
                "lease": "30 s",
            },
        ).fetchall()
        if rows:
            last = rows[-1]
            self._mark = (-last[PRIORITY], last[RUN_AT], last[ID])
        return rows


def complete(connection: Connection, rows: Rows) -> None:
    """Settle a batch: every run succeeded, at once."""
    nothing = [None] * len(rows)
    at_once = [0.0] * len(rows)
    connection.execute(
        settle.SQL["complete"],
        {
            "ids": [row[ID] for row in rows],
            "attempts": [row[ATTEMPT] for row in rows],
            "workers": [WORKER_ID] * len(rows),
            "results": nothing,
            "started": at_once,
            "finished": at_once,
        },
    ).fetchall()


def by_turns(count: int, *, run: Callable[[], object] | None = None) -> float:
    """Return messages a second of one connection that claims and settles by turns.

    Args:
        run: called for each message between its claim and its settle, on this thread.
    """
    with connect("default", name="ceiling") as connection:
        began = time.monotonic()
        done = 0
        for rows in Claims(connection):
            for _ in rows if run else ():
                run()
            complete(connection, rows)
            done += len(rows)
        return _rate(done, count, began)


def on_threads(count: int, threads: int, *, run: Callable[[], object]) -> float:
    """Return messages a second of one connection, where `threads` threads call `run` between."""
    with connect("default", name="ceiling") as connection, ThreadPoolExecutor(threads) as pool:
        try:
            began = time.monotonic()
            done = 0
            for rows in Claims(connection):
                shares = [len(rows[number::threads]) for number in range(threads)]
                list(pool.map(lambda share: [run() for _ in range(share)], shares))
                complete(connection, rows)
                done += len(rows)
            return _rate(done, count, began)
        finally:
            list(pool.map(lambda _: connections.close_all(), range(threads)))


def ahead(count: int) -> float:
    """Return messages a second of two connections, one of which claims ahead of the other."""
    claimed: Queue[Rows] = Queue(AHEAD)

    def claim_ahead(connection: Connection) -> None:
        try:
            for rows in Claims(connection):
                claimed.put(rows)
        finally:
            claimed.put([])

    with connect("default", name="claims") as claims, connect("default", name="settles") as settles:
        began = time.monotonic()
        Thread(target=claim_ahead, args=[claims], daemon=True).start()
        done = 0
        while rows := claimed.get():
            complete(settles, rows)
            done += len(rows)
        return _rate(done, count, began)


def _rate(done: int, count: int, began: float) -> float:
    if done != count:
        raise RuntimeError(f"The ceiling settled {done} of {count} messages.")
    return done / (time.monotonic() - began)
