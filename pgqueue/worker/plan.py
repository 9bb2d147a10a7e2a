"""What a worker is asked to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a worker is asked to do; the defaults are those of `PGQUEUE`.

    Args:
        channels: the ones it serves; None: all, also those yet to come.
        excluded: ones it does not serve.
        threads: how many tasks it runs on threads at once; 0: none, it only does duties.
        coroutines: how many async tasks it runs at once on an event loop; 0: they run on threads.
        processes: how many of itself it runs, each with its own threads and its own event loop.
        grace: what running tasks have to end after it was asked to stop.
        duties: whether it does duties.
        drain: stop when nothing is ready, running or waiting for a retry.
        poll_only: don't listen. Chosen by itself behind a transaction pooler.
        max_tasks: how many tasks a process runs, about, before another takes its place.
        max_memory: how large a process may grow before that, in MB of a million bytes.
        reload: whether a process is replaced when code that it runs has changed.
        liveness_file: is touched every second while all is well.
    """

    database: str
    channels: Sequence[str] | None = None
    excluded: Sequence[str] = ()
    threads: int
    coroutines: int = 0
    processes: int = 1
    grace: timedelta
    duties: bool = True
    drain: bool = False
    poll_only: bool = False
    max_tasks: int | None = None
    max_memory: int | None = None
    reload: bool = False
    liveness_file: Path | None = None

    @property
    def is_supervised(self) -> bool:
        """Whether it takes a process that runs others, and replaces them."""
        return self.processes > 1 or bool(self.max_tasks or self.max_memory or self.reload)

    @property
    def slots(self) -> int:
        """How many tasks one process runs at once."""
        return self.threads + self.coroutines
