"""The parts of a worker through which messages pass, from the claim to the settle."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from pgqueue.claiming.claimer import Claimer
from pgqueue.conf import settings
from pgqueue.database.connections import Session
from pgqueue.threads.service import Service
from pgqueue.worker.buffer import Buffer
from pgqueue.worker.collector import Collector
from pgqueue.worker.eventloop import EventLoop, LoopWatch
from pgqueue.worker.executor import Endings, Executor
from pgqueue.worker.fetcher import Fetcher
from pgqueue.worker.handlers import Handlers
from pgqueue.worker.leases import LeasedMessage
from pgqueue.worker.quarantine import Quarantine
from pgqueue.worker.run_logs import RunLogs
from pgqueue.worker.runner import Runner
from pgqueue.worker.settler import Settler
from pgqueue.worker.shared import Shared
from pgqueue.worker.shutdown import TaskLimit
from pgqueue.worker.step_recorder import StepRecorder
from pgqueue.worker.thread_or_loop import Sorting
from pgqueue.worker.threads import Threads, ThreadWaker
from pgqueue.worker.timeouts import CLEANING_UP, Timeouts


class Pipeline:
    """Builds the parts, the last one first: each part gets the one to which it hands messages."""

    def __init__(self, shared: Shared) -> None:
        config, wakeups = shared.config, shared.wakeups
        self._leases = shared.leases
        self.settler = Settler(
            Session(config.database, name="settler"), shared.leases, shared.tally, wakeups
        )
        self._timeouts = Timeouts()
        self._steps = StepRecorder(Session(config.database, name="steps"))
        runner = _runner(shared, self._timeouts, self.settler.logs, self._steps)
        for_threads = Buffer(
            config.threads,
            wakeups.fetcher,
            # With an event loop beside: a full buffer of one kind must not stop the claiming of the
            # other kind at once.
            least=config.threads if config.coroutines else 0,
        )
        for_loop = Buffer(config.coroutines, wakeups.fetcher, least=config.coroutines)
        self._buffer = Collector(
            Sorting(for_threads, for_loop) if config.coroutines else for_threads
        )
        endings: Endings = self.settler
        if config.max_tasks is not None:
            endings = TaskLimit(config.max_tasks, endings, self._buffer, shared.shutdown)
        self._thread_waker = ThreadWaker(for_threads)
        self._loop: EventLoop | None = None
        self._loop_watch: list[LoopWatch] = []
        self.executors: list[Executor] = [Threads(config.threads, for_threads, runner, endings)]
        if config.coroutines:
            self._loop = EventLoop(config.coroutines, for_loop, runner, endings)
            self._loop_watch.append(LoopWatch(self._loop))
            self.executors.append(self._loop)
        self.fetcher = _fetcher(shared, self._buffer, self.settler)

    @property
    def services(self) -> list[Service]:
        """The services, in the order of their start; they stop in reverse order."""
        beside = (self._timeouts, self._thread_waker, *self._loop_watch)
        return [self.settler, self._steps, *beside, self.fetcher]

    @property
    def running(self) -> int:
        """The number of tasks that run."""
        return self._buffer.running

    @property
    def buffered(self) -> int:
        """The number of messages that wait for their turn."""
        return len(self._buffer)

    @property
    def is_busy(self) -> bool:
        """Whether the last claim found messages, or some are leased."""
        return not self.fetcher.is_idle or len(self._leases) > 0

    def busy_for(self) -> float:
        """Return the seconds for which no thread, or no slot of the event loop, has been free."""
        return max(
            *(each.busy_for() for each in self.executors),
            # One run on an event loop may block all others there.
            *(each.blocked_for for each in self._loop_watch),
            0.0,
        )

    def start(self) -> None:
        """Start the executors. The fetcher is a service, which is started separately."""
        for each in self.executors:
            each.start()

    def close(self, patience: timedelta) -> Sequence[LeasedMessage]:
        """Stop claiming; return the claimed messages whose runs have not begun."""
        self.fetcher.stop()
        self.fetcher.stopped(patience)
        return self._buffer.close()

    def have_ended(self) -> bool:
        """Return whether all runs have ended after the close."""
        return all(each.stopped(timedelta()) for each in self.executors)

    def cancel(self) -> None:
        """Interrupt the runs on the event loop."""
        if self._loop:
            self._loop.cancel()


def _runner(shared: Shared, timeouts: Timeouts, logs: RunLogs, steps: StepRecorder) -> Runner:
    alias = shared.config.database
    return Runner(
        alias,
        timeouts,
        Handlers(alias),
        Quarantine(alias, shared.leases, max_lost=settings().max_lost),
        shared.tally,
        grace=max(shared.config.grace, timedelta(seconds=CLEANING_UP)),
        shutdown=shared.shutdown,
        logs=logs,
        steps=steps,
    )


def _fetcher(shared: Shared, buffer: Collector, settler: Settler) -> Fetcher:
    config, options = shared.config, settings()
    claimer = Claimer(
        Session(config.database, name="fetcher"),
        shared.registration,
        channels=config.channels,
        excluded=config.excluded,
        lease=options.lease,
        takes_raw=False,
        is_overtaken=shared.wakeups.fetcher.is_set,
    )
    return Fetcher(
        claimer,
        buffer,
        shared.leases,
        settler,
        shared.wakeups,
        slots=config.slots,
        poll_interval=options.poll_interval,
        listens=shared.listens,
    )
