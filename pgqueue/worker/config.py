"""The configuration of a worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from pgqueue.threads.service import Service


@dataclass(frozen=True, kw_only=True)
class WorkerConfig:
    """The configuration of a worker.

    Args:
        channels: the channels it serves; None: all, also future ones.
        excluded: channels it does not serve.
        threads: how many tasks run on threads at once; 0: none, it only does duties.
        coroutines: how many async tasks run on an event loop at once; 0: they run on threads.
        processes: the number of processes, each with its own threads and event loop.
        grace: how long running tasks may go on after the request to stop.
        duties: whether it does duties.
        services: make further services of each process, from the alias of its database.
        drain: stop when nothing is ready, running or waiting for a retry, but for rows that
            statements fail with.
        poll_only: don't listen; always so behind a transaction pooler.
        max_tasks: after about this many tasks a process is replaced.
        max_memory: at this size a process is replaced, in MB of a million bytes.
        max_age: after about this long a process is replaced.
        max_idle: a process that has had nothing to run for so long ends.
        max_busy: a process none of whose threads has been free for so long is not well.
        reload: whether processes are replaced when code has changed.
        liveness_file: is touched every second while nothing is stuck.
        metrics_port: where it is told what it does; None: nowhere.
        metrics_address: the address of that port.
    """

    database: str
    channels: Sequence[str] | None = None
    excluded: Sequence[str] = ()
    threads: int
    coroutines: int = 0
    processes: int = 1
    grace: timedelta
    duties: bool = True
    services: Sequence[Callable[[str], Service]] = ()
    drain: bool = False
    poll_only: bool = False
    max_tasks: int | None = None
    max_memory: int | None = None
    max_age: timedelta | None = None
    max_idle: timedelta | None = None
    max_busy: timedelta | None = None
    reload: bool = False
    liveness_file: Path | None = None
    metrics_port: int | None = None
    metrics_address: str = ""

    @property
    def is_supervised(self) -> bool:
        """Whether a supervisor process is needed, which starts and replaces processes."""
        return self.processes > 1 or bool(
            self.max_tasks or self.max_memory or self.max_age or self.reload
        )

    @property
    def slots(self) -> int:
        """How many tasks one process runs at once."""
        return self.threads + self.coroutines
