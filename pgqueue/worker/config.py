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
        channels: the channels it serves; None: all channels, including future ones.
        excluded: the channels it does not serve.
        threads: the number of tasks that run on threads at once; 0: the worker only does duties.
        coroutines: the number of async tasks that run on an event loop at once; 0: async tasks run
            on threads.
        processes: the number of processes, each with its own threads and event loop.
        grace: the time that running tasks have to end after the request to stop.
        duties: whether it does duties.
        services: functions that make further services of each process, from the alias of its
            database.
        drain: stop when no message is ready, running or waiting for a retry, except rows that make
            statements fail.
        poll_only: poll without listening, as always behind a transaction pooler.
        max_tasks: a process is replaced after about this number of tasks.
        max_memory: a process is replaced at this size, in MB of a million bytes.
        max_age: a process is replaced after about this time.
        max_idle: a process ends after this time without work.
        max_busy: a process is unhealthy after this time without a free thread.
        reload: whether processes are replaced when code has changed.
        liveness_file: a file that is touched every second while no service is stuck.
        metrics_port: the port that serves metrics; None: no port.
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
        """Whether the worker needs a supervisor process, which starts and replaces processes."""
        return self.processes > 1 or bool(
            self.max_tasks or self.max_memory or self.max_age or self.reload
        )

    @property
    def slots(self) -> int:
        """The number of tasks that one process runs at once."""
        return self.threads + self.coroutines
