"""Run tasks on threads, and keep only as many threads awake as the messages need."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import cast

from django.db import connections

from pgqueue.calls.outcomes import Closed
from pgqueue.database import django_connections, forking
from pgqueue.threads.service import Service
from pgqueue.worker.batch_runner import BatchRunner
from pgqueue.worker.buffer import Buffer
from pgqueue.worker.executor import Endings, Executor
from pgqueue.worker.leased_batch import LeasedBatch
from pgqueue.worker.runner import Runner

STALE = 1.0  # seconds
LOOK = timedelta(milliseconds=2)
UNTIL_CROWDED = timedelta(hours=1)
BUSY = 0.8
"""The share of one processor above which a further thread would not help."""


class Threads(Executor):
    """Takes messages from the buffer, runs them, and hands the endings on."""

    def __init__(self, count: int, buffer: Buffer, runner: Runner, endings: Endings) -> None:
        super().__init__(
            "task threads",
            count,
            buffer,
            endings,
            {f"task-{number}": self._work for number in range(1, count + 1)},
        )
        self._runner = runner

    def _work(self) -> None:
        django_connections.begin_thread()
        run, buffer, endings = self._runner.run, self._buffer, self._endings
        idle_since = time.monotonic()
        began = forking.generation
        while (leased := self._take()) is not None:
            if time.monotonic() - idle_since > STALE:
                # A connection that is still open may have broken meanwhile.
                django_connections.close_old_connections(was_idle=True)
            if leased.is_batch:
                self._run_batch(cast("LeasedBatch", leased), began)
                idle_since = time.monotonic()
                continue
            ending = run(leased)
            forking.leave_if_forked_since(began)  # a receiver or a backoff may have forked
            buffer.done()
            endings.put(leased, Closed() if leased.given_up else ending)
            idle_since = time.monotonic()
        connections.close_all()

    def _run_batch(self, leased: LeasedBatch, began: int) -> None:
        BatchRunner(self._runner).run(leased)
        forking.leave_if_forked_since(began)
        self._buffer.done()
        self._put_batch(leased)


class ThreadWaker(Service):
    """Wakes one more thread if the awake threads leave messages in the buffer.

    Python runs one thread at a time. If all threads were awake for tasks that take microseconds,
    the fetcher and the settler would wait for the interpreter behind each of them, several times
    per statement. Tasks that wait leave the processor idle; long tasks take no message for a while.
    In both cases another thread is woken.
    """

    def __init__(self, buffer: Buffer) -> None:
        super().__init__()
        self._buffer = buffer
        self._taken = 0
        self._used = 0.0
        self._looked_at = 0.0

    def rest(self, nap: timedelta) -> None:
        """Nap until the buffer is crowded."""
        self._buffer.crowded.wait(nap.total_seconds())
        # Before the loop looks whether it was stopped: a stop sets the event, too.
        self._buffer.crowded.clear()

    def wake(self) -> None:
        """End the nap."""
        self._buffer.crowded.set()

    def tick(self) -> timedelta:
        """Wake a thread if progress since the last look was slow."""
        buffer = self._buffer
        if not buffer.has_idle or not len(buffer):
            return UNTIL_CROWDED
        if self._is_slow(buffer.taken):
            buffer.wake_one()
        return LOOK

    def _is_slow(self, taken: int) -> bool:
        used, now = time.process_time(), time.monotonic()
        share = (used - self._used) / max(now - self._looked_at, 1e-6)
        stands_still = taken == self._taken
        self._taken, self._used, self._looked_at = taken, used, now
        return stands_still or share < BUSY
