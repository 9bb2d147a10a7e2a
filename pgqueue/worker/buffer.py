"""Messages that were claimed and wait for their turn to run."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

from pgqueue.worker.leases import LeasedMessage
from pgqueue.worker.wakeups import FetcherWakeup

LARGEST = 2000
"""The maximum size. A larger buffer would not help: this is two claims for the fastest threads."""
HANDOVER = 50e-6
"""The fetcher sleeps for these seconds after a put, so that a woken thread gets the interpreter."""
STANDSTILL = 5.0
"""Seconds without a take, after which the waiting messages are handed back to other workers."""


class Buffer:
    """A queue between one fetcher and many threads.

    A take is one `popleft` without a lock while the buffer is not empty. Each put wakes one of the
    waiting threads, however many messages it adds. `wake_one` wakes further threads.

    Args:
        slots: the number of messages that run at once.
        least: the number of messages that may wait here even while no run ends.
        fetcher: is woken when there is room again, after `room` returned 0.

    Attributes:
        crowded: set when a put adds more messages than the woken thread takes.
    """

    def __init__(self, slots: int, fetcher: FetcherWakeup, *, least: int = 0) -> None:
        self._items: deque[LeasedMessage] = deque()
        self._filled = threading.Condition()
        self._closed = False
        self._slots = slots
        self._least = least
        self._fetcher = fetcher
        self.crowded = threading.Event()
        self._idle = 0
        self._low: int | None = None
        self.taken = 0
        self._running: deque[None] = deque()
        """One item for each run: several threads may change its length safely."""
        self._pace = Pace()
        self._standstill = Standstill()

    def __len__(self) -> int:
        return len(self._items)

    @property
    def running(self) -> int:
        """The number of taken messages that run."""
        return len(self._running)

    @property
    def has_idle(self) -> bool:
        """Whether a thread waits to take."""
        return self._idle > 0

    @property
    def is_closed(self) -> bool:
        """Whether the buffer is closed: no thread takes from it any more."""
        return self._closed

    def room(self, most: int) -> int:
        """Return the number of messages to claim: the runs of the last second, or the free slots.

        So no message waits behind long runs while another worker may run it.

        It is 0 until half of the buffered messages are taken. The fetcher is woken then.
        """
        ended = self._pace.per_second(self.taken - len(self._running))
        wanted = min(max(self._free, self._least, ended), LARGEST, most)
        if wanted and len(self._items) <= wanted // 2:
            return wanted
        self._low = low = wanted // 2
        # First set `_low`, then look: a thread that takes does it in the other order.
        if len(self._items) <= low and (wanted or self._free):
            self._report_low()
        return 0

    @property
    def _free(self) -> int:
        return self._slots - len(self._running)

    def put(self, items: Sequence[LeasedMessage]) -> None:
        """Add claimed messages."""
        if not self._items:
            self._standstill.begin(self.taken)
        is_awaited = self.has_idle
        self._items.extend(items)
        self.wake_one()
        if len(self._items) > 1:
            self.crowded.set()
        if is_awaited:
            time.sleep(HANDOVER)

    def wake_one(self) -> None:
        """Wake one of the threads that wait."""
        with self._filled:
            self._filled.notify()

    def take(self, patience: float | None = None) -> LeasedMessage | None:
        """Return the next message, waiting for one.

        Args:
            patience: the seconds to wait; None: no limit.

        Returns:
            None if the buffer is closed, or if no message came in time.
        """
        while not self._closed:
            try:
                item = self._items.popleft()
            except IndexError:
                self._report_low()
                if not self._wait(patience):
                    return None
                continue
            self.taken += 1
            self._running.append(None)
            low = self._low  # read once: another thread may set it to None
            if low is not None and len(self._items) <= low:
                self._report_low()
            return item
        return None

    def done(self) -> None:
        """Note that a taken message's run is over. Call this before the next take."""
        self._running.pop()

    def stale(self) -> list[LeasedMessage]:
        """Remove and return the messages that wait behind long runs, for other workers to claim.

        Call this regularly.
        """
        left: list[LeasedMessage] = []
        if self._standstill.is_reached(self.taken):
            with suppress(IndexError):  # a thread took the last one meanwhile
                while len(self._items) > self._least:
                    left.append(self._items.pop())
        return left

    def _wait(self, patience: float | None) -> bool:
        """Wait for a put; return False if none came within `patience`."""
        with self._filled:
            if self._items or self._closed:
                return True
            self._idle += 1
            was_woken = self._filled.wait(patience)
            self._idle -= 1
            return was_woken

    def _report_low(self) -> None:
        if self._low is not None:
            self._low = None
            self._fetcher.make_room()

    def shut(self) -> None:
        """Let all threads that take end."""
        self._closed = True
        with self._filled:
            self._filled.notify_all()

    def close(self) -> list[LeasedMessage]:
        """Shut the buffer; return the messages that were not taken."""
        self.shut()
        left = []
        with suppress(IndexError):  # a thread has just taken the last one
            while self._items:
                left.append(self._items.popleft())
        return left


class Pace:
    """The number of runs that end in a second, counted over the last second, not in bursts."""

    def __init__(self) -> None:
        self._counts = deque([(time.monotonic(), 0)])

    def per_second(self, ended: int) -> int:
        """Return the runs that ended in the last second.

        Args:
            ended: the number of all runs that have ended so far.
        """
        now = time.monotonic()
        self._counts.append((now, ended))
        while self._counts[1][0] <= now - 1:
            self._counts.popleft()
        since, before = self._counts[0]
        return int((ended - before) / max(now - since, 1))


class Standstill:
    """Detects that a count has not changed for a while."""

    def __init__(self) -> None:
        self.begin(0)

    def begin(self, count: int) -> None:
        """Start to watch the count: it should change from now on."""
        self._count, self._since = count, time.monotonic()

    def is_reached(self, count: int) -> bool:
        """Compare the count; return whether it has not changed for `STANDSTILL` seconds."""
        if count != self._count:
            self.begin(count)
        return time.monotonic() - self._since >= STANDSTILL
