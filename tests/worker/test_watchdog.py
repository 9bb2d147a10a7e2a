"""A worker that is stuck ends, so that its supervisor starts another."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from unittest.mock import Mock, patch

import pytest
from psycopg import OperationalError
from psycopg.errors import ReadOnlySqlTransaction

from pgqueue import signals
from pgqueue.claiming.run_counts import Tally
from pgqueue.database import connections as module_of_connections
from pgqueue.database.connections import Session
from pgqueue.models import History, Message
from pgqueue.states import State
from pgqueue.threads import service
from pgqueue.threads.service import NO_NAP, Service
from pgqueue.worker import watchdog
from pgqueue.worker.buffer import Buffer
from pgqueue.worker.config import WorkerConfig
from pgqueue.worker.eventloop import EventLoop
from pgqueue.worker.leases import LeasedMessage, Leases
from pgqueue.worker.main_session import MainSession
from pgqueue.worker.releasing import Releaser
from pgqueue.worker.threads import Threads
from pgqueue.worker.watchdog import Watchdog
from pgqueue.worker.worker import Worker
from tests import jobs
from tests.eventually import eventually
from tests.factories import run
from tests.hearing import heard
from tests.processes import ROOT


class Stubborn(Service):
    """Stays in its tick until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()

    def tick(self) -> timedelta:
        self.go.wait()
        return timedelta(hours=1)


class Dying(Service):
    def run(self) -> None: ...

    def tick(self) -> timedelta:
        return NO_NAP


@pytest.fixture
def stubborn(monkeypatch: pytest.MonkeyPatch) -> Stubborn:
    monkeypatch.setattr(service.Service, "longest_step", 0.05)
    stubborn = Stubborn()
    stubborn.start()
    yield stubborn
    stubborn.go.set()
    stubborn.stop()
    stubborn.stopped(timedelta(seconds=5))


@pytest.fixture
def statuses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    statuses: list[int] = []
    monkeypatch.setattr(os, "_exit", statuses.append)
    monkeypatch.setattr(watchdog.faulthandler, "dump_traceback", lambda: None)
    return statuses


class TestAService:
    def test_that_is_in_one_tick_for_too_long_is_stuck(self, stubborn: Stubborn) -> None:
        eventually(lambda: stubborn.is_stuck)

    def test_that_naps_is_not_however_long(self, stubborn: Stubborn) -> None:
        eventually(lambda: stubborn.is_stuck)
        stubborn.go.set()

        eventually(lambda: not stubborn.is_stuck)

    def test_that_died_is_stuck(self) -> None:
        dying = Dying()
        dying.start()

        eventually(lambda: dying.is_stuck)

    def test_that_has_not_begun_or_was_stopped_is_not(self) -> None:
        unborn, dead = Dying(), Dying()
        dead.stop()
        dead.start()
        dead.join()

        assert not unborn.is_stuck
        assert not dead.is_stuck


class Silent:
    """One that is stuck until its connection is cut; or for ever."""

    name = "silent"

    def __init__(self, *, helps: bool) -> None:
        self.is_stuck = True
        self.was_cut = 0
        self._helps = helps

    def cut(self) -> None:
        self.was_cut += 1
        self.is_stuck = not self._helps


class TestTheWatchdog:
    def test_cuts_the_connection_of_what_is_stuck(self, statuses: list[int]) -> None:
        silent = Silent(helps=True)
        dog = Watchdog([silent])

        for _ in range(2 * watchdog.END_AFTER):
            dog.tick()

        assert (silent.was_cut, statuses) == (1, [])

    def test_ends_the_process_where_that_does_not_help(self, statuses: list[int]) -> None:
        silent = Silent(helps=False)
        dog = Watchdog([silent])

        for _ in range(watchdog.END_AFTER):
            dog.tick()

        assert (silent.was_cut, statuses) == (1, [70])

    def test_names_what_it_has_found_stuck_for_long(self, statuses: list[int]) -> None:
        dog = Watchdog([Silent(helps=False)])
        named = []

        for _ in range(watchdog.CUT_AFTER):
            named.append(dog.stuck)
            dog.tick()

        assert named == [[]] * watchdog.CUT_AFTER
        assert dog.stuck == ["silent"]

    def test_forgives_one_that_goes_on_by_itself(self, statuses: list[int]) -> None:
        silent = Silent(helps=False)
        dog = Watchdog([silent])
        for _ in range(10):
            for _ in range(watchdog.CUT_AFTER - 1):
                dog.tick()
            silent.is_stuck = False
            dog.tick()
            silent.is_stuck = True

        assert (silent.was_cut, statuses) == (0, [])

    def test_says_that_all_is_well_while_none_is_stuck(self) -> None:
        said: list[bool] = []
        silent = Silent(helps=False)
        well = Mock(say_well=lambda: said.append(silent.is_stuck))
        dog = Watchdog([silent], wellness=well)

        dog.tick()
        silent.is_stuck = False
        dog.tick()

        assert said == [False]

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
    @pytest.mark.parametrize("kind", ["threads", "loop"])
    def test_finds_a_thread_that_died_in_what_runs_tasks(self, kind: str) -> None:
        run = Mock(side_effect=SystemExit)
        buffer = Buffer(1, Mock())
        executor = (
            Threads(1, buffer, Mock(run=run), Mock())
            if kind == "threads"
            else EventLoop(1, buffer, Mock(begin=run), Mock())
        )
        before = executor.is_stuck
        executor.start()

        buffer.put([Mock()])

        eventually(lambda: executor.is_stuck)
        buffer.close()
        assert not (before or executor.is_stuck)

    def test_finds_a_loop_that_fails_again_and_again(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        buffer = Buffer(1, Mock())
        executor = EventLoop(1, buffer, Mock(), Mock())
        loop = executor._loop
        run = loop.run_forever

        def fail() -> None:
            loop.call_soon(loop.stop)
            run()
            raise OSError("its selector is broken")

        with patch.object(loop, "run_forever", side_effect=fail) as running:
            executor.start()
            eventually(lambda: executor.is_stuck)

        buffer.close()
        executor.stopped(timedelta(seconds=5))
        assert running.call_count < 10
        assert "its selector is broken" in caplog.text

    def test_says_where_everybody_was(self) -> None:
        program = (
            "import threading\n"
            "from pgqueue.threads import service\n"
            "from pgqueue.worker.watchdog import Watchdog\n"
            "service.Service.longest_step = 0\n"
            "class Stubborn(service.Service):\n"
            "    def tick(self):\n"
            "        threading.Event().wait()\n"
            "stubborn = Stubborn()\n"
            "stubborn.start()\n"
            "dog = Watchdog([stubborn])\n"
            "while True:\n"
            "    dog.tick()\n"
        )

        done = subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=30
        )

        assert done.returncode == 70
        assert "stubborn: nothing done for too long" in done.stderr
        assert "in tick" in done.stderr


@pytest.mark.django_db(transaction=True)
def test_who_retires_is_watched_until_he_has_ended() -> None:
    jobs.sleep.enqueue(1)
    worker = Worker(WorkerConfig(database="default", threads=1, grace=timedelta(seconds=1)))
    watched = []

    def retire() -> None:
        eventually(lambda: any(each.started > each.claimed for each in worker._leases.all()))
        worker.retire()
        eventually(lambda: not worker._pipeline.fetcher.is_alive())
        watched.append(worker._watchdog.is_alive() and not worker._watchdog._stopping.is_set())

    retiring = threading.Thread(target=retire)
    retiring.start()
    worker.run()
    retiring.join()

    assert watched == [True]
    eventually(lambda: not worker._watchdog.is_alive())
    assert History.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_is_not_watched_any_more_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watchdog, "rest", Mock(side_effect=SystemExit))
    worker = Worker(WorkerConfig(database="default", threads=1, grace=timedelta(seconds=1)))

    with heard(signals.worker_stuck, "services") as stuck:
        worker.run()

    assert stuck == [["watchdog"]]


@pytest.mark.django_db
def test_a_connection_can_be_cut_while_it_is_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    # A pooler takes it, and has no server for it. Ours notices that it is gone: others wait for it.
    sleep = "SET client_connection_check_interval = 100; SELECT pg_sleep(60)"
    monkeypatch.setattr(module_of_connections, "_server", lambda own: own.execute(sleep))
    session = Session("default", name="test")
    with ThreadPoolExecutor(1) as threads:
        waits = threads.submit(lambda: session.connection)
        eventually(lambda: session.is_open)

        session.cut()

        assert isinstance(waits.exception(10), OperationalError)
    assert not session.is_open


@pytest.mark.django_db
def test_a_connection_that_is_cut_ends_under_who_waits_on_it() -> None:
    session = Session("default", name="test")
    errors: list[Exception] = []

    def wait() -> None:
        try:
            session.connection.execute(
                "SET client_connection_check_interval = 100; SELECT pg_sleep(60)"
            )
        except Exception as error:
            errors.append(error)

    waiter = threading.Thread(target=wait)
    waiter.start()
    eventually(lambda: session.is_open)

    session.cut()
    waiter.join(10)

    assert isinstance(errors[0], OperationalError)
    assert session.connection.execute("SELECT 1").fetchone() == (1,)
    session.close()


@pytest.mark.django_db(transaction=True)
def test_what_a_read_only_server_does_not_take_back_another_does() -> None:
    session = MainSession("default")
    with session.connected() as connection:
        leased = [LeasedMessage(claim, claimed=0) for claim in run(connection)]
        connection.execute("SET default_transaction_read_only = on")
    releaser = Releaser(session, Leases(), Tally())

    with pytest.raises(ReadOnlySqlTransaction):
        releaser.release(leased)
    releaser.release(leased)

    session.close()
    assert Message.objects.get().state == State.READY
