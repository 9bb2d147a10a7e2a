"""Run async tasks on an event loop: one task per slot at once, on three threads in all.

One thread begins runs, one runs the loop, one concludes runs. Steps that may use the database or
take long run outside of the loop.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, cast

from asgiref.sync import sync_to_async
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from pgqueue import signals
from pgqueue.calls.outcomes import Closed, Ending
from pgqueue.database import forking, guard
from pgqueue.database.django_connections import (
    are_any_in_transaction,
    are_any_open,
    begin_thread,
    close_broken_connections,
    close_changed_connections,
    close_idle_connections,
    close_old_connections,
    close_read_only_connections,
    forget_queries,
    have_any_changed,
    is_refusal,
    roll_back_open,
)
from pgqueue.exceptions import Defer, TransactionLeftOpen
from pgqueue.threads.service import Service
from pgqueue.values.escaping import logger_of
from pgqueue.worker.batch_runner import BatchRun, BatchRunner
from pgqueue.worker.buffer import Buffer
from pgqueue.worker.executor import IDLE, Endings, Executor
from pgqueue.worker.leased_batch import LeasedBatch
from pgqueue.worker.leases import LeasedMessage, Run
from pgqueue.worker.runner import Arguments, Runner

TURN = 0.5
"""Seconds between turns, while no task blocks the loop."""
HOUSEKEEPING = 1.0
"""Seconds between checks of the connections of async tasks, as Django checks after a request."""
TIDYING = 1.0
"""Seconds that coroutines left behind by tasks have to clean up, when the worker ends."""
FAILURES = 5
"""After this number of failures in a row, each within a second, the loop ends. The watchdog then
ends the process."""

LOOK = timedelta(seconds=1)
LOOKS = 10
"""Looks in a row that find the loop at the same turn. After a SIGSTOP, one look alone may do so."""

logger = logger_of(__name__)

Ended = tuple[Run, Callable[[], Any]]


class EventLoop(Executor):
    """Takes messages from the buffer, awaits their tasks, and passes the endings on.

    The ORM's async calls share one thread and its connection, as in asgiref.

    Args:
        slots: the number of messages that are awaited at once.
    """

    def __init__(self, slots: int, buffer: Buffer, runner: Runner, endings: Endings) -> None:
        super().__init__(
            "event loop",
            slots,
            buffer,
            endings,
            {"loop-begin": self._begin, "loop": self._live, "loop-end": self._conclude},
        )
        self._runner = runner
        self._batches = BatchRunner(runner)
        self._free = threading.Semaphore(slots)
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._has_finished = False
        self._was_refused = False
        self._generation = forking.generation
        self._opened: list[BaseDatabaseWrapper] = []
        """The connections of the thread in which async tasks use the ORM."""
        self._rolled_back: list[str] = []
        """The aliases of the transactions that tasks left open there, in order."""
        self._thread: int | None = None
        self.turns = 0
        """The number of turns of the loop. While it grows, the loop is not blocked."""
        self._ended: SimpleQueue[Ended | None] = SimpleQueue()

    def cancel(self) -> None:
        """Cancel the coroutines that still run: they may clean up; their ends are not written."""

        def cancel() -> None:
            for task in self._tasks:
                task.cancel()

        with suppress(RuntimeError):  # it has ended meanwhile
            self._loop.call_soon_threadsafe(cancel)

    def stack(self) -> str:
        """Return the stack of the loop's thread; "" if the loop does not run."""
        frame = sys._current_frames().get(self._thread) if self._thread else None
        return "".join(traceback.format_stack(frame)) if frame else ""

    def _begin(self) -> None:
        begin_thread()
        while True:
            self._free.acquire()
            leased = self._take()
            if leased is None:
                break
            # The coroutine starts with a copy of this context.
            guard.isolated(self._begin_one, leased)
            close_old_connections()
        connections.close_all()
        with suppress(RuntimeError):  # it was given up
            self._loop.call_soon_threadsafe(self._finish)

    def _begin_one(self, leased: LeasedMessage) -> None:
        if leased.is_batch:
            self._begin_batch(cast("LeasedBatch", leased))
            return
        run = self._runner.begin(leased)
        forking.leave_if_forked_since(self._generation)
        if isinstance(run, Run):
            self._send(run)
        else:
            self._make_room()
            self._endings.put(leased, run)

    def _begin_batch(self, leased: LeasedBatch) -> None:
        batch = self._batches.begin(leased)
        forking.leave_if_forked_since(self._generation)
        if batch is None:
            self._make_room()
            self._put_batch(leased)
            return
        self._batches.prepare(batch)
        self._loop.call_soon_threadsafe(self._spawn, batch, ([], {}))

    def _send(self, run: Run) -> None:
        try:
            arguments = self._runner.arguments(run)
        except BaseException as error:
            self._ended.put((run, _raising(error)))
            return
        self._loop.call_soon_threadsafe(self._spawn, run, arguments)

    def _live(self) -> None:
        self._thread = threading.get_ident()
        self._loop.create_task(self._take_turns())
        self._loop.create_task(self._keep_house())
        failures = 0
        while not self._has_finished and failures < FAILURES:
            began = monotonic()
            try:
                self._loop.run_forever()
            except (SystemExit, KeyboardInterrupt):
                # An asyncio task that a pgqueue task created may raise these: all others go on.
                pass
            except BaseException:
                failures = failures + 1 if monotonic() - began < 1 else 1
                with suppress(BaseException):
                    logger.exception("The event loop failed")
        self._has_finished = True
        with suppress(BaseException):
            self._loop.run_until_complete(self._tidy_up())
        self._thread = None
        self._loop.close()
        self._ended.put(None)

    def _spawn(self, run: Run, arguments: Arguments) -> None:
        task = self._loop.create_task(self._await(run, arguments))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _await(self, run: Run, arguments: Arguments) -> None:
        began = len(self._rolled_back)
        try:
            if isinstance(run, BatchRun):
                value = await self._batches.awaited(run)
            else:
                value = await self._runner.awaited(run, arguments)
        except BaseException as error:
            # Even SystemExit, which would end the loop and all other tasks.
            ended = _raising(error)
            self._was_refused |= is_refusal(error)
            is_final = not isinstance(error, Defer)
        else:
            ended = lambda: value  # noqa: E731
            is_final = False
        if left := await self._left_open(began):
            ended = ended if is_final else _raising(TransactionLeftOpen(left))
        await self._close_changed()
        if len(self._tasks) == 1:  # this one
            forget_queries(self._opened)
        run.leased.end()
        self._ended.put((run, ended))

    async def _left_open(self, began: int) -> Sequence[str]:
        """Roll back transactions that are left open on the connections that async tasks share.

        Each task that runs at that time may have written in them.

        Args:
            began: the number of transactions that had been rolled back when the run began.

        Returns:
            The aliases of the transactions that were rolled back during the run, by this call or
            by another run's call.
        """
        if are_any_in_transaction(self._opened):
            # Only their own thread knows whether it is between two calls.
            with suppress(BaseException):  # cancelled, when the worker ends
                self._rolled_back.extend(await sync_to_async(roll_back_open)())
        return list(dict.fromkeys(self._rolled_back[began:]))

    async def _close_changed(self) -> None:
        """Close a connection that async tasks share if a statement may have changed its session.

        Another task that reads from it then fails, and is retried. That is better than a query on
        another tenant's tables.
        """
        if have_any_changed(self._opened):
            with suppress(BaseException):  # cancelled, when the worker ends
                await sync_to_async(close_changed_connections)()

    def _finish(self) -> None:
        """End the loop after its last task has ended."""
        self._leave_if_nothing_runs()
        for task in self._tasks:
            task.add_done_callback(self._leave_if_nothing_runs)

    def _leave_if_nothing_runs(self, _: object = None) -> None:
        # A second stop would interrupt `_tidy_up`.
        if not self._tasks and not self._has_finished:
            self._has_finished = True
            self._loop.stop()

    async def _take_turns(self) -> None:
        while True:
            self.turns += 1
            await asyncio.sleep(TURN)

    async def _keep_house(self) -> None:
        self._opened = await sync_to_async(begin_thread)()
        while True:
            await asyncio.sleep(HOUSEKEEPING)
            await sync_to_async(self._close_connections)()

    def _close_connections(self) -> None:
        # In the thread that uses the connections. A task may be reading from one of them.
        if self._was_refused:
            self._was_refused = False
            close_read_only_connections()
        if self._tasks:
            close_broken_connections()
        else:
            close_old_connections()
            close_idle_connections()

    async def _tidy_up(self) -> None:
        """Cancel coroutines that tasks left behind, as `asyncio.run` does, with a time limit."""
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for each in left:
            each.cancel()
        if left:
            await asyncio.wait(left, timeout=TIDYING)
        await self._loop.shutdown_asyncgens()

    def _conclude(self) -> None:
        begin_thread()
        while ended := self._next_ended():
            run, value = ended
            if isinstance(run, BatchRun):
                self._conclude_batch(run, value)
                continue
            # A run that was given up did not fail: another worker runs its message.
            ending: Ending = Closed()
            if not run.leased.given_up:
                ending = guard.isolated(self._runner.conclude, run, value)
            forking.leave_if_forked_since(self._generation)
            self._runner.end(run.leased)
            self._make_room()
            self._endings.put(run.leased, ending)
        connections.close_all()

    def _conclude_batch(self, batch: BatchRun, value: Callable[[], Any]) -> None:
        guard.isolated(self._batches.conclude, batch, value)
        forking.leave_if_forked_since(self._generation)
        self._runner.end(batch.leased)
        self._make_room()
        self._put_batch(batch.batch)

    def _next_ended(self) -> Ended | None:
        if are_any_open():
            with suppress(Empty):
                return self._ended.get(timeout=IDLE)
            close_idle_connections()
        return self._ended.get()

    def _make_room(self) -> None:
        self._buffer.done()
        self._free.release()


class LoopWatch(Service):
    """Checks an event loop once a second. It ends nothing: tasks on threads go on."""

    def __init__(self, loop: EventLoop) -> None:
        super().__init__()
        self._loop = loop
        self._turns = 0
        self._in_vain = 0

    @property
    def blocked_for(self) -> float:
        """Seconds for which the loop has been blocked; 0: it is not blocked."""
        return self._in_vain * LOOK.total_seconds() if self._in_vain >= LOOKS else 0.0

    def tick(self) -> timedelta:
        """Look once; report a blocked loop once until it goes on."""
        turns = self._loop.turns
        self._in_vain = self._in_vain + 1 if turns == self._turns else 0
        self._turns = turns
        if self._in_vain == LOOKS and (stack := self._loop.stack()):
            signals.send(signals.loop_blocked, type(self), stack=stack)
        return LOOK


def _raising(error: BaseException) -> Callable[[], Any]:
    def value() -> Any:
        raise error

    return value
