"""The threads of those who run tasks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from time import monotonic

from pgqueue.worker.buffer import Buffer


class Executor:
    """Has threads that live until its buffer is closed. A worker watches them.

    Args:
        name: of all of them together.
        buffer: what they take from.
        threads: what each does, by its name.
    """

    def __init__(
        self, name: str, buffer: Buffer, threads: Mapping[str, Callable[[], None]]
    ) -> None:
        self.name = name
        self._buffer = buffer
        # Daemons: a task that never ends must not keep the process from ending.
        self._threads = [
            threading.Thread(target=target, name=name, daemon=True)
            for name, target in threads.items()
        ]

    def start(self) -> None:
        """Begin to take."""
        for thread in self._threads:
            thread.start()

    def stopped(self, timeout: timedelta) -> bool:
        """Wait until all have gone home, which they do some time after the buffer is closed."""
        until = monotonic() + timeout.total_seconds()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(until - monotonic(), 0))
        return not any(thread.is_alive() for thread in self._threads)

    @property
    def is_stuck(self) -> bool:
        """Whether one that was started has ended before the buffer: its work would be left."""
        return not self._buffer.is_closed and any(
            thread.ident and not thread.is_alive() for thread in self._threads
        )

    def cut(self) -> None:
        """Do nothing: no connection is what they wait on."""
