"""Run a worker's processes, and replace each process that ends."""

from __future__ import annotations

import multiprocessing
import os
import random
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from datetime import timedelta
from math import inf
from multiprocessing import resource_tracker
from signal import SIG_DFL, SIGCHLD, signal
from time import monotonic, sleep
from typing import Any

from pgqueue import signals
from pgqueue.claiming.registration import WorkerIds
from pgqueue.threads.service import Service
from pgqueue.worker import child, parent
from pgqueue.worker.config import WorkerConfig
from pgqueue.worker.main_session import MainSession
from pgqueue.worker.migrations import wait_until_migrated
from pgqueue.worker.pool import PooledWorker, WorkerPool
from pgqueue.worker.report import Gathered, Reports, WorkerSnapshot
from pgqueue.worker.rescuer import Rescuer
from pgqueue.worker.shutdown import LAST_WORDS
from pgqueue.worker.stopping import (
    OTHERS,
    SIGNALS,
    STACKS,
    StopRequests,
    blocked,
    ending_on_signals,
)
from pgqueue.worker.unknown_channels import warn_of_unseen
from pgqueue.worker.watchdog import Watchdog, touch

# spawn: after a fork, a child would inherit connections and locks without their threads.
PROCESSES = multiprocessing.get_context("spawn")
LOOK = timedelta(seconds=1)
LASTING = 10.0
"""After a process that lived shorter than these seconds, the pause before the next one doubles."""
LONGEST_PAUSE = 10.0
# Later than a process ends itself; with the grace period within Kubernetes' 30 s.
KILL_AFTER = LAST_WORDS + timedelta(seconds=0.2)
LAST_RESCUE = timedelta(seconds=0.5)
WELL_WITHIN = 10.0
"""Seconds for which a process's report that it is well is valid."""
FILLED_WITHIN = 30.0
"""Seconds for which a slot may be without a valid report: on a loaded machine a start takes long.
A slot whose processes all die before their first report is not well."""
STACKS_APART = 0.2
"""Seconds between two processes that write their stacks."""
ALL_STACKS_WITHIN = 2.0
"""Seconds within which all processes are asked for their stacks, however many there are."""


class Processes:
    """A pool whose workers are processes on this machine, one in each slot.

    Args:
        level: the log level of the processes, if the project configures none.
    """

    kill_after = KILL_AFTER
    services: Sequence[Service] = ()

    def __init__(self, level: int | None = None) -> None:
        self._level = level

    def start(self, config: WorkerConfig) -> PooledWorker:
        """Start a process."""
        return Child(config, self._level)

    def wanted(self, *, filled: int, empty: int) -> int:
        """Return the number of missing processes."""
        return empty


class Child:
    """One of the worker's processes."""

    def __init__(self, config: WorkerConfig, level: int | None) -> None:
        self.ids = WorkerIds()
        self.started_at = monotonic()
        self.retires = False
        self.heard_at: float | None = None
        self.has_stopped = False
        self.leaves_something = False
        self.reports = Reports()
        self._asked = 0
        self._pipe, its_end = PROCESSES.Pipe()
        self._process = PROCESSES.Process(
            target=child.main, args=(config, its_end, self.ids, level)
        )
        # The tracker is started here, before signals are blocked: its start unblocks them.
        resource_tracker.ensure_running()
        # A signal to the whole process group would end the child before it ignores signals.
        with blocked(*SIGNALS, *OTHERS):
            self._process.start()
        # Otherwise this end of the pipe would not notice that the child is gone.
        its_end.close()

    @property
    def pid(self) -> int | None:
        """The id of the process."""
        return self._process.pid

    @property
    def status(self) -> int | None:
        """Its exit status; None: it lives."""
        return self._process.exitcode

    @property
    def is_well(self) -> bool:
        """Whether it has reported lately that no service is stuck."""
        return self.heard_at is not None and monotonic() - self.heard_at < WELL_WITHIN

    @property
    def has_ended_well(self) -> bool:
        """Whether it exited with status 0 after it had given up all leases."""
        return self.status == 0 and self.has_stopped

    @property
    def signs(self) -> list[Any]:
        """The file objects that become readable when it reports something or dies."""
        return [self._process.sentinel, self._pipe]

    def listen(self) -> None:
        """Read its reports."""
        with suppress(EOFError, OSError):
            while self._pipe.poll():
                word = self._pipe.recv_bytes()
                if word.startswith((parent.REPORT, parent.RUNS)):
                    self.reports.take(word)  # a stuck process reports, too
                    continue
                self.heard_at = monotonic()
                self.retires |= word == parent.RETIRING
                self.has_stopped |= word == parent.STOPPED
                self.leaves_something |= word == parent.LEFT

    def ask_to_stop(self, times: int) -> None:
        """Pass on requests to stop, up to this number."""
        try:
            while self._asked < times:
                self._asked += 1
                self._pipe.send_bytes(parent.REQUEST)
        except OSError:
            return  # it is gone already

    def ask_for_stacks(self) -> None:
        """Have it write the stacks of its threads to stderr."""
        if self.pid is not None and self.status is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, STACKS)

    def kill(self) -> None:
        """Kill it."""
        self._process.kill()

    def leave(self) -> None:
        """Close the pipe. If the process lives, this is a request to stop."""
        self._pipe.close()

    def announce(self) -> None:
        """Announce that it died."""
        signals.send(signals.worker_died, Supervisor, pid=self.pid, status=self.status)


class ProcessSlot:
    """A place for one process at a time."""

    def __init__(self) -> None:
        self.child: PooledWorker | None = None
        self.fill_at = 0.0
        self._short_lives = 0
        self._well_at = monotonic()

    @property
    def is_well(self) -> bool:
        """Whether its process is well, or has been missing only for a short time."""
        if self.child and self.child.heard_at is not None:
            return self.child.is_well
        return monotonic() - self._well_at < FILLED_WITHIN

    def excuse(self) -> None:
        """Note that it is empty on purpose."""
        self._well_at = monotonic()

    def clear(self) -> None:
        """Remove its child."""
        if self.child and self.child.heard_at is not None:
            self._well_at = self.child.heard_at
        self.child = None

    def vacate(self) -> None:
        """Note that its child ended or did not start; set the time to fill the slot again."""
        lived = monotonic() - self.child.started_at if self.child else 0
        # A process that ended well was asked to end, for example by the autoreload.
        if lived >= LASTING or (self.child and self.child.has_ended_well):
            self._short_lives = 0
        else:
            self._short_lives += 1
            pause = min(0.1 * 2.0 ** min(self._short_lives, 10), LONGEST_PAUSE)
            self.fill_at = monotonic() + pause * random.uniform(0.5, 1)  # noqa: S311
        self.clear()


class Supervisor:
    """Keeps a worker's processes running until a request to stop, or until the queue is drained.

    It notices at once that a process has died, and rescues its messages long before their leases
    end. If the supervisor itself dies, its processes notice that and stop.

    Args:
        level: the log level of the processes, if the project configures none.
        pool: the pool of its workers; None: processes on this machine.
    """

    def __init__(
        self, config: WorkerConfig, *, level: int | None = None, pool: WorkerPool | None = None
    ) -> None:
        self._config = config
        self._pool: WorkerPool = pool or Processes(level)
        self._requests = StopRequests()
        self._slots = [ProcessSlot() for _ in range(config.processes)]
        self._retiring: list[PooledWorker] = []
        self._is_crowded = False
        self._session = MainSession(config.database)
        self._rescuer = Rescuer(config.database, duties=config.duties)
        self._watchdog = Watchdog([self._session, self._rescuer, *self._pool.services])
        self._gathered = Gathered()
        self._snapshot = WorkerSnapshot(started=0)
        self._looked_at = monotonic()
        self._passed_on = 0
        self._kill_at = inf
        self._cut_short = False
        self.leaves_something = False
        """Whether its processes have drained the queue except rows that make statements fail."""

    def run(self) -> bool:
        """Run until stopped. Call it in the main thread, which receives the signals.

        Returns:
            Whether all processes stopped by themselves, or had no leases.
        """
        # If a parent process had SIGCHLD ignored, this process would not notice a child's end.
        signal(SIGCHLD, SIG_DFL)
        self._watchdog.start()
        with self._requests.on_signals(*SIGNALS, on_stacks=self._ask_for_stacks):
            try:
                with self._ending_on_signals():
                    self._prepare()
                for service in (self._rescuer, *self._pool.services):
                    service.start()
                while self._goes_on():
                    self._fill()
                    self._wait()
                    self._attend()
                    self._pass_on()
            finally:
                for each in self._children():
                    each.leave()
                self._watchdog.stop()
                for service in (self._rescuer, *self._pool.services):
                    service.stop()
                for service in (self._rescuer, *self._pool.services):
                    service.stopped(LAST_RESCUE)
        self._requests.close()
        return not self._cut_short

    def snapshot(self) -> WorkerSnapshot:
        """Return the state and the counts of its processes. Any thread may call this."""
        snapshot = self._snapshot
        if (silence := monotonic() - self._looked_at) > WELL_WITHIN:
            since = f"the supervisor has not looked after its processes for {silence:.0f} s"
            return replace(snapshot, complaints=[*snapshot.complaints, since])
        return snapshot

    def stop(self) -> None:
        """Request a stop with a grace period; a second call ends that. Any thread may call this."""
        self._requests.add()

    def _ending_on_signals(self) -> AbstractContextManager[None]:
        """Let a signal end this process at once; on a cluster, its session must be ended first."""
        is_here = isinstance(self._pool, Processes)
        return ending_on_signals(*SIGNALS) if is_here else nullcontext()

    def _ask_for_stacks(self) -> None:
        children = self._children()
        for each in children:
            each.ask_for_stacks()
            # Most share one stderr: at once, their stacks would be mixed.
            sleep(min(STACKS_APART, ALL_STACKS_WITHIN / len(children)))

    def _prepare(self) -> None:
        """Wait for the tables and warn of unseen channels, once for all processes."""
        config = self._config
        try:
            if wait_until_migrated(config.database, self._session, self._requests, wellness=self):
                with self._session.connected() as connection:
                    warn_of_unseen(connection, config)
        finally:
            self._session.close()
        for slot in self._slots:
            slot.excuse()

    def say_well(self) -> None:
        """Tell the liveness file, and readers of the state, that it waits for the tables."""
        self._looked_at = monotonic()
        self._touch()

    def _touch(self) -> None:
        if self._config.liveness_file:
            touch(self._config.liveness_file, sender=type(self))

    def _children(self) -> list[PooledWorker]:
        return [slot.child for slot in self._slots if slot.child] + self._retiring

    def _goes_on(self) -> bool:
        return bool(self._children()) or bool(self._slots and not self._requests.count)

    @property
    def _fills(self) -> bool:
        """Whether the supervisor starts missing processes."""
        return not (self._is_crowded or self._requests.count)

    def _fill(self) -> None:
        """Start missing processes, unless too many replaced processes have not ended yet."""
        was_crowded, self._is_crowded = self._is_crowded, 0 < len(self._slots) < len(self._retiring)
        if self._is_crowded and not (was_crowded or self._requests.count):
            retiring = len(self._retiring)
            signals.send(signals.worker_crowded, type(self), retiring=retiring)
        if not self._fills:
            for slot in self._slots:
                slot.excuse()
            return
        config = replace(self._config, liveness_file=None)
        for slot in self._to_fill():
            if self._fills and monotonic() >= slot.fill_at:
                try:
                    slot.child = self._pool.start(config)
                    self._gathered.started += 1
                except OSError as error:  # no memory or process slot at the moment
                    signals.send(
                        signals.service_failed, type(self), service="supervisor", error=error
                    )
                    slot.vacate()

    def _to_fill(self) -> list[ProcessSlot]:
        """Return the empty slots in which a worker is wanted; excuse the other empty slots."""
        empty = [slot for slot in self._slots if not slot.child]
        empty.sort(key=lambda slot: slot.fill_at)
        wanted = self._pool.wanted(filled=len(self._slots) - len(empty), empty=len(empty))
        for slot in empty[wanted:]:
            slot.excuse()
        return empty[:wanted]

    def _wait(self) -> None:
        """Wait for a request to stop, for a child's report, or until a slot or a kill is due."""
        signs = [sign for each in self._children() for sign in each.signs]
        due = [slot.fill_at for slot in self._to_fill()] if self._fills else []
        due.append(self._kill_at)
        nap = max(min([LOOK.total_seconds(), *(at - monotonic() for at in due)]), 0.01)
        self._requests.wait(timedelta(seconds=nap), *signs)
        for each in self._children():
            each.listen()
        is_well = self._is_well()
        if is_well:
            self._touch()
        if self._config.metrics_port:
            self._look(is_well=is_well)

    def _look(self, *, is_well: bool) -> None:
        """Store a snapshot of the processes for other threads."""
        # Processes that are stopping no longer report that they are well.
        is_silent = not (is_well or self._requests.count)
        self._snapshot = self._gathered.with_those(
            [each.reports for each in self._children()],
            ["a process does not say that it is well"] if is_silent else [],
        )
        self._looked_at = monotonic()

    def _is_well(self) -> bool:
        slots = all(slot.is_well for slot in self._slots)
        return slots and all(each.is_well for each in self._retiring)

    def _attend(self) -> None:
        """Handle children that retire or have died."""
        for slot in list(self._slots):
            if slot.child and slot.child.retires:
                self._retiring.append(slot.child)
                slot.clear()
            elif slot.child and slot.child.status is not None:
                self._bury(slot.child)
                # A child that retires has not drained the queue. `_bury` may read that just now.
                is_drained = slot.child.has_ended_well and not slot.child.retires
                if self._config.drain and is_drained:
                    self._slots.remove(slot)
                slot.vacate()
        for each in [each for each in self._retiring if each.status is not None]:
            self._retiring.remove(each)
            self._bury(each)

    def _bury(self, dead: PooledWorker) -> None:
        dead.listen()  # its last reports
        dead.leave()
        self._gathered.keep(dead.reports)
        self.leaves_something |= dead.leaves_something
        if not dead.has_ended_well:
            had_leases = dead.status != 0 and not dead.has_stopped
            self._cut_short |= self._requests.count > 0 and had_leases
            dead.announce()
            self._gathered.died += 1
            self._rescuer.rescue_from(dead.ids)

    def _pass_on(self) -> None:
        """Pass on requests to stop; kill late children, before this process is killed."""
        asked = min(self._requests.count, 2)  # a third request means the same as the second
        if asked > self._passed_on:
            self._passed_on = asked
            left = self._pool.kill_after
            if asked < 2:
                left += self._config.grace
            self._kill_at = min(self._kill_at, monotonic() + left.total_seconds())
        for each in self._children():
            each.ask_to_stop(asked)
            if monotonic() >= self._kill_at:
                each.kill()
