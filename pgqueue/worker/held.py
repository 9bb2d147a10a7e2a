"""The messages that this worker holds a lease on, from claim to settle."""

from __future__ import annotations

import time
from collections.abc import Iterable

from pgqueue.engine.values import Claim


class Held:
    """A claim, and what happened to it here. Times are of the monotonic clock."""

    __slots__ = ("cancelled", "claim", "claimed", "finished", "lost", "overdue", "started")

    def __init__(self, claim: Claim, claimed: float) -> None:
        self.claim = claim
        self.claimed = claimed
        self.started = claimed
        self.finished = claimed
        self.lost = False
        self.cancelled = False
        self.overdue = False

    def begin(self) -> None:
        """Note that it is being run; waiting in the buffer was not running."""
        self.started = time.monotonic()

    def end(self) -> None:
        """Note that its run is over."""
        self.finished = time.monotonic()


class Holding:
    """Everything held. Its methods are single operations on a dict, which need no lock."""

    def __init__(self) -> None:
        self._held: dict[int, Held] = {}

    def __len__(self) -> int:
        return len(self._held)

    def add(self, held: Iterable[Held]) -> None:
        """Begin to hold."""
        self._held.update((each.claim.id, each) for each in held)

    def drop(self, held: Held) -> None:
        """Stop holding, unless the same message was claimed anew meanwhile."""
        if self._held.get(held.claim.id) is held:
            del self._held[held.claim.id]

    def all(self) -> list[Held]:
        """Return what is held at this moment."""
        return list(self._held.values())
