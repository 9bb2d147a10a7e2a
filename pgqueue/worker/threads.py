"""Run tasks on threads."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from django.db import connections

from pgqueue.calls.outcomes import Closed, Ending
from pgqueue.database import django_connections, forking
from pgqueue.worker.buffer import Buffer
from pgqueue.worker.executor import Executor
from pgqueue.worker.leases import LeasedMessage

STALE = 1.0  # seconds


class Threads(Executor):
    """Takes messages from the buffer, runs them, and passes the endings on.

    Args:
        run: runs a message; it must not raise.
        ended: receives each message and its ending.
    """

    def __init__(
        self,
        count: int,
        buffer: Buffer,
        *,
        run: Callable[[LeasedMessage], Ending],
        ended: Callable[[LeasedMessage, Ending], None],
    ) -> None:
        super().__init__(
            "task threads",
            buffer,
            {f"task-{number}": self._work for number in range(1, count + 1)},
        )
        self._run = run
        self._ended = ended

    def _work(self) -> None:
        django_connections.begin_thread()
        idle_since = monotonic()
        began = forking.generation
        while (leased := self._take()) is not None:
            if monotonic() - idle_since > STALE:
                # A connection that is still open may have broken meanwhile.
                django_connections.close_old_connections(was_idle=True)
            ending = self._run(leased)
            forking.leave_if_forked_since(began)  # a receiver or a backoff may have forked
            self._buffer.done()
            self._ended(leased, Closed() if leased.given_up else ending)
            idle_since = monotonic()
        connections.close_all()

    def _take(self) -> LeasedMessage | None:
        patience = STALE if django_connections.are_any_open() else None
        return self._buffer.take(patience, django_connections.close_idle_connections)
