"""Gather the messages of batch tasks, between the fetcher and the buffer."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from math import inf
from time import monotonic

from pgqueue.conf import settings
from pgqueue.engine.values import Claim
from pgqueue.tasks.batching import BatchTask, batched
from pgqueue.worker.buffer import LARGEST, Buffer
from pgqueue.worker.leased_batch import LeasedBatch, each_of
from pgqueue.worker.leases import LeasedMessage
from pgqueue.worker.thread_or_loop import Sorting

Kind = tuple[str, bytes | None, str | None]
"""The messages of a batch share their task, the options of `using()`, and with batch_by a key."""


class Gathering:
    """The messages of one kind that wait for others.

    Args:
        due_at: the end of the wait, by the monotonic clock.
    """

    __slots__ = ("due_at", "messages", "most")

    def __init__(self, most: int, due_at: float) -> None:
        self.most = most
        self.due_at = due_at
        self.messages: list[LeasedMessage] = []


class Collector:
    """A buffer that hands full batches, or batches whose wait is over, to the real buffer.

    The fetcher's thread drives it: `put`, and `flush` when `due_in` is over. A process without
    batch tasks only passes messages on.
    """

    def __init__(self, buffer: Buffer | Sorting) -> None:
        self._buffer = buffer
        self._gathered: dict[Kind, Gathering] = {}
        self._is_closed = False
        self._changing = threading.Lock()
        self._a_run = 1.0
        """The number of messages that a run takes, estimated from the last claims."""

    def __len__(self) -> int:
        return len(self._buffer) + self._waiting()

    @property
    def running(self) -> int:
        """The number of runs; a batch is one."""
        return self._buffer.running

    def room(self, most: int) -> int:
        """Return the number of messages to claim: for the runs that fit, and to fill the batches.

        It is 0 while the buffer has no room for a further run.
        """
        room = self._buffer.room(most)
        if not batched or not room:
            return room
        with self._changing:
            missing = sum(each.most - len(each.messages) for each in self._gathered.values())
        wanted = max(int(room * self._a_run), missing)
        return max(1, min(wanted, LARGEST, most - self._waiting()))

    def put(self, items: Sequence[LeasedMessage]) -> None:
        """Add claimed messages."""
        if not batched or not items:
            self._buffer.put(items)
            return
        ready: list[LeasedMessage] = []
        runs = 0.0
        with self._changing:
            for each in items:
                task = batch_of(each.claim)
                if task is None:
                    ready.append(each)
                    runs += 1
                else:
                    ready += self._gather(task, each)
                    runs += 1 / task.batch
            ready += self._due()
            self._a_run = (self._a_run + len(items) / runs) / 2
            if ready:
                self._buffer.put(ready)

    def due_in(self) -> float:
        """Return the seconds until the next wait is over; infinite: no message waits."""
        if not self._gathered:
            return inf
        with self._changing:
            due = min((each.due_at for each in self._gathered.values()), default=inf)
        return max(0.0, due - monotonic())

    def flush(self) -> None:
        """Hand on the batches whose wait is over."""
        if not self._gathered:
            return
        with self._changing:
            if not self._is_closed and (due := self._due()):
                self._buffer.put(due)

    def stale(self) -> list[LeasedMessage]:
        """Remove and return the messages that wait behind long runs."""
        return _apart(self._buffer.stale())

    def shut(self) -> None:
        """Let all threads that take end."""
        self._buffer.shut()

    def close(self) -> list[LeasedMessage]:
        """Shut the buffer; return the messages that were not taken, gathered ones included."""
        with self._changing:
            self._is_closed = True
            gathered = [one for each in self._gathered.values() for one in each.messages]
            self._gathered.clear()
            return gathered + _apart(self._buffer.close())

    def _waiting(self) -> int:
        if not self._gathered:
            return 0
        with self._changing:
            return sum(len(each.messages) for each in self._gathered.values())

    def _gather(self, task: BatchTask[..., object], leased: LeasedMessage) -> list[LeasedMessage]:
        """Add a message to the batch of its kind; return the batch if it is full."""
        kind = kind_of(task, leased.claim)
        gathering = self._gathered.get(kind)
        if gathering is None:
            due_at = monotonic() + task.batch_wait.total_seconds()
            gathering = self._gathered[kind] = Gathering(task.batch, due_at)
        gathering.messages.append(leased)
        if len(gathering.messages) < gathering.most:
            return []
        del self._gathered[kind]
        return [_batch(gathering.messages)]

    def _due(self) -> list[LeasedMessage]:
        now = monotonic()
        kinds = [kind for kind, each in self._gathered.items() if each.due_at <= now]
        return [_batch(self._gathered.pop(kind).messages) for kind in kinds]


def batch_of(claim: Claim) -> BatchTask[..., object] | None:
    """Return the task whose batches a message joins; None: it runs without others.

    A message that has lost a lease may kill its process, and a run is in one tenant.
    """
    task = batched.get(claim.task)
    if task is None or claim.lost or settings().tenant is not None:
        return None
    return task


def kind_of(task: BatchTask[..., object], claim: Claim) -> Kind:
    """Return the kind of a message: the messages of a batch have the same one."""
    return claim.task, claim.options, claim.key if task.batch_by else None


def _batch(messages: Sequence[LeasedMessage]) -> LeasedMessage:
    return messages[0] if len(messages) == 1 else LeasedBatch(messages)


def _apart(items: Sequence[LeasedMessage]) -> list[LeasedMessage]:
    return [one for each in items for one in each_of(each)]
