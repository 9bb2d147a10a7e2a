"""Raise TaskTimeout, or a subclass, in a thread whose task runs too long.

`PyThreadState_SetAsyncExc` raises the error at the thread's next bytecode. So a task that is stuck
in a call into C is not interrupted: its stack is logged. At its hard timeout the run has failed,
and the process is replaced, since Python cannot end a thread.
"""

from __future__ import annotations

import asyncio
import ctypes
import sys
import threading
import time
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import timedelta

from pgqueue import signals
from pgqueue.exceptions import TaskTimeout
from pgqueue.threads.service import Service
from pgqueue.worker.leases import LeasedMessage

LONGEST_NAP = timedelta(seconds=60)
CLEANING_UP = 5.0
"""Seconds that a cancelled coroutine has to end. A coroutine that blocks its loop is never
cancelled. After this time, the stack of an unfinished run is logged."""


class _TimedRun:
    __slots__ = ("deadline", "error", "has_struck", "is_final", "leased", "thread")

    def __init__(
        self,
        leased: LeasedMessage,
        deadline: float,
        thread: int | None,
        error: type[TaskTimeout] = TaskTimeout,
        *,
        is_final: bool = True,
    ) -> None:
        self.leased = leased
        self.deadline = deadline
        self.thread = thread
        self.error = error
        self.is_final = is_final
        self.has_struck = False


class _Bound:
    """A run with a hard timeout, and the function to call if the run exceeds it."""

    __slots__ = ("deadline", "late", "leased", "thread", "warn_at")

    def __init__(
        self,
        leased: LeasedMessage,
        deadline: float,
        warn_at: float | None,
        late: Callable[[], None],
    ) -> None:
        self.leased = leased
        self.deadline = deadline
        self.warn_at = warn_at
        self.late = late
        self.thread = threading.get_ident()


class Timeouts(Service):
    """Watches the runs that have a timeout."""

    def __init__(self) -> None:
        super().__init__()
        self._runs: set[_TimedRun] = set()
        self._bounds: set[_Bound] = set()
        self._lock = threading.Lock()

    @contextmanager
    def limit(
        self,
        leased: LeasedMessage,
        deadline: float,
        error: type[TaskTimeout] = TaskTimeout,
        *,
        is_final: bool = True,
    ) -> Iterator[None]:
        """Raise TaskTimeout inside the block at the deadline.

        Args:
            deadline: the deadline by the monotonic clock.
            error: the class of the error.
            is_final: whether the lease is given up, too: heartbeats no longer renew it.

        Raises:
            TaskTimeout: the block took too long.
        """
        thread = threading.get_ident()
        run = _TimedRun(leased, deadline, thread, error, is_final=is_final)
        try:
            self._watch(run)  # here: another limit of the run may strike in it
            yield
        finally:
            with self._lock:
                self._runs.discard(run)
                if run.has_struck:
                    absorb(error)

    @contextmanager
    def outlived(self, leased: LeasedMessage, deadline: float) -> Iterator[None]:
        """Give the lease up if the block does not end by itself soon after its deadline."""
        run = _TimedRun(leased, deadline + CLEANING_UP, None)
        try:
            self._watch(run)  # here: another limit of the run may strike in it
            yield
        finally:
            with self._lock:
                self._runs.discard(run)

    @contextmanager
    def bounded(
        self,
        leased: LeasedMessage,
        deadline: float,
        late: Callable[[], None],
        *,
        due: float | None = None,
    ) -> Iterator[None]:
        """Call `late` in the service's thread if the block has not ended at the deadline.

        Args:
            deadline: the deadline by the monotonic clock.
            due: the time of its timeout. If the run goes on, its stack is logged a while later.
        """
        bound = _Bound(leased, deadline, None if due is None else due + CLEANING_UP, late)
        leased.is_limited = leased.is_bounded = True
        try:
            with self._lock:
                self._bounds.add(bound)
            self.wake()
            yield
        finally:
            with self._lock:
                self._bounds.discard(bound)
            leased.is_bounded = False

    def forget(self, leased: LeasedMessage) -> None:
        """Forget all limits of a run that has ended: its thread may run another message soon.

        An error that strikes while an inner block is left keeps the outer blocks from their ends.
        """
        if leased.is_limited:
            with self._lock:
                self._runs = {run for run in self._runs if run.leased is not leased}
                self._bounds = {bound for bound in self._bounds if bound.leased is not leased}
            leased.is_bounded = False

    def _watch(self, run: _TimedRun) -> None:
        run.leased.is_limited = True
        with self._lock:
            self._runs.add(run)
        self.wake()

    def tick(self) -> timedelta:
        """Interrupt the runs whose time is over; return the time until the next deadline."""
        with self._lock:
            now = time.monotonic()
            late = [run for run in self._runs if run.deadline <= now]
            # An error replaces one that its thread has not raised yet: the final one must stay.
            # So after the final one no other error is raised, at this tick or a later one.
            for run in sorted(late, key=lambda run: run.is_final):
                self._runs.discard(run)
                run.leased.overdue = run.leased.overdue or run.is_final
                if run.thread is not None and (run.is_final or not run.leased.overdue):
                    run.has_struck = True
                    _interrupt(run.thread, run.error)
            due = [run.deadline for run in self._runs]
        due += self._look_at_bounds(now)
        if not due:
            return LONGEST_NAP
        return timedelta(seconds=max(min(due) - time.monotonic(), 0.001))

    def _look_at_bounds(self, now: float) -> list[float]:
        """Log or fail the runs beyond their deadlines; return the next deadlines."""
        with self._lock:
            warned = [each for each in self._bounds if each.warn_at and each.warn_at <= now]
            late = [each for each in self._bounds if each.deadline <= now]
            for each in warned:
                each.warn_at = None
            self._bounds.difference_update(late)
            due = [min(each.deadline, each.warn_at or each.deadline) for each in self._bounds]
        for each in warned:
            signals.send(
                signals.timeout_ignored,
                type(self),
                claim=each.leased.claim,
                stack=stack_of(each.thread),
            )
        for each in late:
            each.leased.overdue = True
            each.late()
        return due


def stack_of(thread: int) -> str:
    """Return the stack of a thread as in a traceback; "" if the thread has ended."""
    frame = sys._current_frames().get(thread)
    return "".join(traceback.format_stack(frame)) if frame else ""


@asynccontextmanager
async def within(deadline: float, error: type[TaskTimeout]) -> AsyncIterator[None]:
    """Cancel the coroutine in the block at the deadline, and raise `error` then.

    Raises:
        TaskTimeout: the block took too long.
    """
    limit = asyncio.timeout(deadline - time.monotonic())
    try:
        async with limit:
            yield
    except TimeoutError as raised:
        if limit.expired():
            # The traceback of the cancellation ends where the task was. In the first versions of
            # Python 3.11, the cancellation is the context of the error, not its cause.
            cancelled = raised.__cause__ or raised.__context__ or raised
            raise error().with_traceback(cancelled.__traceback__) from None
        raise


def absorb(error: type[BaseException]) -> None:
    """Drop an error that may be set in this thread and not raised yet.

    It is raised here. To set no error in its place would not do: Python takes that for an error,
    too, and all its threads look for it at each call of a function, as long as the process lives.
    """
    with suppress(error):
        _interrupt(threading.get_ident(), error)
        for _ in range(1000):  # Python looks for the error here
            pass


def _interrupt(thread: int, error: type[BaseException]) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error))
