"""Keep only as many threads awake as the messages need."""

from __future__ import annotations

import time
from datetime import timedelta

from pgqueue.threads.service import Service
from pgqueue.worker.buffer import Buffer

EVERY = timedelta(milliseconds=2)
UNTIL_WOKEN = timedelta(hours=1)
BUSY = 0.8
"""The share of one processor above which a further thread would not help."""


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

    def tick(self) -> timedelta:
        """Wake a thread if progress since the last look was slow."""
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
