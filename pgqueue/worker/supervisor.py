"""The life of a worker: start the services, wait to be stopped, stop them."""

from __future__ import annotations

import os
import platform
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from time import monotonic

from django.utils.module_loading import autodiscover_modules

import pgqueue
from pgqueue import signals
from pgqueue.claiming.presence import Presence
from pgqueue.conf import settings
from pgqueue.connections import Session, is_pooled
from pgqueue.engine import lease, notifications, settle, workers
from pgqueue.engine.workers import Registration
from pgqueue.listener import Listener
from pgqueue.service import Service
from pgqueue.worker.buffer import Buffer
from pgqueue.worker.duties.expire import Expire
from pgqueue.worker.duties.forget import Forget
from pgqueue.worker.duties.lanes import Lanes
from pgqueue.worker.duties.partitions import Partitions
from pgqueue.worker.duties.promote import Promote
from pgqueue.worker.duties.rescue import Rescue
from pgqueue.worker.duties.service import Duties
from pgqueue.worker.fetcher import Fetcher
from pgqueue.worker.handlers import Handlers
from pgqueue.worker.heartbeat import Heartbeat
from pgqueue.worker.held import Held, Holding
from pgqueue.worker.runner import Runner
from pgqueue.worker.settler import Settler
from pgqueue.worker.stopping import StopRequests
from pgqueue.worker.threads import Threads
from pgqueue.worker.timeouts import Timeouts

POLL_ONLY_INTERVAL = timedelta(seconds=0.5)
LOOK_WHETHER_DRAINED = timedelta(seconds=0.2)
LOOK = timedelta(seconds=1)
# What is left to do after the grace period must be done within Kubernetes' 30 s.
LAST_WORDS = timedelta(seconds=4)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a worker is asked to do; the defaults are those of `PGQUEUE`.

    Args:
        channels: the ones it serves; None: all, also those yet to come.
        excluded: ones it does not serve.
        drain: stop when nothing is ready, running or waiting for a retry.
        poll_only: don't listen. Chosen by itself behind a transaction pooler.
    """

    database: str
    channels: Sequence[str] | None = None
    excluded: Sequence[str] = ()
    threads: int
    grace: timedelta
    drain: bool = False
    poll_only: bool = False


class Worker:
    """Runs tasks until it is asked to stop, or nothing is left where it was to drain."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._requests = StopRequests()
        self._holding = Holding()
        self._released = 0
        options = settings()

        self._home = Session(plan.database, name="supervisor")
        listens = not plan.poll_only and not is_pooled(self._home.connection)
        interval = options.poll_interval if listens else POLL_ONLY_INTERVAL

        self._presence = Presence(self._register(), notify_for=2 * options.heartbeat)
        self._heartbeat = Heartbeat(
            Session(plan.database, name="heartbeat"),
            self._holding,
            self._presence,
            lease=options.lease,
            every=options.heartbeat,
        )
        self._timeouts = Timeouts()
        self._duties = Duties(
            Session(plan.database, name="duties"),
            [
                Promote(on_ready=self._wake_fetcher),
                Rescue(lease=options.lease, max_lost=options.max_lost, on_ready=self._wake_fetcher),
                Expire(),
                Lanes(),
                Partitions(),
                Forget(),
            ],
        )
        self._settler = Settler(
            Session(plan.database, name="settler"),
            self._holding,
            on_settled=self._make_room,
            on_delayed=self._duties.look_early,
        )
        self._buffer = Buffer(on_low=self._make_room)
        self._threads = Threads(
            plan.threads,
            self._buffer,
            run=Runner(plan.database, self._timeouts, Handlers(plan.database)).run,
            ended=self._settler.put,
        )
        self._listener = (
            Listener(
                Session(plan.database, name="listener"),
                listen=notifications.listen,
                heard=self._hear,
            )
            if listens
            else None
        )
        self._fetcher = Fetcher(
            Session(plan.database, name="fetcher"),
            self._buffer,
            self._holding,
            self._presence,
            channels=plan.channels,
            excluded=plan.excluded,
            threads=plan.threads,
            lease=options.lease,
            poll_interval=interval,
            is_listening=self._is_listening,
        )

    def run(self) -> bool:
        """Live: start, wait, stop. Call it in the main thread, which gets the signals.

        Returns:
            Whether every task ended; if not, its thread is still at it.
        """
        with self._requests.on_signals(signal.SIGTERM, signal.SIGINT):
            self._start()
            self._wait()
            self._stop()
        self._requests.close()
        return self._threads.stopped(timedelta())

    def stop(self) -> None:
        """Ask it to stop, gently at first, at once when asked again. Any thread may."""
        self._requests.add()

    def _start(self) -> None:
        autodiscover_modules("tasks")
        for service in self._services():
            service.start()
        self._threads.start()
        signals.worker_started.send_robust(type(self), channels=self._plan.channels)

    def _services(self) -> list[Service]:
        """Return the services in the order they start; they stop in the other."""
        hearing = [self._listener] if self._listener else []
        return [
            *[self._heartbeat, self._settler, self._timeouts, self._duties],
            *hearing,
            self._fetcher,
        ]

    def _wait(self) -> None:
        while not self._requests.count:
            if self._plan.drain and self._is_drained():
                return
            self._requests.wait(LOOK_WHETHER_DRAINED if self._plan.drain else LOOK)

    def _is_drained(self) -> bool:
        if not self._fetcher.is_idle or len(self._holding):
            return False
        return not workers.unfinished(
            self._home.connection, channels=self._plan.channels, excluded=self._plan.excluded
        )

    def _stop(self) -> None:
        """Claim no more, let run what runs, write it down, hand back the rest; heartbeat last."""
        self._fetcher.stop()
        self._fetcher.stopped(LAST_WORDS)
        self._hand_back(self._buffer.close())
        self._let_run()
        self._write_down()
        self._hand_back(self._holding.all())
        for service in reversed(self._services()):
            service.stop()
        for service in reversed(self._services()):
            service.stopped(LAST_WORDS / 4)
        self._home.close()
        signals.worker_stopped.send_robust(type(self), released=self._released)

    def _let_run(self) -> None:
        """Wait for what runs, for the grace period at most, or until asked to stop again."""
        until = monotonic() + self._plan.grace.total_seconds()
        while monotonic() < until and self._requests.count < 2:
            if self._threads.stopped(timedelta()):
                return
            self._requests.wait(timedelta(milliseconds=20))

    def _write_down(self) -> None:
        until = monotonic() + LAST_WORDS.total_seconds()
        while not self._settler.is_done() and monotonic() < until:
            self._settler.wake()
            self._requests.wait(timedelta(milliseconds=5))

    def _hand_back(self, held: Sequence[Held]) -> None:
        """Release what is not going to end here; what ends all the same is fenced off.

        What somebody else has locked goes on being held: it may be let go later.
        """
        if not held:
            return
        claims = [each.claim for each in held]
        try:
            released = settle.release(self._home.connection, claims)
            locked = lease.held(self._home.connection, claims)
        except Exception as error:
            # The leases run out instead.
            signals.service_failed.send_robust(type(self), service="worker", error=error)
            return
        self._released += len(released)
        for each in held:
            if each.claim.id not in locked:
                each.lost = True
                self._holding.drop(each)

    def _hear(self, notification: str | None) -> None:
        if notification == notifications.DUE_EARLIER:
            self._duties.look_early()
        elif notification is None or self._serves(notification):
            self._fetcher.wake()

    def _serves(self, channel: str) -> bool:
        channels = self._plan.channels
        return (channels is None or channel in channels) and channel not in self._plan.excluded

    def _is_listening(self) -> bool:
        return self._listener is not None and self._listener.is_listening

    def _wake_fetcher(self) -> None:
        self._fetcher.wake()

    def _make_room(self) -> None:
        self._fetcher.make_room()

    def _register(self) -> Registration:
        return Registration(
            host=platform.node(),
            pid=os.getpid(),
            started_at=datetime.now(UTC),
            channels=self._plan.channels,
            excluded=self._plan.excluded,
            info={"threads": self._plan.threads, "version": pgqueue.__version__},
        )
