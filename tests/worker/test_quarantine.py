"""Who may run beside whom, where one of them may be what kills the process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from django.db import connections

from pgqueue.calls.outcomes import Closed, HandedBack
from pgqueue.claiming.run_counts import Tally
from pgqueue.database.connections import connect
from pgqueue.models import Message
from pgqueue.worker.handlers import Handlers
from pgqueue.worker.leases import LeasedMessage, Leases
from pgqueue.worker.quarantine import Quarantine
from pgqueue.worker.runner import Runner
from pgqueue.worker.timeouts import Timeouts
from tests.eventually import eventually
from tests.factories import Connection, run

pytestmark = pytest.mark.django_db(transaction=True)

MAX_LOST = 3


@pytest.fixture
def connection() -> Iterator[Connection]:
    with closing(connect("default", name="test")) as connection:
        yield connection


def hold(connection: Connection, *, lost: int) -> LeasedMessage:
    (claim,) = run(connection)
    connection.execute("UPDATE pgqueue_message SET lost = %s WHERE id = %s", [lost, claim.id])
    return LeasedMessage(claim._replace(lost=lost, task="tests.jobs.add"), 0)


def begin(quarantine: Quarantine, leased: LeasedMessage) -> threading.Event:
    """Begin in a thread of its own; return what is set when it may run."""
    begun = threading.Event()

    def work() -> None:
        quarantine.begin(leased)
        connections.close_all()
        begun.set()

    threading.Thread(target=work, daemon=True).start()
    return begun


def has_begun(leased: LeasedMessage) -> bool:
    return Message.objects.filter(pk=leased.claim.id, started_at__isnull=False).exists()


def test_what_lost_nothing_runs_beside_anything_and_writes_nothing(connection: Connection) -> None:
    quarantine = Quarantine("default", Leases(), max_lost=MAX_LOST)
    fresh = [hold(connection, lost=0) for _ in range(3)]

    for each in fresh:
        quarantine.begin(each)

    assert not any(map(has_begun, fresh))


def test_what_lost_a_worker_says_so_and_runs_beside_others(connection: Connection) -> None:
    quarantine = Quarantine("default", Leases(), max_lost=MAX_LOST)
    quarantine.begin(hold(connection, lost=0))
    suspect = hold(connection, lost=1)

    quarantine.begin(suspect)

    assert has_begun(suspect)


class TestOnItsLastLife:
    def test_it_waits_until_nothing_runs_beside_it(self, connection: Connection) -> None:
        quarantine = Quarantine("default", Leases(), max_lost=MAX_LOST)
        before, last = hold(connection, lost=0), hold(connection, lost=2)
        quarantine.begin(before)

        alone = begin(quarantine, last)

        assert not alone.wait(0.2) and not has_begun(last)
        quarantine.end(before)
        assert alone.wait(10)
        assert has_begun(last)

    def test_nothing_begins_until_it_ended(self, connection: Connection) -> None:
        quarantine = Quarantine("default", Leases(), max_lost=MAX_LOST)
        last, after, also_last = (hold(connection, lost=n) for n in (2, 0, 2))
        quarantine.begin(last)

        beside, another = begin(quarantine, after), begin(quarantine, also_last)

        assert not beside.wait(0.2) and not another.wait(0.2)
        quarantine.end(last)
        # One of them, and the other when that has ended.
        eventually(lambda: beside.is_set() or another.is_set())
        for each in (after, also_last):
            quarantine.end(each)
        assert beside.wait(10)

    def test_others_wait_no_longer_than_their_patience(self, connection: Connection) -> None:
        quarantine = Quarantine("default", Leases(), max_lost=MAX_LOST, patience=0.1)
        quarantine.begin(hold(connection, lost=2))

        assert begin(quarantine, hold(connection, lost=0)).wait(10)

    def test_it_waits_no_longer_than_its_patience(self, connection: Connection) -> None:
        quarantine = Quarantine("default", Leases(), max_lost=MAX_LOST, patience=0.1)
        quarantine.begin(hold(connection, lost=0))

        assert begin(quarantine, hold(connection, lost=2)).wait(10)

    def test_it_waits_no_longer_for_another_such_one(self, connection: Connection) -> None:
        quarantine = Quarantine("default", Leases(), max_lost=MAX_LOST, patience=0.1)
        quarantine.begin(hold(connection, lost=2))

        assert begin(quarantine, hold(connection, lost=2)).wait(10)

    def test_it_is_the_first_loss_that_counts_where_only_one_is_allowed(
        self, connection: Connection
    ) -> None:
        quarantine = Quarantine("default", Leases(), max_lost=1)

        for _ in range(2):
            quarantine.begin(hold(connection, lost=0))


def test_one_that_could_not_say_that_it_begins_makes_room_for_others(
    connection: Connection,
) -> None:
    quarantine = Quarantine("elsewhere", Leases(), max_lost=MAX_LOST)
    last = hold(connection, lost=2)

    with pytest.raises(Exception, match="elsewhere"):
        quarantine.begin(last)
    quarantine.end(last)

    assert begin(quarantine, hold(connection, lost=0)).wait(10)


def test_a_lease_that_was_lost_meanwhile_is_not_marked(connection: Connection) -> None:
    leased = hold(connection, lost=1)
    connection.execute("UPDATE pgqueue_message SET attempt = attempt + 1")

    Quarantine("default", Leases(), max_lost=MAX_LOST).begin(leased)

    assert not has_begun(leased)


class TestWaiting:
    @pytest.fixture
    def runner(self, connection: Connection) -> Runner:
        quarantine = Quarantine("default", Leases(), max_lost=MAX_LOST)
        return Runner("default", Timeouts(), Handlers("default"), quarantine, Tally())

    def test_what_lost_its_lease_meanwhile_does_not_run(
        self, connection: Connection, runner: Runner
    ) -> None:
        before, last = hold(connection, lost=0), hold(connection, lost=2)
        runner.quarantine.begin(before)
        with ThreadPoolExecutor(1) as pool:
            begun = pool.submit(runner.begin, last)
            eventually(lambda: runner.quarantine._alone is last)
            connection.execute("UPDATE pgqueue_message SET attempt = attempt + 1")

            runner.quarantine.end(before)

            assert isinstance(begun.result(10), Closed)
            pool.submit(connections.close_all)

    def test_what_was_cancelled_meanwhile_does_not_run(
        self, connection: Connection, runner: Runner
    ) -> None:
        before, last = hold(connection, lost=0), hold(connection, lost=2)
        runner.quarantine.begin(before)
        with ThreadPoolExecutor(1) as pool:
            begun = pool.submit(runner.begin, last)
            eventually(lambda: runner.quarantine._alone is last)
            last.cancel()

            runner.quarantine.end(before)

            assert isinstance(begun.result(10), HandedBack)
            pool.submit(connections.close_all)

    def test_it_waits_for_what_has_ended_to_be_written(self, connection: Connection) -> None:
        leases = Leases()
        quarantine = Quarantine("default", leases, max_lost=MAX_LOST)
        unwritten, last = hold(connection, lost=2), hold(connection, lost=2)
        leases.add([unwritten, last])
        unwritten.end()

        alone = begin(quarantine, last)

        assert not alone.wait(0.2) and not has_begun(last)
        leases.drop(unwritten)
        assert alone.wait(10)
