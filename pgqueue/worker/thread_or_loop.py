"""Give each message to who runs it: async tasks to the event loop, all else to threads."""

from __future__ import annotations

from collections.abc import Sequence

from pgqueue.engine.values import Claim
from pgqueue.tasks import registry
from pgqueue.worker.buffer import Buffer
from pgqueue.worker.leases import LeasedMessage


class Sorting:
    """Two buffers that look like one to the fetcher.

    How much to claim is a guess, by what was found so far: a claim cannot ask for async tasks only.
    Where one kind fills its buffer, the other waits, too: give them channels of their own if they
    differ much.
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
        """How many of those that were taken run."""
        return self._threads.running + self._loop.running

    def room(self, most: int) -> int:
        """Return how much to claim, so that it should fit in both; none while one has no room."""
        threads, loop = self._threads.room(most), self._loop.room(most)
        if not threads or not loop:
            return 0
        fitting = min(threads / max(1 - self._share, 0.001), loop / max(self._share, 0.001))
        return max(1, min(int(fitting), most))

    def put(self, items: Sequence[LeasedMessage]) -> None:
        """Add what was claimed."""
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
        """Give up what waits in one of them while nothing is taken from it."""
        return self._threads.stale() + self._loop.stale()

    def shut(self) -> None:
        """Let all who take go home."""
        self._threads.shut()
        self._loop.shut()

    def close(self) -> list[LeasedMessage]:
        """Shut both; return what was not taken."""
        return self._threads.close() + self._loop.close()

    def _is_for_the_loop(self, claim: Claim) -> bool:
        # A message may say for itself that it is atomic.
        if claim.options and b'"atomic"' in claim.options:
            return False
        if claim.task not in self._kinds:
            self._kinds[claim.task] = _is_for_a_loop(claim.task)
        return self._kinds[claim.task]


def _is_for_a_loop(name: str) -> bool:
    """Say whether a task awaits. An atomic one has a transaction, which needs a thread."""
    try:
        task = registry.find(name)
    except (Exception, SystemExit):
        return False  # the runner reports it
    return task is not None and task.is_async and not task.atomic
