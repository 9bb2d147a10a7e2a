"""Run tasks on threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from time import monotonic

from django.db import connections

from pgqueue.outcomes import Closed, Outcome
from pgqueue.worker.buffer import Buffer
from pgqueue.worker.closing import close_old_connections
from pgqueue.worker.held import Held

STALE = 1.0  # seconds


def has_lost_one(threads: Sequence[threading.Thread], buffer: Buffer) -> bool:
    """Say whether a thread that was started has ended before the buffer that it takes from."""
    return not buffer.is_closed and any(each.ident and not each.is_alive() for each in threads)


class Threads:
    """Threads that take from the buffer, run, and hand the outcome on. A worker watches them.

    Args:
        run: must not raise.
        ended: takes what was run, and how it ended.
    """

    def __init__(
        self,
        count: int,
        buffer: Buffer,
        *,
        run: Callable[[Held], Outcome],
        ended: Callable[[Held, Outcome], None],
    ) -> None:
        self.name = "task threads"
        self._buffer = buffer
        self._run = run
        self._ended = ended
        # Daemons: a task that never ends must not keep the process from ending.
        self._threads = [
            threading.Thread(target=self._work, name=f"task-{number}", daemon=True)
            for number in range(1, count + 1)
        ]

    @property
    def is_stuck(self) -> bool:
        """Whether one of them died: its slot would be empty for good."""
        return has_lost_one(self._threads, self._buffer)

    def cut(self) -> None:
        """Do nothing: no connection is what they wait on."""

    def start(self) -> None:
        """Begin to take."""
        for thread in self._threads:
            thread.start()

    def _work(self) -> None:
        idle_since = monotonic()
        while (held := self._buffer.take()) is not None:
            if monotonic() - idle_since > STALE:
                # What was left open may have died meanwhile.
                close_old_connections()
            outcome = self._run(held)
            self._buffer.done()
            self._ended(held, Closed() if held.given_up else outcome)
            idle_since = monotonic()
        connections.close_all()

    def stopped(self, timeout: timedelta) -> bool:
        """Wait until all have gone home, which they do once the buffer is closed."""
        until = monotonic() + timeout.total_seconds()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(until - monotonic(), 0))
        return not any(thread.is_alive() for thread in self._threads)
