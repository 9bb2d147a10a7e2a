"""Messages that were claimed and wait for their turn to run."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from pgqueue.worker.leases import LeasedMessage

LARGEST = 2000
"""More than this hides nothing: it is two claims ahead of the fastest threads."""
HANDOVER = 50e-6
"""Seconds in which a thread that was woken gets the interpreter: who puts something in would keep
it while it looks for more."""
STANDSTILL = 5.0
"""Seconds without anything taken, after which others had better have what waits."""


class Buffer:
    """A queue between one fetcher and many threads.

    Taking is one `popleft`, without a lock, as long as there is something to take. Of the threads
    that wait, one is woken for however much is put in: `wake_one` wakes others.

    Args:
        slots: how many of what is taken run at once.
        least: how many may wait here even while nothing ends.
        on_low: called when there is room again, after `room` said that there was none.
        on_put: called when more was put in than the thread that was woken takes.
    """

    def __init__(
        self,
        slots: int,
        *,
        least: int = 0,
        on_low: Callable[[], None],
        on_put: Callable[[], None] = lambda: None,
    ) -> None:
        self._items: deque[LeasedMessage] = deque()
        self._filled = threading.Condition()
        self._closed = False
        self._slots = slots
        self._least = least
        self._on_low = on_low
        self._on_put = on_put
        self._idle = 0
        self._low: int | None = None
        self.taken = 0
        self._running: deque[None] = deque()
        """One for each, since only its length is safe to change from several threads."""
        self._pace = Pace()
        self._standstill = Standstill()

    def __len__(self) -> int:
        return len(self._items)

    @property
    def running(self) -> int:
        """How many of those that were taken run."""
        return len(self._running)

    @property
    def has_idle(self) -> bool:
        """Whether a thread waits to take."""
        return self._idle > 0

    @property
    def is_closed(self) -> bool:
        """Whether it is closed: nothing is taken from it any more."""
        return self._closed

    def room(self, most: int) -> int:
        """Return how much to claim: as much as ended in the last second, one for each free slot.

        So nothing waits behind runs that take long, while other workers might have it. (A test that
        needs a message claimed and not begun has many short ones run before it.)

        None until half of what was buffered is used up; `on_low` tells when it is.
        """
        ended = self._pace.per_second(self.taken - len(self._running))
        wanted = min(max(self._free, self._least, ended), LARGEST, most)
        if wanted and len(self._items) <= wanted // 2:
            return wanted
        self._low = low = wanted // 2
        # First the word, then the look.
        if len(self._items) <= low and (wanted or self._free):
            self._report_low()
        return 0

    @property
    def _free(self) -> int:
        return self._slots - len(self._running)

    def put(self, items: Sequence[LeasedMessage]) -> None:
        """Add what was claimed."""
        if not self._items:
            self._standstill.begin(self.taken)
        is_awaited = self.has_idle
        self._items.extend(items)
        self.wake_one()
        if len(self._items) > 1:
            self._on_put()
        if is_awaited:
            time.sleep(HANDOVER)

    def wake_one(self) -> None:
        """Wake one of the threads that wait."""
        with self._filled:
            self._filled.notify()

    def take(
        self, patience: float | None = None, on_idle: Callable[[], None] = lambda: None
    ) -> LeasedMessage | None:
        """Return the next message, waiting for one; None once the buffer is closed.

        Args:
            patience: seconds to wait before `on_idle` is called once; None: it is not called.
        """
        while not self._closed:
            try:
                item = self._items.popleft()
            except IndexError:
                self._report_low()
                if not self._wait(patience):
                    patience = None
                    on_idle()
                continue
            self.taken += 1
            self._running.append(None)
            low = self._low  # once: the next moment it may be None
            if low is not None and len(self._items) <= low:
                self._report_low()
            return item
        return None

    def done(self) -> None:
        """Say that something that was taken runs no more; before the next is taken."""
        self._running.pop()

    def stale(self) -> list[LeasedMessage]:
        """Give up, and return, what waits behind runs that go on and on, to be claimed elsewhere.

        Ask for it now and then.
        """
        left: list[LeasedMessage] = []
        if self._standstill.is_reached(self.taken):
            with suppress(IndexError):  # a thread takes after all
                while len(self._items) > self._least:
                    left.append(self._items.pop())
        return left

    def _wait(self, patience: float | None) -> bool:
        """Wait until something is put in; return False if that took longer than `patience`."""
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
            self._on_low()

    def shut(self) -> None:
        """Let all threads that take end."""
        self._closed = True
        with self._filled:
            self._filled.notify_all()

    def close(self) -> list[LeasedMessage]:
        """Shut it; return what was not taken."""
        self.shut()
        left = []
        with suppress(IndexError):  # a thread has just taken the last one
            while self._items:
                left.append(self._items.popleft())
        return left


class Pace:
    """How many end in a second: counted over the last one, which a short burst does not inflate."""

    def __init__(self) -> None:
        self._counts = deque([(time.monotonic(), 0)])

    def per_second(self, ended: int) -> int:
        """Return how many of all that `ended` until now did so in the last second."""
        now = time.monotonic()
        self._counts.append((now, ended))
        while self._counts[1][0] <= now - 1:
            self._counts.popleft()
        since, before = self._counts[0]
        return int((ended - before) / max(now - since, 1))


class Standstill:
    """Whether a count has not changed for a while."""

    def __init__(self) -> None:
        self.begin(0)

    def begin(self, count: int) -> None:
        """Begin to look at the count: only from now on it should change."""
        self._count, self._since = count, time.monotonic()

    def is_reached(self, count: int) -> bool:
        """Look at the count."""
        if count != self._count:
            self.begin(count)
        return time.monotonic() - self._since >= STANDSTILL
