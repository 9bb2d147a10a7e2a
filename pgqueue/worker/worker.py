"""The life of a worker's process: start the services, wait for a request, stop the services."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from datetime import timedelta
from math import inf
from time import monotonic, time
from typing import Any

from django.utils.module_loading import autodiscover_modules

from pgqueue import signals
from pgqueue.calls.outcomes import HandedBack
from pgqueue.claiming.registration import WorkerIds
from pgqueue.conf import settings
from pgqueue.database.connections import Session
from pgqueue.engine import notifications
from pgqueue.threads.listener import Topic, TopicListener, subscribe
from pgqueue.threads.service import Service
from pgqueue.worker.autoreload import Autoreload
from pgqueue.worker.config import WorkerConfig
from pgqueue.worker.deadline import Deadline
from pgqueue.worker.drain import Drain
from pgqueue.worker.health import ProcessState, Reporter, Wellness
from pgqueue.worker.heartbeat import Heartbeat
from pgqueue.worker.leases import LeasedMessage
from pgqueue.worker.main_session import MainSession
from pgqueue.worker.migrations import wait_until_migrated
from pgqueue.worker.parent import RETIRING, Superior
from pgqueue.worker.pipeline import Pipeline
from pgqueue.worker.process import memory, tune_interpreter
from pgqueue.worker.releasing import Releaser
from pgqueue.worker.report import WorkerSnapshot
from pgqueue.worker.shared import Shared
from pgqueue.worker.shutdown import LAST_WORDS
from pgqueue.worker.stopping import SIGNALS, StopRequests
from pgqueue.worker.unknown_channels import warn_of_unseen
from pgqueue.worker.watchdog import Watchdog

NEW_MESSAGES = Topic(notifications.NEW)
LOOK = timedelta(seconds=1)
WORKS_FOR = timedelta(seconds=5)
"""The shortest time that a process works before it retires for its size."""
AGAIN = timedelta(seconds=0.25)


class Worker:
    """Runs tasks until a request to stop, or with `drain` until the queue is drained.

    Args:
        parent: the process or driver that started this worker, if it is one of several.
        services: further services, for example the listener to the parent.
        ids: the ids under which it claims; None: new ids.
        began_at: the start of the process, by the system's clock; None: now.
        told: further entries of the worker's public information.
    """

    def __init__(
        self,
        config: WorkerConfig,
        *,
        parent: Superior | None = None,
        services: Sequence[Service] = (),
        ids: WorkerIds | None = None,
        began_at: float | None = None,
        told: Mapping[str, Any] | None = None,
    ) -> None:
        self._config = config
        self._parent = parent
        self._main_session = MainSession(config.database)
        self._requests = StopRequests(parent)
        self._shared = shared = Shared.of(
            config, self._main_session, self._requests, told=told or {}, ids=ids
        )
        self._leases, self._shutdown = shared.leases, shared.shutdown
        self._pipeline = Pipeline(shared) if config.slots else None
        self._heartbeat = _heartbeat(shared, self._pipeline)
        self._releaser = Releaser(self._main_session, shared.leases, shared.tally)
        self._drain = _drain(shared, self._pipeline) if config.drain else None
        self._wellness = Wellness(config, parent, self._pipeline)
        self._watchdog = Watchdog(wellness=self._wellness)
        self._state = ProcessState(
            config, self._pipeline, self._wellness, self._heartbeat, self._watchdog
        )
        self._services = self._in_order(services, began_at or time())
        # For messages that are due earlier. If there is a fetcher, the fetcher listens.
        self._listener = TopicListener(topic=NEW_MESSAGES, heard=shared.wakeups.hear)
        executors = self._pipeline.executors if self._pipeline else []
        self._watchdog.watch(*self._services, self._listener, self._main_session, *executors)
        self._until = inf
        self._busy_at = monotonic()
        self._well_until = -inf
        # Last: its thread would go on if a later step failed.
        self._deadline = Deadline(shared.leases, shared.shutdown)

    def run(self) -> bool:
        """Start, wait, and stop. Signals end it in the main thread; `stop()` in any thread.

        Returns:
            Whether every task has ended; if not, a thread still runs one.
        """
        with self._requests.on_signals(*SIGNALS):
            autodiscover_modules("tasks")
            tune_interpreter()
            try:
                self._start()
                self._wait()
            finally:
                # Also after a failed start of a thread, or without free files: leases are handed
                # back.
                self._stop()
        self._requests.close()
        return not self._pipeline or self._pipeline.have_ended()

    @property
    def holds_something(self) -> bool:
        """Whether leases are left whose messages were neither settled nor handed back."""
        return len(self._leases) > 0

    @property
    def has_overrun(self) -> bool:
        """Whether a run exceeded its hard timeout, so that this process must end."""
        return self._shutdown.has_overrun

    @property
    def leaves_something(self) -> bool:
        """Whether it has drained the queue except rows that make statements fail."""
        return self._drain is not None and self._drain.leaves_something

    def snapshot(self) -> WorkerSnapshot:
        """Return its state and its counts. Any thread may call this at any time."""
        report = self._state.report()
        return WorkerSnapshot(
            reports=[report],
            runs=self._shared.tally.totals(),
            claims=report.claims,
            claimed=report.claimed,
            leases_lost=report.leases_lost,
        )

    def stop(self) -> None:
        """Request a stop with a grace period; a second call ends that. Any thread may call this."""
        self._requests.add()

    def retire(self, **reached: float) -> None:
        """Request that it claims no more and ends after its current runs. Any thread may call this.

        Args:
            reached: the reason: the number of `tasks` or `megabytes` that it has reached.
        """
        self._shutdown.retire(**reached)

    def _start(self) -> None:
        """Start the services when the tables exist; start none after a request to stop."""
        if not wait_until_migrated(
            self._config.database,
            self._main_session,
            self._requests,
            wellness=self._wellness,
        ):
            return
        if not self._parent:  # a parent warns once for all its processes
            with self._main_session.connected() as connection:
                warn_of_unseen(connection, self._config)
        if not self._pipeline:
            with self._main_session.connected() as connection:
                self._shared.registration.register(connection)
        signals.send(signals.worker_starting, type(self), channels=self._config.channels)
        for service in [*self._services, self._watchdog]:
            if not service.starts_when_needed:
                service.start()
        if self._pipeline:
            self._pipeline.start()
        elif self._shared.listens and self._shared.wakeups.duties:
            subscribe(self._config.database, self._listener)
        signals.send(signals.worker_started, type(self), channels=self._config.channels)

    def _in_order(self, further: Sequence[Service], began_at: float) -> list[Service]:
        """Return all services in the order of their start; they stop in reverse order."""
        config, shared, parent = self._config, self._shared, self._parent
        optional = (
            shared.wakeups.duties,
            Autoreload(self._requests, since=began_at) if config.reload else None,
            self._drain,
            Reporter(parent, self._state, shared.tally) if parent and config.metrics_port else None,
        )
        configured = [make(config.database) for make in config.services]
        others = [*filter(None, optional), *configured, *further]
        pipeline = self._pipeline.services if self._pipeline else []
        return [self._heartbeat, *pipeline[:-1], *others, *pipeline[-1:]]

    def _wait(self) -> None:
        most = self._config.max_memory
        if most and (has := memory()) > most:
            signals.send(
                signals.worker_too_large, type(self), pid=os.getpid(), megabytes=has, most=most
            )
        # Work at least `WORKS_FOR` before retiring for memory, or the worker only restarts.
        at_last = monotonic() + WORKS_FOR.total_seconds()
        began = monotonic()
        oldest = self._oldest()
        while not self._shutdown.is_due:
            self._requests.wait(LOOK)
            if most and monotonic() >= at_last and (has := memory()) > most:
                self.retire(megabytes=has)
            if (age := monotonic() - began) > oldest:
                self.retire(seconds=age)
            if (idle := self._idle_for()) > self._longest_idle():
                self.retire(**{"seconds without work": idle})
            if not self._watchdog.is_alive():
                # No other service watches the watchdog. Stop in order, as after a stuck service.
                signals.send(signals.worker_stuck, type(self), services=[self._watchdog.name])
                self.stop()

    def _oldest(self) -> float:
        """Return the maximum age in seconds, with jitter, so that not all processes end at once."""
        most = self._config.max_age
        return most.total_seconds() * random.uniform(0.9, 1) if most else inf  # noqa: S311

    def _longest_idle(self) -> float:
        most = self._config.max_idle
        return most.total_seconds() if most else inf

    def _idle_for(self) -> float:
        """Return the seconds without work, as seen once a second."""
        now = monotonic()
        if len(self._leases):
            self._busy_at = now
        found_at = self._pipeline.fetcher.found_at if self._pipeline else now
        return now - max(found_at, self._busy_at)

    def _stop(self) -> None:
        """Stop claiming, let runs end, write their ends, hand back the rest; heartbeat last."""
        self._until = self._grace_ends()
        signals.send(signals.worker_stopping, type(self), requests=self._requests.count)
        if self._parent and (self._shutdown.is_retiring or self.has_overrun):
            self._parent.say(RETIRING)
        if self._pipeline:
            self._settle_overrun(self._pipeline)
            self._hand_back_unbegun(self._pipeline)
            self._leases.note_stopping()
            self._let_run(self._pipeline)
            self._write_down(self._pipeline)
            self._give_up(self._pipeline)
        self._hurry(LAST_WORDS)
        self._listener.close()
        heartbeat, *others = self._services
        for services in (others[::-1], [heartbeat]):
            for service in services:
                service.stop()
            for service in services:
                service.stopped(LAST_WORDS / 4)
        self._hand_back_the_last()
        self._main_session.close()
        if not self._pipeline:  # otherwise, the fetcher closes it
            self._shared.wakeups.fetcher.close()
        signals.send(signals.worker_stopped, type(self), released=self._releaser.released)
        self._deadline.cancel()

    def _hand_back_unbegun(self, pipeline: Pipeline) -> None:
        """Hand back the messages that have not begun.

        If that fails, the settler retries it, and also for a message that is locked just now: a
        process that retires may go on for hours.
        """
        unbegun = pipeline.close(LAST_WORDS / 4)
        self._releaser.try_to_release(unbegun)
        for each in unbegun:
            if self._leases.has(each) and not each.lost:
                pipeline.settler.put(each, HandedBack())

    def _settle_overrun(self, pipeline: Pipeline) -> None:
        """Have the settler write the failures of runs that exceeded their hard timeout."""
        for leased, ending in self._shutdown.overran():
            self._releaser.end_transaction(leased)
            pipeline.settler.put(leased, ending)

    def _grace_ends(self) -> float:
        """Return the time until which runs may go on, and set the deadline of the process.

        A process that retires waits for its tasks without a limit: another process has its slot
        already.
        """
        is_asked = self._requests.count or self.has_overrun
        if self._shutdown.is_retiring and not is_asked:
            return inf
        self._hurry(self._config.grace + LAST_WORDS)
        return monotonic() + self._config.grace.total_seconds()

    def _hurry(self, left: timedelta) -> None:
        """End the process within this time at the latest; the watchdog no longer ends it."""
        self._watchdog.stop()
        self._deadline.shorten(left)

    def _has_time(self) -> bool:
        """Return whether the grace period goes on, without a second request to stop."""
        if self._until == inf:
            self._until = self._grace_ends()
        return monotonic() < self._until and self._requests.count < 2

    def _let_run(self, pipeline: Pipeline) -> None:
        """Wait for the runs, as long as there is time."""
        while self._has_time() and not self._have_ended(pipeline):
            self._settle_overrun(pipeline)
            self._rest(timedelta(milliseconds=5))
        self._settle_overrun(pipeline)

    def _rest(self, nap: timedelta) -> None:
        """Wait for a request to stop. Until there is one, tell that the process is well.

        The watchdog tells it before, but an overrun ends the watchdog.
        """
        is_alone = not self._watchdog.is_alive()
        if is_alone and not self._requests.count and monotonic() >= self._well_until:
            self._well_until = monotonic() + LOOK.total_seconds()
            self._wellness.say_well()
        self._requests.wait(nap)

    def _have_ended(self, pipeline: Pipeline) -> bool:
        """Return whether all runs have ended, except the stuck ones."""
        if pipeline.have_ended():
            return True
        return self.has_overrun and not self._not_stuck()

    def _write_down(self, pipeline: Pipeline) -> None:
        """Wait until the endings of runs are written, as long as there is time.

        They wait for the database, or for a transaction that has their messages locked. For one
        that a trigger or a constraint refuses, wait for a moment only.
        """
        if not self._has_time():
            self._hurry(LAST_WORDS)
        soon = monotonic() + (LAST_WORDS / 2).total_seconds()
        while not pipeline.settler.is_done() and monotonic() < soon:
            pipeline.settler.try_again()
            self._rest(timedelta(milliseconds=5))
        # A process that retires waits for the database without a limit. Beside a lock it has one:
        # others wait for its place.
        patience = max(self._config.grace, LAST_WORDS / 2).total_seconds()
        until = monotonic() + patience
        while pipeline.settler.is_waiting and self._has_time() and monotonic() < until:
            pipeline.settler.try_again()
            self._rest(AGAIN)
            if pipeline.settler.is_failing:
                until = monotonic() + patience
        self._hurry(LAST_WORDS)

    def _give_up(self, pipeline: Pipeline) -> None:
        """Hand back the messages that still run, and interrupt their runs if possible."""
        self._settle_overrun(pipeline)
        left = self._not_stuck()
        for each in left:
            each.given_up = True
        self._releaser.try_to_release(left)
        pipeline.cancel()

    def _not_stuck(self) -> list[LeasedMessage]:
        """Return the leased messages whose runs are not stuck: a stuck run has failed."""
        return [each for each in self._leases.all() if not self._shutdown.is_stuck(each)]

    def _hand_back_the_last(self) -> None:
        """Hand back the messages of a claim that was answered late, and messages locked before."""
        error = None
        try:
            self._releaser.release_last(self._not_stuck())
        except Exception as raised:
            error = raised
        if self.holds_something:
            left = len(self._leases)
            signals.send(signals.worker_cut_short, type(self), left=left, error=error)


def _heartbeat(shared: Shared, pipeline: Pipeline | None) -> Heartbeat:
    return Heartbeat(
        Session(shared.config.database, name="heartbeat"),
        shared.leases,
        shared.registration,
        shared.tally,
        pipeline,
        lease=settings().lease,
        every=settings().heartbeat,
        wakeup=shared.wakeups.heartbeat,
    )


def _drain(shared: Shared, pipeline: Pipeline | None) -> Drain:
    config = shared.config
    return Drain(Session(config.database, name="drain"), config, shared.shutdown, pipeline)
