"""The parts of a worker through which messages pass, from the claim to the settle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

from pgqueue.calls.outcomes import Ending, HandedBack
from pgqueue.claiming.claimer import Claimer
from pgqueue.claiming.registration import Registration
from pgqueue.claiming.run_counts import Tally
from pgqueue.conf import settings
from pgqueue.database.connections import Session
from pgqueue.threads.service import Service
from pgqueue.worker.buffer import Buffer
from pgqueue.worker.config import WorkerConfig
from pgqueue.worker.eventloop import EventLoop
from pgqueue.worker.executor import Executor
from pgqueue.worker.fetcher import Fetcher
from pgqueue.worker.handlers import Handlers
from pgqueue.worker.leases import LeasedMessage, Leases
from pgqueue.worker.loop_watch import LoopWatch
from pgqueue.worker.occupied import Occupied
from pgqueue.worker.quarantine import Quarantine
from pgqueue.worker.recycling import TaskLimit
from pgqueue.worker.runner import Runner
from pgqueue.worker.settler import Settler
from pgqueue.worker.thread_or_loop import Sorting
from pgqueue.worker.thread_waker import ThreadWaker
from pgqueue.worker.threads import Threads
from pgqueue.worker.timeouts import CLEANING_UP, Timeouts


class Pipeline:
    """Builds the parts. Each part passes a message to the next.

    Args:
        leases: the messages that this worker has leased; other services read it, too.
        tally: counts the endings of runs.
        listens: whether the fetcher listens for new messages.
        on_delayed: called when a message has got a later due time, here or elsewhere.
        on_used_up: called when `max_tasks` tasks have run.
        on_overrun: called with a run that exceeded its hard timeout, and with its ending.
    """

    def __init__(
        self,
        config: WorkerConfig,
        leases: Leases,
        registration: Registration,
        tally: Tally,
        *,
        listens: bool,
        on_delayed: Callable[[], None],
        on_used_up: Callable[[], None],
        on_overrun: Callable[[LeasedMessage, Ending], None],
    ) -> None:
        options = settings()
        self._on_used_up = on_used_up
        self.timeouts = Timeouts()
        self.settler = Settler(
            Session(config.database, name="settler"),
            leases,
            tally,
            on_settled=self._make_room,
            on_delayed=on_delayed,
            # Fast chains make a worker withdraw its wish for notifications, so wake the fetcher.
            on_member_ended=lambda: self.fetcher.wake(),
            on_connected=self._make_room,
        )
        runner = Runner(
            config.database,
            self.timeouts,
            Handlers(config.database),
            Quarantine(config.database, leases, max_lost=options.max_lost),
            tally,
            grace=max(config.grace, timedelta(seconds=CLEANING_UP)),
            on_overrun=on_overrun,
        )
        ended = TaskLimit.of(config.max_tasks, self.settler.put, on_reached=self._finish)

        for_threads = Buffer(
            config.threads,
            # With an event loop beside: a full buffer of one kind must not stop the claiming of the
            # other kind at once.
            least=config.threads if config.coroutines else 0,
            on_low=self._make_room,
            on_put=lambda: self._thread_waker.wake(),
        )
        self._thread_waker = ThreadWaker(for_threads)
        self._buffer: Buffer | Sorting = for_threads
        self._occupied = [Occupied(config.threads, for_threads)]
        self.executors: list[Executor] = [
            Threads(config.threads, for_threads, run=runner.run, ended=ended)
        ]
        self._loop: EventLoop | None = None
        self._loop_watch: list[LoopWatch] = []
        if config.coroutines:
            for_loop = Buffer(config.coroutines, least=config.coroutines, on_low=self._make_room)
            self._buffer = Sorting(for_threads, for_loop)
            self._loop = EventLoop(config.coroutines, for_loop, runner, ended=ended)
            self.executors.append(self._loop)
            watch = LoopWatch(self._loop)
            self._loop_watch.append(watch)
            self._occupied.append(
                Occupied(config.coroutines, for_loop, blocked_for=lambda: watch.blocked_for)
            )

        self.fetcher = Fetcher(
            Claimer(
                Session(config.database, name="fetcher"),
                registration,
                channels=config.channels,
                excluded=config.excluded,
                lease=options.lease,
                takes_raw=False,
            ),
            self._buffer,
            leases,
            slots=config.slots,
            poll_interval=options.poll_interval,
            listens=listens,
            give_back=lambda leased: self.settler.put(leased, HandedBack()),
            on_due_earlier=on_delayed,
            # Otherwise, at a connection limit of the role, unwritten results would pile up.
            may_claim=lambda: self.settler.is_connected,
        )

    @property
    def services(self) -> list[Service]:
        """The services, in the order of their start; they stop in reverse order."""
        return [self.settler, self.timeouts, self._thread_waker, *self._loop_watch, self.fetcher]

    @property
    def running(self) -> int:
        """The number of tasks that run."""
        return self._buffer.running

    @property
    def buffered(self) -> int:
        """The number of messages that wait for their turn."""
        return len(self._buffer)

    def busy_for(self) -> float:
        """Return the seconds for which no thread, or no slot of the event loop, has been free."""
        return max(each.seconds() for each in self._occupied)

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

    def _finish(self) -> None:
        # At once: until the main thread notices, many more runs might begin.
        self._buffer.shut()
        self._on_used_up()

    def _make_room(self) -> None:
        self.fetcher.make_room()
