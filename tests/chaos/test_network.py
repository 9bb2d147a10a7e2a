"""A network that is cut, slow, or silent without a word."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from datetime import timedelta
from time import monotonic
from typing import Any, NamedTuple

import psycopg
import pytest

from pgqueue.database.connections import Session
from pgqueue.engine import notifications
from pgqueue.threads import listener, service
from pgqueue.threads.listener import Listener, Topic, TopicListener
from pgqueue.worker.watchdog import CUT_AFTER, Watchdog
from tests.chaos.harness.processes import Process
from tests.chaos.harness.proxy import Fail, Proxy
from tests.chaos.harness.server import nap, url
from tests.chaos.harness.stage import Stage
from tests.eventually import eventually


@pytest.mark.nightly
def test_connections_that_are_reset_are_opened_again(stage: Stage) -> None:
    proxy = stage.proxy()
    for _ in range(2):
        stage.producer(rate=120, port=proxy.port)
        stage.worker(port=proxy.port)
    stage.settles(50)

    for _ in range(8):
        nap(stage.random.uniform(0.1, 0.5))
        with stage.fault():
            proxy.snap()

    stage.end()


WHO_RUNS = """
SELECT w.pid FROM pgqueue_message m JOIN pgqueue_worker w ON w.id = m.worker_id
WHERE m.task = 'tests.chaos.tasks.stops_midway' AND m.state = 'running' AND w.pid = ANY (%s)
"""


@pytest.mark.chaos
def test_a_network_that_is_down_for_longer_than_a_lease_loses_nothing(stage: Stage) -> None:
    """One worker is cut off, and the other takes over; then both are."""
    proxies = [stage.proxy() for _ in range(2)]
    stage.producer(rate=100)
    whose = {stage.worker(port=proxy.port).pid: proxy for proxy in proxies}
    stage.settles(30)

    numbers = stage.numbers("plain", 3)
    with stage.fault():
        for number in numbers:
            stage.enqueue("stops_midway", number, str(stage.folder), 20)
        [cut_off] = eventually(lambda: stage.ask(WHO_RUNS, [*whose]))
        whose[cut_off].cut()
        eventually(
            lambda: stage.ask(WHO_RUNS, [cut_off]) is None,
            within=20,
            what="the other takes over",
        )
        whose[cut_off].restore()
    with stage.fault():
        for proxy in proxies:
            proxy.cut()
        nap(3)
        for proxy in proxies:
            proxy.restore()

    stage.end()
    assert stage.ask("SELECT sum(lost) > 0 FROM pgqueue_history") == (True,)


@pytest.mark.chaos
def test_a_network_that_says_nothing_for_a_while_charges_no_message_as_lost(stage: Stage) -> None:
    """All connections survive it, and all leases are over."""
    proxy = stage.proxy()
    stage.producer(rate=100)
    for _ in range(2):
        stage.worker(port=proxy.port)
    stage.settles(30)

    for _ in range(3):
        stage.keep_busy(6)
        with stage.fault():
            proxy.freeze()
            nap(4)
            proxy.restore()
        stage.settles(30)

    stage.end()
    assert stage.ask("SELECT sum(lost) FROM pgqueue_history") == (0,)
    assert stage.untouched()


@pytest.mark.chaos
def test_a_slow_network_slows_down_and_loses_nothing(stage: Stage) -> None:
    proxy = stage.proxy()
    stage.producer(rate=50)
    stage.worker(port=proxy.port)
    stage.settles(20)

    with stage.fault():
        proxy.delay = 0.3
        nap(5)
        proxy.delay = 0

    stage.end()


class Through(Session):
    """A session whose connections go through a proxy."""

    def __init__(self, port: int) -> None:
        super().__init__("default", name="listener")
        self._port = port

    @property
    def connection(self) -> psycopg.Connection[Any]:
        if not self.is_open:
            self._connection = psycopg.connect(url(self._port), autocommit=True)
        return self._connection


class Ear(NamedTuple):
    """A listener behind a proxy, the notifications that it has heard, and its watchdog."""

    proxy: Proxy
    listening: Listener
    heard: list[str | None]
    dog: Watchdog


@pytest.fixture
def ear(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ear]:
    """A listener that listens; it must stop when the proxy lets its data through again."""
    monkeypatch.setattr(listener, "PROBE_EVERY", timedelta(seconds=0.2))
    monkeypatch.setattr(service.Service, "longest_step", 1.0)
    proxy = stage.proxy()
    heard: list[str | None] = []
    listening = Listener(Through(proxy.port))
    listening.add(TopicListener(topic=Topic(notifications.NEW), heard=heard.append))
    listening.start()
    try:
        eventually(lambda: heard == [None])
        yield Ear(proxy, listening, heard, Watchdog([listening]))
    finally:
        proxy.restore()
        listening.stop()
        assert listening.stopped(timedelta(seconds=10))


@pytest.mark.chaos
def test_who_listens_notices_a_connection_that_died_half_open(stage: Stage, ear: Ear) -> None:
    proxy, listening, heard, dog = ear

    proxy.freeze()
    eventually(lambda: listening.is_stuck, within=20, what="its keepalive is not sent")
    for _ in range(CUT_AFTER):
        dog.tick()
    eventually(lambda: not listening.is_listening)
    proxy.restore()

    eventually(lambda: heard == [None, None], what="it does not listen again")
    stage.ask("SELECT pg_notify(pgqueue_notifications_v1(), 'said')")
    eventually(lambda: heard[-1] == "said")


class FailingOnce:
    """Lets the first statement fail that begins with a word; `met` says whether it came."""

    def __init__(self, word: str) -> None:
        self.met = False
        self._word = word

    def __call__(self, statement: str, before: Sequence[str]) -> Fail | None:
        if self.met or not statement.startswith(self._word):
            return None
        self.met = True
        return Fail("57014")


@pytest.mark.parametrize("stops", [False, True], ids=["and hears", "and is stopped"])
def test_who_listens_behind_a_middlebox_that_drops_its_data_listens_again(
    stage: Stage, ear: Ear, stops: bool
) -> None:
    """Procrastinate, pg-boss: keepalives were answered, and the first LISTEN after that failed."""
    proxy, listening, heard, dog = ear

    # The proxy's sockets stay open, so the kernel answers keepalives and acknowledges all data.
    proxy.meddler = failing = FailingOnce("LISTEN")
    proxy.strand()
    eventually(lambda: listening.is_stuck, within=20, what="its probe is not answered")
    if stops:
        listening.stop()
    for _ in range(CUT_AFTER):
        dog.tick()

    if not stops:
        eventually(lambda: heard == [None, None], within=20, what="it does not listen again")
        assert failing.met
        stage.ask("SELECT pg_notify(pgqueue_notifications_v1(), 'said')")
        eventually(lambda: heard[-1] == "said")
        listening.stop()
    assert listening.stopped(timedelta(seconds=10))


@pytest.mark.chaos
@pytest.mark.parametrize("moment", ["at once", "as it listens again"])
def test_a_worker_whose_data_are_dropped_silently_ends_in_time(stage: Stage, moment: str) -> None:
    stage.load()
    proxy = stage.proxy()
    worker = stage.worker("--channel", "aside", port=proxy.port)
    query = "SELECT notify_until > clock_timestamp() FROM pgqueue_worker WHERE pid = %s"
    eventually(lambda: stage.ask(query, worker.pid) == (True,), within=30, what="it listens")
    [number] = stage.numbers("plain", 1)
    stage.enqueue("plain", number, channel="aside")
    eventually(lambda: stage.ask(SERVED) == (1,), what="the first message is run")

    proxy.meddler = failing = FailingOnce("LISTEN")
    proxy.strand()
    if moment == "as it listens again":
        eventually(lambda: failing.met, within=120, what="it does not listen again")
    began = monotonic()
    worker.signal(signal.SIGTERM)
    worker.exit_status(40)
    stage.expect_dead(worker)

    assert monotonic() - began < 30  # after which Kubernetes kills it
    with stage.fault():
        stage.worker()
    stage.end()


SERVED = "SELECT count(*) FROM pgqueue_history WHERE channel = 'aside'"


def has_noticed(worker: Process) -> bool:
    """Whether it gave its connections up, or itself."""
    return "failed and will try again" in worker.log or not worker.is_alive


@pytest.mark.chaos
def test_connections_that_die_half_open_are_given_up_and_replaced(stage: Stage) -> None:
    """Nothing comes through and nothing says so; others take over meanwhile."""
    silent = stage.proxy()
    stage.producer(rate=60)
    stuck = stage.worker(port=silent.port)
    stage.settles(30)

    silent.freeze()
    with stage.fault():
        stage.worker()
    # Its sockets stay open: only a time-out can tell.
    eventually(lambda: has_noticed(stuck), within=75, what="it notices by itself")
    with stage.fault():
        silent.restore()
    if not stuck.is_alive:
        assert stuck.exit_status() > 0, "what it runs under must know that it failed"
        stage.expect_dead(stuck)
    else:
        stage.retire(stage.workers[1])
        stage.settles(30)  # by it alone

    stage.end()


IS_IDLE = """
SELECT notify_until > clock_timestamp()
   AND NOT EXISTS (SELECT FROM pgqueue_duty WHERE ran_at IS NULL)
FROM pgqueue_worker
"""


@pytest.mark.chaos
def test_an_idle_worker_whose_connections_died_half_open_hears_again(stage: Stage) -> None:
    """They stay silent for ever, what it listens on, too; new ones work."""
    proxy = stage.proxy()
    worker = stage.worker(port=proxy.port)
    first, second, third = stage.numbers("plain", 3)
    stage.enqueue("plain", first)
    eventually(lambda: stage.settled() == 1)
    eventually(lambda: stage.ask(IS_IDLE) == (True,), what="it listens, and has nothing to do")

    proxy.strand()
    stage.enqueue("plain", second)
    # A minute until the claim is given up, and another until the settle is.
    eventually(lambda: stage.settled() == 2, within=150, what="it goes on with new connections")

    # For so long that its next look is further away than what it hears.
    nap(12)
    stage.enqueue("plain", third)
    eventually(lambda: stage.settled() == 3, within=3, what="it listens on that, too")
    assert worker.is_alive
    stage.end()
