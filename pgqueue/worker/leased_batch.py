"""Several leased messages that one run of a batch task treats as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from pgqueue.calls.outcomes import Ending
from pgqueue.engine.lease import Lock
from pgqueue.worker.leases import LeasedMessage, Run


class LeasedBatch(LeasedMessage):
    """The messages of a batch. To a buffer and to a run's limits it looks like one message.

    The claim is the first message's. None of the messages has lost a lease before.

    Attributes:
        runs: the runs that have begun: one for each message that must run.
        ended: the endings of the messages, once the batch has run.
    """

    is_batch: ClassVar[bool] = True

    __slots__ = ("_is_bounded", "_lock", "_overdue", "ended", "messages", "runs")

    def __init__(self, messages: Sequence[LeasedMessage]) -> None:
        self.messages = messages
        self.runs: list[Run] = []
        self.ended: list[tuple[LeasedMessage, Ending]] = []
        super().__init__(messages[0].claim, messages[0].claimed)

    @property
    def given_up(self) -> bool:
        """Whether the worker no longer waits for the run of a message."""
        return any(each.given_up for each in self.messages)

    @given_up.setter
    def given_up(self, value: bool) -> None:
        """Ignore the value: the worker gives up messages, not batches."""

    @property
    def overdue(self) -> bool:
        """Whether the run has exceeded its time."""
        return self._overdue

    @overdue.setter
    def overdue(self, value: bool) -> None:
        self._overdue = value
        for each in self.messages:
            each.overdue = value

    @property
    def is_bounded(self) -> bool:
        """Whether a hard timeout will end the run."""
        return self._is_bounded

    @is_bounded.setter
    def is_bounded(self, value: bool) -> None:
        self._is_bounded = value
        for each in self.messages:
            each.is_bounded = value

    @property
    def lock(self) -> Lock | None:
        """The lock on the rows of all messages, if the run is in a transaction."""
        return self._lock

    @lock.setter
    def lock(self, value: Lock | None) -> None:
        self._lock = value
        for each in self.messages:
            each.lock = value

    def begin(self) -> None:
        """Note that the run of all messages begins now."""
        super().begin()
        for each in self.messages:
            each.started = self.started

    def end(self) -> None:
        """Note that the run of all messages has ended."""
        super().end()
        for each in self.messages:
            each.finished = self.finished


def each_of(leased: LeasedMessage) -> Iterator[LeasedMessage]:
    """Yield the messages of a batch, or the one message."""
    if isinstance(leased, LeasedBatch):
        yield from leased.messages
    else:
        yield leased


def runs_of(run: Run) -> Sequence[Run]:
    """Return the runs of the messages of a batch, or the one run."""
    return run.leased.runs if isinstance(run.leased, LeasedBatch) else [run]
