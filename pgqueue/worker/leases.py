"""The messages that this worker has leased, from claim to settle, and their runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from pgqueue.engine.lease import Lock
from pgqueue.engine.values import Claim
from pgqueue.tasks import Task, TaskContext

if TYPE_CHECKING:
    from pgqueue.tasks.run_logs import RunLines


class LeasedMessage:
    """A claim, and the state of its run in this process. Times are of the monotonic clock."""

    is_batch: ClassVar[bool] = False
    """Whether it stands for several messages: see `worker.leased_batch`."""

    __slots__ = (
        *("cancelled", "claim", "claimed", "finished", "given_up", "interrupt", "lines", "lock"),
        *("is_bounded", "is_limited", "lost", "overdue", "started", "stopping"),
    )

    def __init__(self, claim: Claim, claimed: float) -> None:
        self.claim = claim
        self.claimed = claimed
        self.started = claimed
        self.finished = claimed
        self.lost = False
        """Whether the lease has ended, or was taken away."""
        self.cancelled = False
        self.stopping = False
        """Whether the worker is about to stop."""
        self.overdue = False
        """Whether its run has exceeded its time."""
        self.is_bounded = False
        """Whether a hard timeout will end its run. Until then its lease is renewed, even if it is
        overdue. Otherwise another worker would run the message at the same time."""
        self.is_limited = False
        """Whether its run has, or had, a limit of time."""
        self.given_up = False
        """Whether the worker no longer waits for its run, and hands it back or fails it."""
        self.lines: RunLines | None = None
        """The log lines of its run; None: they are not kept."""
        self.lock: Lock | None = None
        """The lock on its row, if its run is in a transaction."""
        self.interrupt: Callable[[], None] | None = None
        """Interrupts its run; None: that is not possible now. Any thread may call it."""

    def begin(self) -> None:
        """Note that its run begins now; the time in the buffer is not part of the run."""
        self.started = time.monotonic()

    @property
    def has_ended(self) -> bool:
        """Whether its run has ended. While the lease is in `Leases`, the end is not settled."""
        return self.finished > self.claimed

    def end(self) -> None:
        """Note that its run has ended."""
        self.finished = time.monotonic()

    def cancel(self) -> None:
        """Note the request to cancel it, and interrupt its run if that is possible."""
        # Set the flag, then read `interrupt`: `Cancellable` does it in the other order.
        self.cancelled = True
        if interrupt := self.interrupt:
            interrupt()


class Run(NamedTuple):
    """A run that has begun."""

    task: Task[Any, Any]
    context: TaskContext
    leased: LeasedMessage


class Leases:
    """All leases of this worker; at most the last lease of each message."""

    def __init__(self) -> None:
        self._by_id: dict[int, LeasedMessage] = {}
        # Each change takes this lock. Otherwise the message might be claimed again between the
        # check and the deletion of `drop`, and that lease would never be renewed.
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

    def note_stopping(self) -> None:
        """Have durable runs end after their current step: the worker is about to stop."""
        for each in self.all():
            each.stopping = True

    def has(self, leased: LeasedMessage) -> bool:
        """Return whether this is the current lease of its message, and not an earlier one."""
        return self._by_id.get(leased.claim.id) is leased

    def all(self) -> list[LeasedMessage]:
        """Return all current leases."""
        return list(self._by_id.values())
