"""The reasons for which a worker's process ends. Any thread notes one; the main thread acts."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from datetime import timedelta
from itertools import count

from pgqueue import signals
from pgqueue.calls.outcomes import Ending
from pgqueue.worker.collector import Collector
from pgqueue.worker.executor import Endings
from pgqueue.worker.leases import LeasedMessage
from pgqueue.worker.stopping import StopRequests

# With the grace period, the rest of the stop must fit into Kubernetes' 30 s.
LAST_WORDS = timedelta(seconds=4)


class Shutdown:
    """Collects the reasons, and wakes the main thread for each one.

    Args:
        requests: the requests to stop; the main thread waits for them.
        grace: the time that running tasks have after the first request.
    """

    def __init__(self, requests: StopRequests, *, grace: timedelta) -> None:
        self.requests = requests
        self._grace = grace
        self.is_retiring = False
        """Whether the process claims no more, and ends after its current runs."""
        self._is_drained = False
        self._overran: deque[tuple[LeasedMessage, Ending]] = deque()
        self._stuck: set[LeasedMessage] = set()
        self.has_overrun = False
        """Whether a run exceeded its hard timeout, so that this process must end."""

    @property
    def is_due(self) -> bool:
        """Whether there is a reason to end."""
        return bool(self.requests.count or self.is_retiring or self._is_drained or self.has_overrun)

    def retire(self, **reached: float) -> None:
        """Request that the process claims no more and ends after its current runs.

        Args:
            reached: the reason: the number of `tasks` or `megabytes` that it has reached.
        """
        if not self.is_retiring:
            self.is_retiring = True
            signals.send(signals.worker_retiring, type(self), pid=os.getpid(), reached=reached)
            self.requests.wake()

    def end_drained(self) -> None:
        """End the process, since the queue is drained."""
        self._is_drained = True
        self.requests.wake()

    def end_overrun(self, leased: LeasedMessage, ending: Ending) -> None:
        """End the process, since a run exceeded its hard timeout and has failed."""
        if leased.given_up:
            return  # it was handed back just now
        leased.given_up = True  # the run has failed, even if it still ends by itself
        # In this order: the main thread waits for the runs that are not in `_stuck`.
        self._overran.append((leased, ending))
        self._stuck.add(leased)
        self.has_overrun = True
        self.requests.wake()

    def overran(self) -> Iterator[tuple[LeasedMessage, Ending]]:
        """Yield each run that exceeded its hard timeout once, with its ending."""
        while self._overran:
            yield self._overran.popleft()

    def is_stuck(self, leased: LeasedMessage) -> bool:
        """Return whether the run of a message exceeded its hard timeout: it has failed."""
        return leased in self._stuck

    def time_left(self) -> timedelta | None:
        """Return the time left by the number of requests to stop; None: no limit.

        The deadline polls this: the main thread may be waiting for the database.
        """
        if self.requests.count > 1:
            return LAST_WORDS
        return self._grace + LAST_WORDS if self.requests.count else None


class TaskLimit:
    """Counts the endings of runs, and hands them to the settler.

    Args:
        most: the number of runs after which this process claims no more.
        settler: gets the endings.
        buffer: is shut at once: until the main thread notices, many more runs might begin.
        shutdown: has the process retire.
    """

    def __init__(self, most: int, settler: Endings, buffer: Collector, shutdown: Shutdown) -> None:
        self._most = most
        self._settler = settler
        self._buffer = buffer
        self._shutdown = shutdown
        self._counter = count(1)

    def put(self, leased: LeasedMessage, ending: Ending) -> None:
        """Hand a run's ending on, and count it. Any thread may call this."""
        self._settler.put(leased, ending)
        if next(self._counter) >= self._most:
            self._buffer.shut()
            self._shutdown.retire(tasks=self._most)
