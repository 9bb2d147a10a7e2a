"""The interface between a supervisor and the workers that it starts, here or on a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Protocol

from pgqueue.claiming.registration import WorkerIds
from pgqueue.threads.service import Service
from pgqueue.worker.config import WorkerConfig
from pgqueue.worker.report import Reports


class PooledWorker(Protocol):
    """A worker that the supervisor has started, on this machine or on a cluster."""

    ids: WorkerIds
    started_at: float
    retires: bool
    has_stopped: bool
    reports: Reports
    """Its reports, if it sends any."""

    @property
    def heard_at(self) -> float | None:
        """The time of its last report that no service is stuck."""

    @property
    def status(self) -> int | None:
        """Its exit status; None: it lives."""

    @property
    def is_well(self) -> bool:
        """Whether it has reported lately that no service is stuck."""

    @property
    def has_ended_well(self) -> bool:
        """Whether it ended with status 0 after it had given up all leases."""

    @property
    def leaves_something(self) -> bool:
        """Whether it has drained the queue except rows that make statements fail."""

    @property
    def signs(self) -> Sequence[Any]:
        """The file objects that become readable when it reports something or dies."""

    def listen(self) -> None:
        """Read its reports."""

    def ask_to_stop(self, times: int) -> None:
        """Pass on requests to stop, up to this number."""

    def ask_for_stacks(self) -> None:
        """Have it log the stacks of its threads, if it is on this machine."""

    def kill(self) -> None:
        """Kill it."""

    def leave(self) -> None:
        """Disconnect from it. If it lives, this is a request to stop."""

    def announce(self) -> None:
        """Announce that it died."""


class WorkerPool(Protocol):
    """The place where a supervisor's workers run: processes here, or a cluster."""

    kill_after: timedelta
    """The time from the end of the grace period until a worker is killed."""
    services: Sequence[Service]
    """The services that run beside the workers until all of them have ended."""

    def start(self, config: WorkerConfig) -> PooledWorker:
        """Start a worker.

        Raises:
            OSError: there is no room for a worker at the moment.
        """

    def wanted(self, *, filled: int, empty: int) -> int:
        """Return the number of further workers to start."""
