"""The messages that this worker has leased, from claim to settle."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from pgqueue.engine.lease import Lock
from pgqueue.engine.values import Claim


class LeasedMessage:
    """A claim, and what happened to it in this process. Times are of the monotonic clock."""

    __slots__ = (
        *("cancelled", "claim", "claimed", "finished", "given_up", "interrupt", "lock", "lost"),
        *("is_bounded", "overdue", "started"),
    )

    def __init__(self, claim: Claim, claimed: float) -> None:
        self.claim = claim
        self.claimed = claimed
        self.started = claimed
        self.finished = claimed
        self.lost = False
        """Whether the lease ran out, or was taken away."""
        self.cancelled = False
        self.overdue = False
        """Whether its run has had all its time."""
        self.is_bounded = False
        """Whether a hard timeout will end its run. Until then its lease is renewed, though it is
        overdue: else another worker would run the message beside it."""
        self.given_up = False
        """Whether the worker, which stops, no longer waits for its run and hands it back."""
        self.lock: Lock | None = None
        """The lock on its row that its transaction has, if it runs in one."""
        self.interrupt: Callable[[], None] | None = None
        """Interrupts its run, while that is possible. Any thread may call it."""

    def begin(self) -> None:
        """Note that its run begins now; the time in the buffer is not part of the run."""
        self.started = time.monotonic()

    @property
    def has_ended(self) -> bool:
        """Whether its run has ended. That is not yet settled while the lease is in `Leases`."""
        return self.finished > self.claimed

    def end(self) -> None:
        """Note that its run has ended."""
        self.finished = time.monotonic()

    def cancel(self) -> None:
        """Note that its cancellation was requested; interrupt its run if that is possible."""
        # Set the flag, then read `interrupt`: `cancellable` does it in the other order.
        self.cancelled = True
        if interrupt := self.interrupt:
            interrupt()


class Leases:
    """All leases of this worker; of each message at most the last one."""

    def __init__(self) -> None:
        self._by_id: dict[int, LeasedMessage] = {}
        # Taken by all that change it. Between the look and the deletion of `drop`, the same message
        # might be claimed again; that lease would never be renewed.
        self._changing = threading.Lock()

    def __len__(self) -> int:
        return len(self._by_id)

    def add(self, leased: Iterable[LeasedMessage]) -> None:
        """Add leases; each replaces an earlier one of the same message."""
        with self._changing:
            self._by_id.update((each.claim.id, each) for each in leased)

    def drop(self, *leased: LeasedMessage) -> None:
        """Remove leases. If a message was claimed again meanwhile, that lease stays."""
        with self._changing:
            for each in leased:
                if self._by_id.get(each.claim.id) is each:
                    del self._by_id[each.claim.id]

    def has(self, leased: LeasedMessage) -> bool:
        """Return whether this is the present lease of its message, and not an earlier one."""
        return self._by_id.get(leased.claim.id) is leased

    def all(self) -> list[LeasedMessage]:
        """Return all leases of this moment."""
        return list(self._by_id.values())
