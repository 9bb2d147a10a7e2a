"""Tell for how long none of a worker's threads has been free."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from pgqueue.worker.buffer import Buffer


class Occupied:
    """Watches the slots of a buffer: whether all of them stay taken by the same runs.

    Args:
        slots: how many runs there may be at once.
        blocked_for: returns for how many seconds none of these runs has gone on, as in an event
            loop that one of them blocks.
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
        """Return for how long no slot has been free. It must be asked now and then; any thread may.

        A slot that was free in between, and is taken again, is noticed.
        """
        now, taken = monotonic(), self._buffer.taken
        if taken != self._taken or self._buffer.running < self._slots:
            self._taken, self._since = taken, now
        return max(now - self._since, self._blocked_for())
