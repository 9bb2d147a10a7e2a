"""What a supervisor needs of the workers that it starts, wherever they run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Protocol

from pgqueue.claiming.registration import WorkerIds
from pgqueue.threads.service import Service
from pgqueue.worker.config import WorkerConfig
from pgqueue.worker.report import Reports


class PooledWorker(Protocol):
    """A worker that the supervisor has started, wherever it runs."""

    ids: WorkerIds
    started_at: float
    retires: bool
    has_stopped: bool
    reports: Reports
    """What it says of itself, if it does."""

    @property
    def heard_at(self) -> float | None:
        """When it last reported that nothing in it is stuck."""

    @property
    def status(self) -> int | None:
        """Its exit status; None: it lives."""

    @property
    def is_well(self) -> bool:
        """Whether it has reported lately that nothing in it is stuck."""

    @property
    def has_ended_well(self) -> bool:
        """Whether it ended with status 0 after it had given up all leases."""

    @property
    def leaves_something(self) -> bool:
        """Whether it has drained the queue, but for rows that statements fail with."""

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
        """Let it alone; if it lives, it takes that as a request to stop."""

    def announce(self) -> None:
        """Announce that it died."""


class WorkerPool(Protocol):
    """Where a supervisor's workers run: as processes here, or on a cluster."""

    kill_after: timedelta
    """How much later than the end of the grace period a worker is killed."""
    services: Sequence[Service]
    """What runs beside it until all of them have ended."""

    def start(self, config: WorkerConfig) -> PooledWorker:
        """Start a worker.

        Raises:
            OSError: there is no room for one at the moment.
        """

    def wanted(self, *, filled: int, empty: int) -> int:
        """Return how many workers are to be started, beside those that there are."""
