"""Pass each message to its executor: async tasks to the event loop, all others to threads."""

from __future__ import annotations

from collections.abc import Sequence

from pgqueue.engine.values import Claim
from pgqueue.tasks import registry, tenants
from pgqueue.worker.buffer import Buffer
from pgqueue.worker.leases import LeasedMessage


class Sorting:
    """Two buffers that look like one to the fetcher.

    The number of messages to claim is an estimate from the last claims: a claim cannot select async
    tasks only. If one kind fills its buffer, the other kind waits, too. If the kinds differ much,
    give them separate channels.
    """

    def __init__(self, threads: Buffer, loop: Buffer) -> None:
        self._threads = threads
        self._loop = loop
        self._kinds: dict[str, bool] = {}
        self._share = 0.5

    def __len__(self) -> int:
        return len(self._threads) + len(self._loop)

    @property
    def running(self) -> int:
        """The number of taken messages that run."""
        return self._threads.running + self._loop.running

    def room(self, most: int) -> int:
        """Return the number of messages to claim for both buffers; 0 while one has no room."""
        threads, loop = self._threads.room(most), self._loop.room(most)
        if not threads or not loop:
            return 0
        fitting = min(threads / max(1 - self._share, 0.001), loop / max(self._share, 0.001))
        return max(1, min(int(fitting), most))

    def put(self, items: Sequence[LeasedMessage]) -> None:
        """Add claimed messages."""
        if not items:
            return
        waiting = [each for each in items if self._is_for_the_loop(each.claim)]
        if waiting:
            self._loop.put(waiting)
        if len(waiting) < len(items):
            chosen = set(waiting)
            self._threads.put([each for each in items if each not in chosen])
        self._share = (self._share + len(waiting) / len(items)) / 2

    def stale(self) -> list[LeasedMessage]:
        """Remove and return the messages that wait in a buffer behind long runs."""
        return self._threads.stale() + self._loop.stale()

    def shut(self) -> None:
        """Let all threads that take end."""
        self._threads.shut()
        self._loop.shut()

    def close(self) -> list[LeasedMessage]:
        """Shut both buffers; return the messages that were not taken."""
        return self._threads.close() + self._loop.close()

    def _is_for_the_loop(self, claim: Claim) -> bool:
        # The options of a message may make its run atomic.
        if claim.options and b'"atomic"' in claim.options:
            return False
        # On a loop, async tasks share the ORM's connection, which can be in one tenant at a time.
        if tenants.may_have(claim):
            return False
        if claim.task not in self._kinds:
            self._kinds[claim.task] = _is_for_a_loop(claim.task)
        return self._kinds[claim.task]


def _is_for_a_loop(name: str) -> bool:
    """Return whether an event loop runs a task. An atomic task's transaction needs a thread."""
    try:
        task = registry.find(name)
    except (Exception, SystemExit):
        return False  # the runner reports it
    return task is not None and task.is_async and not task.atomic
