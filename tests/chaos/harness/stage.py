"""A scenario: a server, those who use it, a fault, and what is to be true afterwards."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from pgqueue.engine import route
from pgqueue.engine.cancel import cancel
from tests.chaos.harness import ledger
from tests.chaos.harness.ledger import Books
from tests.chaos.harness.processes import Process
from tests.chaos.harness.proxy import Proxy
from tests.chaos.harness.server import Server, nap, url
from tests.eventually import eventually
from tests.system import children, is_alive

SEED = os.environ.get("CHAOS_SEED") or str(random.randrange(1_000_000))

ONCE = """
SELECT coalesce(bool_and(attempt = 1 AND lost = 0 AND failures = 0), false)
FROM pgqueue_history WHERE task = 'tests.chaos.tasks.stops_midway'
"""

HELD = """
SELECT clock_timestamp(), array_agg(m.id), array_agg(m.attempt)
FROM pgqueue_message m JOIN pgqueue_worker w ON w.id = m.worker_id
WHERE w.pid = %s AND m.state = 'running'
HAVING count(*) > 0
"""
AGAIN = """
SELECT extract(epoch FROM max(h.claimed_at) - %s)
FROM pgqueue_history h JOIN unnest(%s::bigint[], %s::int[]) AS held (id, attempt) USING (id)
WHERE h.attempt = held.attempt + 1
"""


@dataclass
class Recovery:
    """How long it took from the end of a scenario's faults to the first settle after each.

    Attributes:
        again: how long after a worker was killed the last of what it had ran again.
    """

    scenario: str
    seconds: list[float] = field(default_factory=list)
    again: list[float] = field(default_factory=list)
    came_to: str = ""


class Stage:
    """Everybody who takes part in a scenario. `end()` closes the books.

    Args:
        folder: for what its processes say.
    """

    def __init__(self, server: Server, folder: Path, name: str) -> None:
        self.server = server
        self.folder = folder
        self.books = Books()
        self.recovery = Recovery(name)
        self.random = random.Random(f"{SEED} {name}")
        self.workers: list[Process] = []
        self.others: list[Process] = []
        self.complaints: list[str] = []
        self.environment: dict[str, str] = {}
        """What all its processes are told from then on."""
        self._producers: list[Process] = []
        self._proxies: list[Proxy] = []
        self._dead: set[Process] = set()
        self._taken_away: list[tuple[datetime, list[int], list[int]]] = []
        self._has_killed_a_producer = False
        self._next = 1

    # Who takes part.

    def proxy(self) -> Proxy:
        """Return a proxy in front of the server."""
        proxy = Proxy(self.server.port)
        self._proxies.append(proxy)
        proxy.start()
        return proxy

    def worker(
        self,
        *arguments: str,
        port: int | None = None,
        root: Path | None = None,
        clock: float = 0,
        serves: Callable[[Process], bool] = lambda worker: "Serving" in worker.log,
        within: float = 30,
        **environment: str,
    ) -> Process:
        """Start a worker, and return when it serves.

        Args:
            root: the checkout that it is from.
            clock: how many seconds its own is fast.
            serves: tells whether it does.
            within: seconds that it may take.
        """
        name = f"worker-{len(self.workers)}"

        command = [*_with_clock(clock, "manage"), "runworker", *arguments]
        worker = self._process(name, command, port, environment, root)
        self.workers.append(worker)
        eventually(
            lambda: serves(worker) or not worker.is_alive,
            within=within,
            what="the worker serves",
        )
        assert worker.is_alive, worker.log
        return worker

    def producer(
        self,
        *,
        rate: float = 100,
        port: int | None = None,
        also: str = "",
        root: Path | None = None,
        clock: float = 0,
    ) -> Process:
        """Start a producer that enqueues about so many messages a second until `end()`.

        Args:
            also: kinds of messages that it enqueues besides, with spaces between them.
            root: the checkout that it is from.
            clock: how many seconds its own is fast.
        """
        number = len(self._producers) + 1
        program = _with_clock(clock, "tests.chaos.producer")
        arguments = [*program, str(number), str(rate), SEED, *also.split()]
        producer = self._process(f"producer-{number}", arguments, port, {}, root)
        self._producers.append(producer)
        eventually(lambda: "came" in "".join(producer.output), within=30, what="it produces")
        return producer

    def flows(self, *, port: int | None = None) -> Process:
        """Start to store flows of a thousand members, one after another, until `end()`."""
        number = len(self._producers) + 1
        program = ["-m", "tests.chaos.flows", str(number), SEED]
        storing = self._process(f"flows-{number}", program, port, {}, None)
        self._producers.append(storing)
        eventually(lambda: "came" in "".join(storing.output), within=30, what="it stores flows")
        return storing

    def load(self) -> None:
        """Have producers, and a worker that leaves the channel `aside` to others."""
        for _ in range(2):
            self.producer(rate=40)
        self.worker("--exclude", "aside")

    def consumer(self, *, port: int | None = None) -> Process:
        """Start a consumer that receives what is on the channel `pulled`, until `end()`."""
        name = f"consumer-{len(self.others)}"
        return self._other(name, "consumer", f"{SEED} {name}", port=port)

    def operator(self, *, port: int | None = None, rest: float = 0) -> Process:
        """Start an operator that does all that there is to do, until `end()`.

        Args:
            rest: seconds between two verbs.
        """
        return self._other("operator", "operator", str(rest), port=port)

    def _other(self, name: str, module: str, *arguments: str, port: int | None) -> Process:
        command = ["-m", f"tests.chaos.{module}", *arguments]
        self.others.append(self._process(name, command, port, {}, None))
        return self.others[-1]

    def _process(
        self,
        name: str,
        arguments: list[str],
        port: int | None,
        environment: Mapping[str, str],
        root: Path | None,
    ) -> Process:
        known = {
            "DJANGO_SETTINGS_MODULE": "tests.chaos.settings",
            "DATABASE_URL": url(port or self.server.port),
            **self.environment,
            **environment,
        }
        at = {} if root is None else {"root": root}
        return Process(name, *arguments, folder=self.folder, environment=known, **at)

    def numbers(self, kind: str, count: int) -> list[int]:
        """Enter messages in the books that the test itself enqueues; return their numbers."""
        numbers = list(range(self._next, self._next + count))
        self._next += count
        self.books.committed.update(dict.fromkeys(numbers, kind))
        return numbers

    def enqueue(
        self,
        task: str,
        *arguments: Any,
        channel: str = "default",
        key: str = "",
        max_attempts: int = 1000,
    ) -> int:
        """Enqueue a task of `tests.chaos.tasks` by SQL; return its message's id."""
        row = self.ask(
            "SELECT pgqueue_enqueue(%s, %s, channel => %s, key => %s, max_attempts => %s)",
            f"tests.chaos.tasks.{task}",
            Jsonb({"args": list(arguments), "kwargs": {}}),
            channel,
            key,
            max_attempts,
        )
        return int(row[0])

    def keep_busy(self, seconds: float, count: int = 3) -> None:
        """Have messages that run for so long, and return while they do. See `untouched`."""
        numbers = self.numbers("plain", count)
        for number in numbers:
            self.enqueue("stops_midway", number, str(self.folder), seconds)
        effects = [self.folder / f"{number} took effect" for number in numbers]
        eventually(lambda: all(effect.exists() for effect in effects), what="they run")

    def untouched(self) -> bool:
        """Whether all that `stops_midway` did so once, and nothing was charged to it."""
        return bool(self.ask(ONCE)[0])

    # What happens.

    @contextmanager
    def fault(self) -> Iterator[None]:
        """The block is a fault; measure how long it takes from its end to the next settle."""
        yield
        ended = datetime.now(UTC)
        began = time.monotonic()
        eventually(lambda: self._settled_since(ended), within=60, what="it goes on")
        self.recovery.seconds.append(time.monotonic() - began)

    def _settled_since(self, ended: datetime) -> bool:
        row = self.ask("SELECT max(finished_at) > %s FROM pgqueue_history", ended)
        return bool(row and row[0])

    def stop_amid(self, process: Process, is_amid: Callable[[], bool]) -> None:
        """Stop a process at a moment at which it is amid something."""

        def is_stopped() -> bool:
            process.signal(signal.SIGSTOP)
            if is_amid():
                return True
            process.signal(signal.SIGCONT)
            nap(self.random.uniform(0, 0.05))
            return False

        eventually(is_stopped)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """The block runs without any load: those who make it stand still meanwhile."""
        makers = [*self._producers, *(each for each in self.others if each.name == "operator")]
        for each in makers:
            each.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for each in makers:
                each.signal(signal.SIGCONT)

    def settles(self, count: int, *, within: float = 60) -> None:
        """Wait until so many more messages have ended."""
        before = self.settled()
        eventually(lambda: self.settled() >= before + count, within=within, what="it goes on")

    def serves(self, channel: str, *, within: float, key: str | None = None) -> None:
        """Wait until something that is claimed on this channel from now on has ended.

        Args:
            key: what it has to be of; None: any.
        """
        (now,) = self.ask("SELECT clock_timestamp()")
        query = (
            "SELECT count(*) FROM pgqueue_history "
            "WHERE channel = %s AND (key = %s) IS NOT FALSE AND claimed_at > %s"
        )
        eventually(
            lambda: (self.ask(query, channel, key, now) or (0,)) > (0,),
            within=within,
            what=f"the channel {channel} is served",
        )

    def settled(self) -> int:
        """Return how many messages have ended."""
        row = self.ask("SELECT count(*) FROM pgqueue_history")
        return int(row[0]) if row else 0

    def ask(self, query: str, *parameters: object) -> Any:
        """Return the first row of a query; None while the server is not there."""
        try:
            with self.server.connect() as connection:
                return connection.execute(query, parameters).fetchone()
        except psycopg.OperationalError:
            return None

    def kill(self, worker: Process) -> None:
        """Kill a worker, for good."""
        worker.kill()
        self._dead.add(worker)
        if held := self.ask(HELD, worker.pid):
            self._taken_away.append(held)

    def kill_processes(self, *arguments: str, port: int | None = None) -> None:
        """Start a worker of several processes, kill one after another, and at last the first."""
        worker = self.worker(*arguments, port=port)
        self.settles(50)
        for _ in range(4):
            nap(self.random.uniform(0.3, 1))
            with self.fault():
                os.kill(self.random.choice(self.serving(worker)), signal.SIGKILL)
            self.settles(50)
        with self.fault():
            self.kill(worker)  # whom the others then follow
            self.worker(*arguments, port=port)

    def serving(self, worker: Process) -> list[int]:
        """Return the pids of a worker's processes that serve by now."""
        alive = [pid for pid in children(worker.pid) if is_alive(pid)]
        row = self.ask("SELECT array_agg(pid) FROM pgqueue_worker WHERE pid = ANY (%s)", alive)
        return row[0] if row and row[0] else []

    def expect_dead(self, worker: Process) -> None:
        """Say that a worker is to be dead by now by what was done to it."""
        self._dead.add(worker)

    def retire(self, worker: Process) -> None:
        """Ask a worker to stop, for good, and wait until it has."""
        stop([worker])
        self._dead.add(worker)

    def replace_the_dead(self, **environment: str) -> None:
        """Start a worker for each that has died, as what it runs under does."""
        for worker in self.living():
            if not worker.is_alive:
                self.expect_dead(worker)
                self.worker(**environment)

    # The end.

    def end(self, *, fails: tuple[str, ...] = (), within: float = 60) -> str:
        """Let the producers stop and everything end, stop the workers, and close the books."""
        self.stop_producers()
        stop(each for each in self.others if each.name == "operator")
        self._cancel_what_no_producer_could()
        eventually(self._is_over, within=within, what=self.what_is_left())
        pids = [pid for each in self.living() for pid in (each.pid, *children(each.pid))]
        stop([*self.living(), *self.others])
        with closing(self.server.connect()) as connection:
            route.tidy(connection)
            came_to = ledger.audit(connection, self.books, fails=fails)
            self._check_workers(connection, pids)
        self._see_what_ran_again()
        self.recovery.came_to = came_to
        print(f"{self.recovery.scenario}: {came_to}")
        return came_to

    def _see_what_ran_again(self) -> None:
        """Note when the last did of what each of the killed had, if it did so next."""
        for held in self._taken_away:
            [seconds] = self.ask(AGAIN, *held)
            if seconds is not None:
                self.recovery.again.append(float(seconds))

    def living(self) -> list[Process]:
        """Return the workers that nothing was done to that ends them."""
        return [each for each in self.workers if each not in self._dead]

    def stop_producers(self) -> None:
        """Let them finish what they are at, and enter what they know."""
        for producer in self._producers:
            producer.signal(signal.SIGTERM)
        for producer in self._producers:
            if producer.exit_status(60) == -signal.SIGKILL:
                self._has_killed_a_producer = True
            else:
                assert producer.exit_status() == 0, producer.log
            self.complaints += self.books.read(producer.output)
        self._producers.clear()

    def _cancel_what_no_producer_could(self) -> None:
        """Those whose ids never reached it: it was killed, or its commit's answer was lost."""
        query = (
            "SELECT id, (payload -> 'args' ->> 0)::bigint FROM pgqueue_message "
            "WHERE task = 'tests.chaos.tasks.never'"
        )
        with closing(self.server.connect()) as connection:
            left = dict(connection.execute(query).fetchall())
            unsure = {number for each in self.books.unsure for number in each}
            cancelled = set(left.values()) - unsure
            assert self._has_killed_a_producer or not cancelled, (
                f"cancelled, and there: {cancelled}"
            )
            assert cancel(connection, list(left)).ended == set(left)

    def _is_over(self) -> bool:
        for worker in self.living():
            assert worker.is_alive, f"{worker.name} ended by itself: {worker.log}"
        with closing(self.server.connect()) as connection:
            return not ledger.leftovers(connection, of_workers=True)

    def what_is_left(self) -> Later:
        """Tell what is left when that is read, which is when a wait was in vain."""

        def tell() -> str:
            with closing(self.server.connect()) as connection:
                left = ledger.leftovers(connection, of_workers=True)
                return f"{left}: {ledger.what_is_left(connection)}"

        return Later(tell)

    def _check_workers(self, connection: psycopg.Connection[Any], pids: list[int]) -> None:
        row = connection.execute(
            "SELECT count(*) FROM pgqueue_worker WHERE pid = ANY (%s)", [pids]
        ).fetchone()
        assert row == (0,), "a worker that stopped left its row behind"
        for worker in self.workers:
            # The duty that looks for lanes which contradict the tables: there should be none.
            assert "were not marked runnable" not in worker.log, worker.log

    def later(self, text: Callable[[], str]) -> Later:
        """Return a text that is made when it is read."""
        return Later(text)

    def show_logs(self) -> None:
        """Print what everybody complained of, and the seed of their choices."""
        print(f"CHAOS_SEED={SEED}")
        for process in [*self._producers, *self.workers, *self.others]:
            if log := process.log:
                print(f"--- {process.name} ---\n{log[-6000:]}")

    def close(self) -> None:
        """End the processes that are left."""
        for process in [*self._producers, *self.workers, *self.others]:
            if process.is_alive:
                process.kill()
        for proxy in self._proxies:
            proxy.close()
        self.server.stop("immediate")


def _with_clock(seconds: float, module: str) -> list[str]:
    """Return how Python runs a module, with a clock that is so much fast."""
    return ["-m", "tests.chaos.clock", str(seconds), module] if seconds else ["-m", module]


def stop(processes: Iterable[Process]) -> None:
    """Ask them all to stop, and wait for it."""
    asked = list(processes)
    for each in asked:
        each.signal(signal.SIGTERM)
    for each in asked:
        assert each.exit_status(60) == 0, f"{each.name}: {each.log}"


class Later:
    """A text that is made when it is read."""

    def __init__(self, text: Any) -> None:
        self._text = text

    def __str__(self) -> str:
        return str(self._text())
