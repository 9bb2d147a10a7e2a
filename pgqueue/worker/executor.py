"""The threads that run tasks, and the time for which none of them has been free."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from time import monotonic
from typing import Protocol

from pgqueue.calls.outcomes import Closed, Ending
from pgqueue.database.django_connections import are_any_open, close_idle_connections
from pgqueue.threads.service import told
from pgqueue.worker.buffer import Buffer
from pgqueue.worker.leased_batch import LeasedBatch
from pgqueue.worker.leases import LeasedMessage

IDLE = 1.0
"""Seconds without work after which a thread closes its idle connections."""


class Endings(Protocol):
    """The settler, or an object before it, as an executor sees it."""

    def put(self, leased: LeasedMessage, ending: Ending) -> None:
        """Take the ending of a run. Any thread may call this."""


class Executor:
    """Owns threads that live until its buffer is closed. The watchdog watches them.

    Args:
        name: the name of the group of threads.
        slots: the maximum number of runs at once.
        buffer: the threads take messages from it.
        endings: the threads hand the endings of runs to it.
        threads: the function of each thread, by the thread's name.
    """

    def __init__(
        self,
        name: str,
        slots: int,
        buffer: Buffer,
        endings: Endings,
        threads: Mapping[str, Callable[[], None]],
    ) -> None:
        self.name = name
        self._buffer = buffer
        self._endings = endings
        self._occupied = Occupied(slots, buffer)
        # Daemons: a task that never ends must not keep the process from ending.
        self._threads = [
            threading.Thread(target=self._run, args=[name], name=name, daemon=True)
            for name in threads
        ]
        self._functions = threads

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def busy_for(self) -> float:
        """Return the seconds for which no slot has been free."""
        return self._occupied.seconds()

    def stopped(self, timeout: timedelta) -> bool:
        """Wait until all threads have ended after the close of the buffer; return whether so."""
        until = monotonic() + timeout.total_seconds()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(until - monotonic(), 0))
        return not any(thread.is_alive() for thread in self._threads)

    @property
    def is_stuck(self) -> bool:
        """Whether a thread has ended although the buffer is open: its messages would not run."""
        return not self._buffer.is_closed and any(
            thread.ident and not thread.is_alive() for thread in self._threads
        )

    def cut(self) -> None:
        """Do nothing: the threads wait on no connection."""

    def _put_batch(self, leased: LeasedBatch) -> None:
        """Hand on the endings of the messages of a batch."""
        for each, ending in leased.ended:
            self._endings.put(each, Closed() if each.given_up else ending)

    def _run(self, name: str) -> None:
        with told(name):
            self._functions[name]()

    def _take(self) -> LeasedMessage | None:
        """Return the next message, waiting for one; None once the buffer is closed.

        After a while without work, this closes the connections that were kept for it.
        """
        leased = self._buffer.take(IDLE if are_any_open() else None)
        if leased is None and not self._buffer.is_closed:
            close_idle_connections()
            leased = self._buffer.take()
        return leased


class Occupied:
    """Detects that the same runs keep all slots of a buffer taken.

    Args:
        slots: the maximum number of runs at once.
    """

    def __init__(self, slots: int, buffer: Buffer) -> None:
        self._slots = slots
        self._buffer = buffer
        self._taken = -1
        self._since = monotonic()

    def seconds(self) -> float:
        """Return the seconds for which no slot has been free. Any thread may call this.

        Call it regularly. It also detects a slot that was free between two calls.
        """
        now, taken = monotonic(), self._buffer.taken
        if taken != self._taken or self._buffer.running < self._slots:
            self._taken, self._since = taken, now
        return now - self._since
