"""Waiting for results: by notification, on one connection, at no cost for others."""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.management import call_command
from django.db import connections, transaction

from pgqueue import TaskResult
from pgqueue.database.connections import connect as open_connection
from pgqueue.duties.forget import Forget
from pgqueue.engine import cancel, expire, lookup, notifications, settle, wait
from pgqueue.exceptions import TaskResultDoesNotExist, WaitInTransaction, WaitTimeout
from pgqueue.models import Message, Waiter
from pgqueue.states import Outcome, State
from pgqueue.tasks import waiting
from pgqueue.threads import listener
from tests import jobs
from tests.eventually import eventually
from tests.factories import Connection, Listening, claim, done, failure

pytestmark = pytest.mark.django_db(transaction=True)

HOUR = timedelta(hours=1)
WITHIN = 20.0
"""Seconds: longer than anything here takes, shorter than a test may."""


@pytest.fixture
def connection() -> Iterator[Connection]:
    """A connection such as a worker's."""
    with open_connection("default", name="test") as connection:
        yield connection


@pytest.fixture
def other() -> Iterator[Connection]:
    """A second one."""
    with open_connection("default", name="test") as connection:
        yield connection


@pytest.fixture(autouse=True)
def nothing_waits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test begins, and ends, without a connection that waits."""
    monkeypatch.setattr(listener, "LINGER", timedelta(seconds=0.05))
    yield
    eventually(lambda: not (waiting._open or listener._open), what="a wait is still open")


@pytest.fixture
def by_notification_alone(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """No wait looks again by itself before the test is over."""
    settings.PGQUEUE = {"POLL_INTERVAL": HOUR}
    monkeypatch.setattr(waiting, "SHORTEST_NAP", HOUR)


def in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    finally:
        connections.close_all()


@pytest.fixture
def aside() -> Iterator[Callable[..., Future[Any]]]:
    """A function that calls another in a thread."""
    with ThreadPoolExecutor(50) as threads:
        yield partial(threads.submit, in_thread)


@pytest.fixture
def start(aside: Callable[..., Future[Any]]) -> Callable[[TaskResult[Any]], Future[Any]]:
    """A function that waits for a result in a thread."""
    return lambda result: aside(result.wait, WITHIN)


def drain() -> None:
    call_command("runworker", "--drain")


def is_waited_for(count: int = 1) -> None:
    eventually(lambda: Waiter.objects.count() == count, what=f"{count} waits are not announced")


def backends(connection: Connection) -> list[int]:
    """Return the server processes that this one waits on."""
    rows = connection.execute(
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'pgqueue listener' "
        "AND datname = current_database()"
    )
    return [pid for (pid,) in rows]


def end(connection: Connection, result: TaskResult[Any]) -> None:
    (held,) = claim(connection, result.task.queue_name)
    settle.complete(connection, [done(held, "5")])


@pytest.mark.usefixtures("by_notification_alone")
class TestAWaiter:
    def test_is_told_what_a_worker_made_of_the_message(self, start: Any) -> None:
        result = jobs.add.enqueue(2, 3)
        waited = start(result)
        is_waited_for()

        drain()

        assert waited.result(WITHIN) is result
        assert (result.status, result.return_value, result.attempt) == (Outcome.SUCCEEDED, 5, 1)

    def test_is_told_only_of_the_end_whatever_fails_before(self, start: Any) -> None:
        result = jobs.fail_twice.enqueue()
        waited = start(result)
        is_waited_for()

        drain()

        assert (waited.result(WITHIN).status, result.failures) == (Outcome.SUCCEEDED, 2)

    def test_is_told_of_an_atomic_task_when_its_effects_are_there(self, start: Any) -> None:
        waited = start(jobs.leave_atomically.enqueue("effect"))
        is_waited_for()

        drain()

        assert waited.result(WITHIN).return_value == "in a transaction"

    def test_is_told_of_death(self, start: Any) -> None:
        waited = start(jobs.fail.using(max_attempts=1).enqueue("for ever"))
        is_waited_for()

        drain()

        assert waited.result(WITHIN).status is State.DEAD

    def test_is_told_of_a_cancellation(self, start: Any, connection: Connection) -> None:
        result = jobs.add.enqueue(1)
        waited = start(result)
        is_waited_for()

        cancel.cancel(connection, [int(result.id)])

        assert waited.result(WITHIN).status is Outcome.CANCELLED

    def test_is_told_of_an_expiry(self, start: Any, connection: Connection) -> None:
        waited = start(jobs.add.enqueue(1))
        is_waited_for()
        Message.objects.update(expires_at="2001-01-01T00:00Z")

        expire.expire(connection)

        assert waited.result(WITHIN).status is Outcome.EXPIRED

    def test_waits_inside_a_transaction_that_sees_nothing_of_the_end(
        self, aside: Any, connection: Connection
    ) -> None:
        result = jobs.add.enqueue(2, 3)
        with transaction.atomic(), connections["default"].cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            result.refresh()
            ended = aside(lambda: (is_waited_for(), end(connection, result)))

            result.wait(WITHIN)

        ended.result()
        assert result.return_value == 5

    def test_finds_what_ended_as_it_announced_itself(
        self, start: Any, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        result = jobs.add.enqueue(2, 3)
        announce = wait.announce

        def late(*arguments: Any, **options: Any) -> dict[int, int]:
            end(connection, result)  # no notification: no wait is announced
            return announce(*arguments, **options)

        monkeypatch.setattr(wait, "announce", late)

        assert start(result).result(WITHIN).return_value == 5

    def test_looks_again_once_its_connection_was_lost(
        self, start: Any, connection: Connection
    ) -> None:
        result = jobs.add.enqueue(2, 3)
        waited = start(result)
        is_waited_for()
        (pid,) = backends(connection)
        Waiter.objects.all().delete()
        end(connection, result)  # as if the notification came while nothing listened

        connection.execute("SELECT pg_terminate_backend(%s)", [pid])

        assert waited.result(WITHIN).return_value == 5

    def test_that_lost_its_connection_is_told_of_what_ends_later(
        self, start: Any, connection: Connection
    ) -> None:
        result = jobs.add.enqueue(2, 3)
        waited = start(result)
        is_waited_for()
        (pid,) = backends(connection)
        connection.execute("SELECT pg_terminate_backend(%s)", [pid])
        eventually(lambda: backends(connection) not in ([], [pid]))

        end(connection, result)

        assert waited.result(WITHIN).return_value == 5

    def test_of_a_message_that_is_purged_is_told_that_there_is_none(
        self, start: Any, connection: Connection
    ) -> None:
        result = jobs.add.enqueue(1)
        waited = start(result)
        is_waited_for()
        Message.objects.all().delete()

        connection.execute("SELECT pgqueue_tell_waiters_v1(%s)", [int(result.id)])

        with pytest.raises(TaskResultDoesNotExist):
            waited.result(WITHIN)

    def test_shares_one_connection_with_all_others(
        self, start: Any, connection: Connection
    ) -> None:
        results = jobs.add.enqueue_many([(n,) for n in range(20)])
        waited = [start(result) for result in [*results, *results]]
        is_waited_for(20)
        assert len(backends(connection)) == 1

        drain()

        assert [each.result(WITHIN).return_value for each in waited] == [*range(20), *range(20)]

    def test_goes_on_though_another_gave_up(
        self, start: Any, aside: Any, connection: Connection
    ) -> None:
        result = jobs.add.enqueue(2, 3)
        waited = start(result)
        is_waited_for()
        with pytest.raises(WaitTimeout):
            aside(jobs.add.get_result(result.id).wait, 0.05).result(WITHIN)

        end(connection, result)

        assert waited.result(WITHIN).return_value == 5

    def test_leaves_nothing_behind(self, start: Any, connection: Connection) -> None:
        waited = start(jobs.add.enqueue(1))
        is_waited_for()
        drain()
        waited.result(WITHIN)

        is_waited_for(0)
        eventually(lambda: not backends(connection), what="its connection is still open")

    def test_renews_what_it_announced(
        self, start: Any, connection: Connection, monkeypatch: pytest.MonkeyPatch, settings: Any
    ) -> None:
        settings.PGQUEUE = {"POLL_INTERVAL": 0.05}
        monkeypatch.setattr(waiting, "SHORTEST_NAP", timedelta(seconds=0.05))
        monkeypatch.setattr(waiting, "RENEW_EVERY", timedelta(seconds=0.1))
        result = jobs.add.enqueue(1)
        waited = start(result)
        is_waited_for()
        until = Waiter.objects.get().until

        eventually(lambda: Waiter.objects.get().until > until)

        end(connection, result)
        waited.result(WITHIN)

    def test_in_a_forked_process_has_a_connection_of_its_own(
        self, start: Any, connection: Connection
    ) -> None:
        first, second = jobs.add.enqueue(1), jobs.add.enqueue(2)
        waited = start(first)
        is_waited_for()
        connections.close_all()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads
            child = os.fork()
        if not child:
            os._exit(second.wait(WITHIN).return_value)

        is_waited_for(2)
        drain()

        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
        assert waited.result(WITHIN).return_value == 1

    def test_that_is_async_is_told_too(self, aside: Any) -> None:
        result = jobs.add.enqueue(2, 3)
        waited = aside(async_to_sync(result.await_), WITHIN)
        is_waited_for()

        drain()

        assert waited.result(WITHIN) is result
        assert result.return_value == 5

    def test_that_is_cancelled_waits_no_more(self) -> None:
        result = jobs.add.enqueue(1)

        async def give_up() -> None:
            waits = asyncio.create_task(result.await_())
            await asyncio.to_thread(in_thread, is_waited_for)
            waits.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waits

        async_to_sync(give_up)()

        is_waited_for(0)


class TestAnEndThatWasBeingWritten:
    def test_is_found_soon_after_its_commit(
        self, start: Any, connection: Connection, settings: Any
    ) -> None:
        settings.PGQUEUE = {"POLL_INTERVAL": HOUR}
        result = jobs.add.enqueue(2, 3)
        with connection.transaction():
            end(connection, result)  # and notifies nothing: nothing waits yet
            waited = start(result)
            is_waited_for()

        assert waited.result(WITHIN).return_value == 5


class TestAnEnd:
    def test_that_nothing_waits_for_is_not_told(self, connection: Connection) -> None:
        listening = Listening(connection, notifications.listen_for_results)
        jobs.add.enqueue(1)
        jobs.fail.enqueue("dies")

        drain()

        assert listening.heard() == []

    def test_is_told_once_for_all_who_wait(
        self, start: Any, connection: Connection, other: Connection
    ) -> None:
        listening = Listening(connection, notifications.listen_for_results)
        result = jobs.fail_twice.enqueue()
        jobs.add.enqueue(1)
        waited = start(result), start(jobs.fail_twice.get_result(result.id))
        is_waited_for()
        wait.announce(other, [int(result.id)], lasting=HOUR)  # another process

        drain()

        assert [each.result(WITHIN).status for each in waited] == [Outcome.SUCCEEDED] * 2
        assert listening.heard() == [result.id]

    def test_that_is_over_is_returned_without_waiting(self) -> None:
        result = jobs.add.enqueue(2, 3)
        drain()

        assert result.wait().return_value == 5
        assert not waiting._open

    def test_of_what_was_replayed_meanwhile_is_none(
        self, connection: Connection, other: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        id = int(jobs.add.enqueue(1).id)
        settle.bury(connection, [failure(each) for each in claim(connection)])
        find_each = lookup.find_each

        def late(*arguments: Any) -> Any:
            Message.objects.dead().replay()
            return find_each(*arguments)

        monkeypatch.setattr(lookup, "find_each", late)

        assert wait.ended(connection, [id]) == {}


class TestATimeout:
    @pytest.mark.parametrize("timeout", [0.05, timedelta(seconds=0.05), 0])
    def test_is_an_error_that_says_whose(self, timeout: float | timedelta) -> None:
        result = jobs.add.enqueue(1)

        with pytest.raises(WaitTimeout, match=rf"Message {result.id} of tests\.jobs\.add") as late:
            result.wait(timeout)

        assert isinstance(late.value, TimeoutError)
        is_waited_for(0)

    def test_is_so_from_async_code(self) -> None:
        result = jobs.add.enqueue(1)

        with pytest.raises(WaitTimeout, match=r"within 0\.05 s"):
            async_to_sync(result.await_)(0.05)

        is_waited_for(0)

    def test_does_not_keep_one_from_waiting_again(self) -> None:
        result = jobs.add.enqueue(2, 3)
        with pytest.raises(WaitTimeout):
            result.wait(0.05)

        drain()

        assert result.wait(WITHIN).return_value == 5

    def test_that_is_no_duration_is_refused(self) -> None:
        with pytest.raises(TypeError, match="neither seconds nor a timedelta"):
            jobs.add.enqueue(1).wait("soon")  # type: ignore[arg-type]


class TestInTheTransactionThatEnqueues:
    def test_waiting_is_an_error_at_once(self) -> None:
        with transaction.atomic():
            result = jobs.add.enqueue(1)

            with pytest.raises(WaitInTransaction, match="outside of its atomic"):
                result.wait()

    def test_it_is_so_from_async_code(self) -> None:
        with transaction.atomic():
            result = jobs.add.enqueue(1)

            with pytest.raises(WaitInTransaction):
                async_to_sync(result.await_)()

    def test_it_is_so_for_what_is_enqueued_on_its_commit(self) -> None:
        with transaction.atomic():
            result = jobs.add.using(enqueue_on_commit=True).enqueue(1)

            with pytest.raises(WaitInTransaction):
                result.wait()

    def test_what_ended_there_is_returned(self) -> None:
        with transaction.atomic():
            result = jobs.add.enqueue(1)
            Message.objects.all().cancel()

            assert result.wait().status is Outcome.CANCELLED

    def test_a_message_that_was_rolled_back_is_none(self) -> None:
        with transaction.atomic():
            result = jobs.add.enqueue(1)
            transaction.set_rollback(True)

        with pytest.raises(TaskResultDoesNotExist):
            result.wait()


class TestBehindATransactionPooler:
    def test_it_looks_again_and_announces_nothing(
        self, start: Any, connection: Connection, monkeypatch: pytest.MonkeyPatch, settings: Any
    ) -> None:
        settings.PGQUEUE = {"POLL_INTERVAL": HOUR}
        monkeypatch.setattr(waiting, "is_pooled", lambda connection: True)
        announced: list[Any] = []
        monkeypatch.setattr(wait, "announce", lambda *arguments, **options: announced.append(1))
        result = jobs.add.enqueue(2, 3)
        waited = start(result)
        eventually(lambda: backends(connection))

        drain()

        assert waited.result(WITHIN).return_value == 5
        assert not announced


class TestAProcessThatDied:
    def test_is_forgotten_when_its_time_is_over(self, connection: Connection) -> None:
        wait.announce(connection, [1, 2], lasting=timedelta(seconds=-1))
        wait.announce(connection, [3], lasting=HOUR)

        Forget().run(connection)

        assert Waiter.objects.get().message_id == 3


@pytest.mark.django_db(transaction=True, databases=["default", "second"])
def test_what_is_in_another_database_is_waited_for_there(start: Any) -> None:
    result = jobs.add.using(database="second").enqueue(2, 3)
    waited = start(result)
    eventually(lambda: Waiter.objects.using("second").exists())

    call_command("runworker", "--drain", "--database", "second")

    assert waited.result(WITHIN).return_value == 5
