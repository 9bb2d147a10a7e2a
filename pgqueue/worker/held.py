"""The messages that this worker holds a lease on, from claim to settle."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from pgqueue.engine.lease import Lock
from pgqueue.engine.values import Claim


class Held:
    """A claim, and what happened to it here. Times are of the monotonic clock."""

    __slots__ = (
        *("cancelled", "claim", "claimed", "finished", "given_up", "interrupt", "lock", "lost"),
        *("overdue", "started"),
    )

    def __init__(self, claim: Claim, claimed: float) -> None:
        self.claim = claim
        self.claimed = claimed
        self.started = claimed
        self.finished = claimed
        self.lost = False
        self.cancelled = False
        self.overdue = False
        self.given_up = False
        """Whether its run is no longer waited for: the worker stops, and hands it back."""
        self.lock: Lock | None = None
        """The lock on its row of the transaction that it runs in."""
        self.interrupt: Callable[[], None] | None = None
        """Makes its run stop, as long as there is one that can be made to. Any thread may."""

    def begin(self) -> None:
        """Note that it is being run; waiting in the buffer was not running."""
        self.started = time.monotonic()

    @property
    def has_ended(self) -> bool:
        """Whether its run is over; as long as it is held, that is not yet written."""
        return self.finished > self.claimed

    def end(self) -> None:
        """Note that its run is over."""
        self.finished = time.monotonic()

    def cancel(self) -> None:
        """Note that somebody asked for it to be cancelled; interrupt its run if that can be."""
        # First the word, then the look: `cancellable` does them in the other order.
        self.cancelled = True
        if interrupt := self.interrupt:
            interrupt()


class Holding:
    """Everything held, one claim of a message at most: the last."""

    def __init__(self) -> None:
        self._held: dict[int, Held] = {}
        # Of those that change it. Between a drop's look and its deletion, the same message
        # might be claimed anew; its lease would never be renewed.
        self._changing = threading.Lock()

    def __len__(self) -> int:
        return len(self._held)

    def add(self, held: Iterable[Held]) -> None:
        """Begin to hold."""
        with self._changing:
            self._held.update((each.claim.id, each) for each in held)

    def drop(self, *held: Held) -> None:
        """Stop holding each, unless the same message was claimed anew meanwhile."""
        with self._changing:
            for each in held:
                if self._held.get(each.claim.id) is each:
                    del self._held[each.claim.id]

    def has(self, held: Held) -> bool:
        """Say whether this is the claim that is held, not one of the same message before it."""
        return self._held.get(held.claim.id) is held

    def all(self) -> list[Held]:
        """Return what is held at this moment."""
        return list(self._held.values())
