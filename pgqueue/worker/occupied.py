"""Measure the time for which none of a worker's threads has been free."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from pgqueue.worker.buffer import Buffer


class Occupied:
    """Detects that the same runs keep all slots of a buffer taken.

    Args:
        slots: the maximum number of runs at once.
        blocked_for: returns the seconds for which one run has blocked all others, in an event loop.
    """

    def __init__(
        self, slots: int, buffer: Buffer, *, blocked_for: Callable[[], float] = lambda: 0.0
    ) -> None:
        self._slots = slots
        self._buffer = buffer
        self._blocked_for = blocked_for
        self._taken = -1
        self._since = monotonic()

    def seconds(self) -> float:
        """Return the seconds for which no slot has been free. Any thread may call this.

        Call it regularly. It also detects a slot that was free between two calls.
        """
        now, taken = monotonic(), self._buffer.taken
        if taken != self._taken or self._buffer.running < self._slots:
            self._taken, self._since = taken, now
        return max(now - self._since, self._blocked_for())
