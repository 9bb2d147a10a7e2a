"""The life of a worker's process: start the services, wait for a request, stop the services."""

from __future__ import annotations

import os
import platform
import random
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import inf
from time import monotonic, time
from typing import Any

from django.utils.module_loading import autodiscover_modules

from pgqueue import signals
from pgqueue.calls.outcomes import Ending, HandedBack
from pgqueue.claiming.registration import Registration, WorkerIds
from pgqueue.claiming.run_counts import Tally
from pgqueue.conf import settings
from pgqueue.database.connections import Session
from pgqueue.database.transactions import is_pooled
from pgqueue.duties.all import all_duties
from pgqueue.duties.service import Duties
from pgqueue.engine import lease, notifications, settle
from pgqueue.engine.workers import WorkerInfo, versions
from pgqueue.events import subscribing
from pgqueue.tasks import scheduling
from pgqueue.threads.listener import Topic, TopicListener, subscribe
from pgqueue.threads.service import Service
from pgqueue.worker import interpreter
from pgqueue.worker.autoreload import Autoreload
from pgqueue.worker.config import WorkerConfig
from pgqueue.worker.deadline import Deadline
from pgqueue.worker.drain import Drain
from pgqueue.worker.heartbeat import Heartbeat
from pgqueue.worker.leases import LeasedMessage, Leases
from pgqueue.worker.main_session import MainSession
from pgqueue.worker.migrations import wait_until_migrated
from pgqueue.worker.parent import RETIRING, WELL, Superior
from pgqueue.worker.pipeline import Pipeline
from pgqueue.worker.recycling import memory
from pgqueue.worker.report import ProcessReport, Reporter, WorkerSnapshot
from pgqueue.worker.stopping import SIGNALS, StopRequests
from pgqueue.worker.unknown_channels import warn_of_unseen
from pgqueue.worker.watchdog import Watchdog, touch

NEW_MESSAGES = Topic(notifications.NEW)
LOOK = timedelta(seconds=1)
WORKS_FOR = timedelta(seconds=5)
"""The shortest time that a process works before it retires for its size."""
AGAIN = timedelta(seconds=0.25)
# With the grace period, the rest of the stop must fit into Kubernetes' 30 s.
LAST_WORDS = timedelta(seconds=4)


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
        self._told = told or {}
        self._requests = StopRequests(parent)
        self._is_retiring = False
        self._is_drained = False
        self._overran: deque[tuple[LeasedMessage, Ending]] = deque()
        self._stuck: set[LeasedMessage] = set()
        self.has_overrun = False
        """Whether a run exceeded its hard timeout, so that this process must end."""
        self._leases = Leases()
        self._released = 0
        self._until = inf
        self._busy_at = monotonic()
        self._was_too_busy = False
        self._pipeline: Pipeline | None = None
        options = settings()

        self._main_session = MainSession(config.database)
        with self._main_session.connected() as connection:
            listens = not config.poll_only and not is_pooled(connection)
        self._registration = Registration(
            self._info(), notify_for=2 * options.heartbeat, ids=ids, busy_for=self._busy_for
        )
        self._tally = tally = Tally()
        self._heartbeat = Heartbeat(
            Session(config.database, name="heartbeat"),
            self._leases,
            self._registration,
            tally,
            lease=options.lease,
            every=options.heartbeat,
        )
        self._duties = (
            Duties(
                Session(config.database, name="duties"),
                all_duties(
                    database=config.database, scheduling=scheduling, subscribing=subscribing
                ),
                lease=options.lease,
                on_done=self._wake_pipeline,
            )
            if config.duties
            else None
        )
        self._others = [*(make(config.database) for make in config.services), *services]
        self._pipeline = (
            Pipeline(
                config,
                self._leases,
                self._registration,
                tally,
                listens=listens,
                on_delayed=self._look_early,
                on_used_up=lambda: self.retire(tasks=config.max_tasks or 0),
                on_overrun=self._overrun,
            )
            if config.slots
            else None
        )
        # For messages that are due earlier. If there is a fetcher, the fetcher listens.
        self._subscription = (
            TopicListener(topic=NEW_MESSAGES, heard=self._hear)
            if listens and self._duties and not self._pipeline
            else None
        )
        self._autoreload = (
            Autoreload(self.stop, since=began_at or time()) if config.reload else None
        )
        self._drain = (
            Drain(
                Session(config.database, name="drain"),
                config,
                is_busy=self._is_busy,
                on_drained=self._end_drained,
            )
            if config.drain
            else None
        )
        self._reporter = (
            Reporter(parent, self._report, tally.totals) if parent and config.metrics_port else None
        )
        self._watchdog = Watchdog(
            [
                *self._services(),
                *([self._subscription] if self._subscription else []),
                self._main_session,
                *(self._pipeline.executors if self._pipeline else []),
            ],
            on_well=self._say_that_one_is_well,
        )
        # Last: its thread would go on if a later step failed.
        self._deadline = Deadline(self._leases, self._time_left)

    def run(self) -> bool:
        """Start, wait, and stop. Signals end it in the main thread; `stop()` in any thread.

        Returns:
            Whether every task has ended; if not, a thread still runs one.
        """
        with self._requests.on_signals(*SIGNALS):
            autodiscover_modules("tasks")
            interpreter.set_up()
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
    def leaves_something(self) -> bool:
        """Whether it has drained the queue except rows that make statements fail."""
        return self._drain is not None and self._drain.leaves_something

    def snapshot(self) -> WorkerSnapshot:
        """Return its state and its counts. Any thread may call this at any time."""
        report = self._report()
        return WorkerSnapshot(
            reports=[report],
            runs=self._tally.totals(),
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
        if not self._is_retiring:
            self._is_retiring = True
            signals.send(signals.worker_retiring, type(self), pid=os.getpid(), reached=reached)
            self._requests.wake()

    def _overrun(self, leased: LeasedMessage, ending: Ending) -> None:
        """End the process, since a run exceeded its hard timeout. Any thread may call this."""
        if leased.given_up:
            return  # it was handed back just now
        leased.given_up = True  # the run has failed, even if it still ends by itself
        # In this order: the main thread waits for the runs that are not in `_stuck`.
        self._overran.append((leased, ending))
        self._stuck.add(leased)
        self.has_overrun = True
        self._requests.wake()

    def _start(self) -> None:
        """Start the services when the tables exist; start none after a request to stop."""
        if not wait_until_migrated(
            self._config.database,
            self._main_session,
            self._requests,
            on_look=self._say_that_one_is_well,
        ):
            return
        if not self._parent:  # a parent warns once for all its processes
            with self._main_session.connected() as connection:
                warn_of_unseen(connection, self._config)
        if not self._pipeline:
            with self._main_session.connected() as connection:
                self._registration.register(connection)
        signals.send(signals.worker_starting, type(self), channels=self._config.channels)
        for service in [*self._services(), self._watchdog]:
            service.start()
        if self._subscription:
            subscribe(self._config.database, self._subscription)
        if self._pipeline:
            self._pipeline.start()
        signals.send(signals.worker_started, type(self), channels=self._config.channels)

    def _services(self) -> list[Service]:
        """Return the services in the order of their start; they stop in reverse order."""
        pipeline = self._pipeline.services if self._pipeline else []
        others = [
            *(self._duties, self._autoreload, self._drain, self._reporter),
            *self._others,
        ]
        return [self._heartbeat, *pipeline[:-1], *filter(None, others), *pipeline[-1:]]

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
        while not self._is_to_end():
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

    def _is_to_end(self) -> bool:
        return bool(
            self._requests.count or self._is_retiring or self._is_drained or self.has_overrun
        )

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

    def _is_busy(self) -> bool:
        return bool(self._pipeline and (not self._pipeline.fetcher.is_idle or len(self._leases)))

    def _end_drained(self) -> None:
        self._is_drained = True
        self._requests.wake()

    def _stop(self) -> None:
        """Stop claiming, let runs end, write their ends, hand back the rest; heartbeat last."""
        self._until = self._grace_ends()
        signals.send(signals.worker_stopping, type(self), requests=self._requests.count)
        if self._parent and (self._is_retiring or self.has_overrun):
            self._parent.say(RETIRING)
        if self._pipeline:
            self._settle_overrun(self._pipeline)
            self._hand_back_unbegun(self._pipeline)
            self._let_run(self._pipeline)
            self._write_down(self._pipeline)
            self._give_up(self._pipeline)
        self._hurry(LAST_WORDS)
        if self._subscription:
            self._subscription.close()
        heartbeat, *others = self._services()
        for services in (others[::-1], [heartbeat]):
            for service in services:
                service.stop()
            for service in services:
                service.stopped(LAST_WORDS / 4)
        self._hand_back_the_last()
        self._main_session.close()
        signals.send(signals.worker_stopped, type(self), released=self._released)
        self._deadline.cancel()

    def _hand_back_unbegun(self, pipeline: Pipeline) -> None:
        """Hand back the messages that have not begun. If that fails, the settler retries it."""
        unbegun = pipeline.close(LAST_WORDS / 4)
        if not self._try_to_hand_back(unbegun):
            for each in unbegun:
                if not each.lost:
                    pipeline.settler.put(each, HandedBack())

    def _settle_overrun(self, pipeline: Pipeline) -> None:
        """Have the settler write the failures of runs that exceeded their hard timeout."""
        while self._overran:
            leased, ending = self._overran.popleft()
            try:
                # A run in a transaction has its own row locked.
                if leased.lock:
                    with self._main_session.connected() as connection:
                        lease.let_go(connection, [leased.lock])
            except Exception as error:
                signals.send(signals.service_failed, type(self), service="worker", error=error)
            pipeline.settler.put(leased, ending)

    def _grace_ends(self) -> float:
        """Return the time until which runs may go on, and set the deadline of the process.

        A process that retires waits for its tasks without a limit: another process has its slot
        already.
        """
        if self._is_retiring and not (self._requests.count or self.has_overrun):
            return inf
        self._hurry(self._config.grace + LAST_WORDS)
        return monotonic() + self._config.grace.total_seconds()

    def _time_left(self) -> timedelta | None:
        """Return the time left by the number of requests to stop; None: no limit.

        The deadline polls this: the main thread may be waiting for the database.
        """
        if self._requests.count > 1:
            return LAST_WORDS
        return self._config.grace + LAST_WORDS if self._requests.count else None

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
            self._requests.wait(timedelta(milliseconds=20))
        self._settle_overrun(pipeline)

    def _have_ended(self, pipeline: Pipeline) -> bool:
        """Return whether all runs have ended, except the stuck ones."""
        if pipeline.have_ended():
            return True
        left = (each for each in self._leases.all() if each not in self._stuck)
        return self.has_overrun and not any(left)

    def _write_down(self, pipeline: Pipeline) -> None:
        """Wait until the endings of runs are written: for a moment, for example for a locked row.

        If the database is slow or away, wait as long as there is time.
        """
        if not self._has_time():
            self._hurry(LAST_WORDS)
        soon = monotonic() + (LAST_WORDS / 2).total_seconds()
        while not pipeline.settler.is_done() and monotonic() < soon:
            pipeline.settler.try_again()
            self._requests.wait(timedelta(milliseconds=5))
        while pipeline.settler.is_behind and self._has_time():
            pipeline.settler.try_again()
            self._requests.wait(AGAIN)
        self._hurry(LAST_WORDS)

    def _give_up(self, pipeline: Pipeline) -> None:
        """Hand back the messages that still run, and interrupt their runs if possible."""
        self._settle_overrun(pipeline)
        # Stuck runs are not handed back: they have failed.
        left = [each for each in self._leases.all() if each not in self._stuck]
        for each in left:
            each.given_up = True
        self._try_to_hand_back(left)
        pipeline.cancel()

    def _hand_back_the_last(self) -> None:
        """Hand back the messages of a claim that was answered late, and messages locked before."""
        error = None
        try:
            if last := [each for each in self._leases.all() if each not in self._stuck]:
                self._hand_back(last)
                with self._main_session.connected() as connection:
                    self._tally.close(connection)  # the heartbeat has stored the earlier counts
        except Exception as raised:
            error = raised
        if self.holds_something:
            left = len(self._leases)
            signals.send(signals.worker_cut_short, type(self), left=left, error=error)

    def _try_to_hand_back(self, leased: Sequence[LeasedMessage]) -> bool:
        """Release messages whose runs will not end here; return False if the database was away.

        A failed release is retried later.
        """
        try:
            self._hand_back(leased)
        except Exception as error:
            signals.send(signals.service_failed, type(self), service="worker", error=error)
            return False
        return True

    def _hand_back(self, leased: Sequence[LeasedMessage]) -> None:
        """Release messages whose runs will not end here. The fence stops runs that still end.

        A message that another transaction has locked stays leased, and may be handed back later.

        Raises:
            psycopg.Error: the statement failed.
        """
        if not leased:
            return
        claims = [each.claim for each in leased]
        with self._main_session.connected() as connection:
            # A run in a transaction has its own row locked.
            if locks := [each.lock for each in leased if each.given_up and each.lock]:
                lease.let_go(connection, locks)
            released = settle.release(connection, claims)
            self._released += len(released)
            self._tally.add_released(
                each.claim for each in leased if each.given_up and each.claim.id in released
            )
            self._drop(each for each in leased if each.claim.id in released)
            locked = lease.valid(connection, claims)
        self._drop(each for each in leased if each.claim.id not in locked)

    def _drop(self, leased: Iterable[LeasedMessage]) -> None:
        for each in leased:
            each.lost = True
            self._leases.drop(each)

    def _report(self) -> ProcessReport:
        report = ProcessReport(
            slots=self._config.slots,
            silence=self._heartbeat.silence,
            stuck=[self._watchdog.name] if self._watchdog.is_stuck else self._watchdog.stuck,
            at=monotonic(),
        )
        if not (pipeline := self._pipeline):
            return report
        return replace(
            report,
            running=pipeline.running,
            busy_for=pipeline.busy_for(),
            is_too_busy=self._is_too_busy(),
            buffered=pipeline.buffered,
            unsettled=pipeline.settler.unsettled,
            claims=pipeline.fetcher.claims,
            claimed=pipeline.fetcher.claimed,
            leases_lost=pipeline.settler.leases_lost,
        )

    def _busy_for(self) -> float:
        return self._pipeline.busy_for() if self._pipeline else 0.0

    def _is_too_busy(self) -> bool:
        most = self._config.max_busy
        return most is not None and self._busy_for() > most.total_seconds()

    def _say_that_one_is_well(self) -> None:
        was_too_busy, self._was_too_busy = self._was_too_busy, self._is_too_busy()
        if self._was_too_busy:
            if not was_too_busy:
                signals.send(signals.worker_occupied, type(self), seconds=self._busy_for())
            return
        if self._parent:
            self._parent.say(WELL)
        if self._config.liveness_file:
            touch(self._config.liveness_file, sender=type(self))

    def _hear(self, notification: str | None) -> None:
        if notification in (notifications.DUE_EARLIER, None):
            self._look_early()

    def _look_early(self) -> None:
        if self._duties:
            self._duties.look_early()

    def _wake_pipeline(self) -> None:
        if self._pipeline:
            self._pipeline.fetcher.wake()

    def _info(self) -> WorkerInfo:
        config = self._config
        return WorkerInfo(
            host=platform.node(),
            pid=os.getpid(),
            started_at=datetime.now(UTC),
            channels=config.channels if config.slots else [],
            excluded=config.excluded,
            info={
                "threads": config.threads,
                "async": config.coroutines,
                "duties": config.duties,
                **versions(),
                **self._told,
            },
        )
