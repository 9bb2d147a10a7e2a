"""Messages that were claimed and wait for a thread."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from pgqueue.worker.held import Held


class Buffer:
    """A queue between one fetcher and many threads.

    Taking is one `popleft`, without a lock, as long as there is something to take.
    """

    def __init__(self, *, on_low: Callable[[], None]) -> None:
        self._items: deque[Held] = deque()
        self._filled = threading.Condition()
        self._closed = False
        self._on_low = on_low
        self._low: int | None = None
        self.taken = 0

    def __len__(self) -> int:
        return len(self._items)

    def put(self, items: Sequence[Held]) -> None:
        """Add what was claimed."""
        self._items.extend(items)
        with self._filled:
            self._filled.notify(len(items))

    def take(self) -> Held | None:
        """Return the next message, waiting for one; None once the buffer is closed."""
        while not self._closed:
            try:
                item = self._items.popleft()
            except IndexError:
                self._report_low()
                with self._filled:
                    if not self._items and not self._closed:
                        self._filled.wait()
                continue
            self.taken += 1
            if self._low is not None and len(self._items) <= self._low:
                self._report_low()
            return item
        return None

    def report_at(self, low: int) -> None:
        """Call `on_low` once, when no more than `low` are left."""
        self._low = low
        if len(self._items) <= low:
            self._report_low()

    def _report_low(self) -> None:
        if self._low is not None:
            self._low = None
            self._on_low()

    def close(self) -> list[Held]:
        """Let every thread that takes go home; return what none of them has begun."""
        self._closed = True
        left = []
        while self._items:
            left.append(self._items.popleft())
        with self._filled:
            self._filled.notify_all()
        return left
