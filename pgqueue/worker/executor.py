"""The threads that run tasks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from time import monotonic

from pgqueue.threads.service import told
from pgqueue.worker.buffer import Buffer


def _until_it_ends(name: str, target: Callable[[], None]) -> None:
    with told(name):
        target()


class Executor:
    """Owns threads that live until its buffer is closed. The watchdog watches them.

    Args:
        name: the name of the group of threads.
        buffer: the threads take messages from it.
        threads: the function of each thread, by the thread's name.
    """

    def __init__(
        self, name: str, buffer: Buffer, threads: Mapping[str, Callable[[], None]]
    ) -> None:
        self.name = name
        self._buffer = buffer
        # Daemons: a task that never ends must not keep the process from ending.
        self._threads = [
            threading.Thread(target=_until_it_ends, args=[name, target], name=name, daemon=True)
            for name, target in threads.items()
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

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
