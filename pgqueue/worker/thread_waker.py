"""Have no more threads awake than it takes."""

from __future__ import annotations

import time
from datetime import timedelta

from pgqueue.threads.service import Service
from pgqueue.worker.buffer import Buffer

EVERY = timedelta(milliseconds=2)
UNTIL_WOKEN = timedelta(hours=1)
BUSY = 0.8
"""Of one processor: who uses so much has little left that another thread could use."""


class ThreadWaker(Service):
    """Wakes one more thread where those that are awake leave something to do.

    Python runs one thread at a time. Were all awake for tasks that take microseconds, a thread that
    claims or settles would wait for the interpreter behind each of them, several times for each
    statement. Where tasks wait for something, the process is less than busy; where they are long,
    nothing is taken for a while: then another thread begins.
    """

    def __init__(self, buffer: Buffer) -> None:
        super().__init__()
        self._buffer = buffer
        self._taken = 0
        self._used = 0.0
        self._looked_at = 0.0

    def tick(self) -> timedelta:
        """Look at what was done since the last look."""
        buffer = self._buffer
        if not buffer.has_idle or not len(buffer):
            return UNTIL_WOKEN
        if self._is_slow(buffer.taken):
            buffer.wake_one()
        return EVERY

    def _is_slow(self, taken: int) -> bool:
        used, now = time.process_time(), time.monotonic()
        share = (used - self._used) / max(now - self._looked_at, 1e-6)
        stands_still = taken == self._taken
        self._taken, self._used, self._looked_at = taken, used, now
        return stands_still or share < BUSY
