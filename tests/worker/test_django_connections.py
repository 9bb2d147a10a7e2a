"""What becomes of the connections that a thread's tasks opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any
from unittest.mock import Mock

import pytest
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.db import connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.errors import FeatureNotSupported, QueryCanceled, ReadOnlySqlTransaction

from pgqueue import Retry, signals
from pgqueue.calls.outcomes import (
    Closed,
    Deferred,
    Died,
    Ending,
    HandedBack,
    Retried,
    Succeeded,
)
from pgqueue.claiming.run_counts import Tally
from pgqueue.database import django_connections
from pgqueue.database.connections import connect
from pgqueue.exceptions import TransactionLeftOpen
from pgqueue.models import Message
from pgqueue.states import State
from pgqueue.tasks import Task
from pgqueue.testing import run_all
from pgqueue.worker.handlers import Handlers
from pgqueue.worker.leases import LeasedMessage, Leases
from pgqueue.worker.quarantine import Quarantine
from pgqueue.worker.runner import Runner
from pgqueue.worker.settler import write
from pgqueue.worker.timeouts import Timeouts
from tests import jobs
from tests.eventually import eventually
from tests.factories import claim

Close = Callable[[], None]

BOTH = pytest.mark.parametrize(
    "close", [django_connections.close_old_connections, django_connections.close_broken_connections]
)


def opened(monkeypatch: pytest.MonkeyPatch, *wrappers: Mock) -> None:
    monkeypatch.setattr(django_connections._opened, "here", list(wrappers))


def wrapper(*, shown: dict[str, str] | None = None) -> Mock:
    """Return one of Django's connections to PostgreSQL, as usable as ever, after an error."""
    idle = Mock(transaction_status=0, pipeline_status=0)
    its = Mock(closed=False, info=Mock(parameter_status=(shown or {}).get), pgconn=idle)
    return Mock(connection=its, errors_occurred=True, in_atomic_block=False, vendor="postgresql")


@BOTH
def test_one_that_cannot_be_closed_keeps_no_thread_from_its_message(
    monkeypatch: pytest.MonkeyPatch, close: Close
) -> None:
    first, second = wrapper(), wrapper()
    first.is_usable.side_effect = first.close_if_unusable_or_obsolete.side_effect = SystemExit
    second.is_usable.return_value = False
    opened(monkeypatch, first, second)

    close()

    assert second.close.called or second.close_if_unusable_or_obsolete.called


@BOTH
def test_one_that_leads_to_a_standby_is_kept_after_an_error(
    monkeypatch: pytest.MonkeyPatch, close: Close
) -> None:
    # A replica, which a task reads from, and where a query was cancelled.
    its = wrapper(shown={"in_hot_standby": "on"})
    opened(monkeypatch, its)

    close()

    assert not its.close.called
    assert not its.connection.close.called


class TestARefusal:
    @pytest.mark.parametrize(
        ("shown", "is_closed"),
        [
            ({"in_hot_standby": "on", "default_transaction_read_only": "off"}, True),
            ({"in_hot_standby": "off", "default_transaction_read_only": "on"}, True),
            ({"in_hot_standby": "off", "default_transaction_read_only": "off"}, False),
            ({}, False),  # as a pooler may have it
        ],
    )
    def test_closes_what_leads_to_a_read_only_server(
        self, monkeypatch: pytest.MonkeyPatch, shown: dict[str, str], is_closed: bool
    ) -> None:
        its = wrapper(shown=shown)
        opened(monkeypatch, its)

        django_connections.close_after(ReadOnlySqlTransaction())

        # Itself, too: a pool of Django's would keep it.
        assert (its.close.called, its.connection.close.called) == (is_closed, is_closed)

    @pytest.mark.parametrize(
        ("error", "is_refusal"),
        [
            (ReadOnlySqlTransaction(), True),
            (FeatureNotSupported("cannot use serializable mode in a hot standby"), True),
            (QueryCanceled("canceling statement due to conflict with recovery"), False),
            (ValueError(), False),
        ],
    )
    def test_is_known_behind_whatever_was_raised_over_it(
        self, error: Exception, is_refusal: bool
    ) -> None:
        over = Retry()
        over.__context__ = ValueError()
        over.__context__.__cause__ = error
        error.__context__ = over  # going round in a circle

        assert django_connections.is_refusal(over) == is_refusal

    def test_closes_nothing_amid_a_transaction(self, monkeypatch: pytest.MonkeyPatch) -> None:
        its = wrapper(shown={"in_hot_standby": "on"})
        its.in_atomic_block = True
        opened(monkeypatch, its)

        django_connections.close_after(ReadOnlySqlTransaction())

        assert not its.connection.close.called


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[BaseDatabaseWrapper]:
    """This thread's connection of Django's; CONN_MAX_AGE keeps this and the others for ever."""
    for each in connections.all():
        each.close()
        monkeypatch.setitem(each.settings_dict, "CONN_MAX_AGE", None)
    yield connection
    for each in connections.all():
        each.close()


@pytest.mark.django_db(transaction=True)
class TestAThread:
    @pytest.mark.parametrize(
        ("task", "ending"),
        [
            (jobs.leave_atomically, HandedBack),
            (jobs.leave_in_a_transaction, Retried),
            (jobs.defer_what_is_refused, Deferred),
        ],
    )
    def test_leaves_a_read_only_server_with_the_first_run_that_meets_it(
        self, kept: BaseDatabaseWrapper, task: Task[..., Any], ending: type[Ending]
    ) -> None:
        task.enqueue(*(["refused"] if ending is not Deferred else []))
        with kept.cursor() as cursor:
            cursor.execute("SET default_transaction_read_only = on")

        ended = run_one()

        assert isinstance(ended, ending)
        assert kept.connection is None

    def test_keeps_its_connection_where_a_run_failed_otherwise(
        self, kept: BaseDatabaseWrapper
    ) -> None:
        jobs.fail.enqueue("no use")
        with kept.cursor() as cursor:
            cursor.execute("SET default_transaction_read_only = on")
        before = kept.connection

        ended = run_one()

        assert isinstance(ended, Retried)
        assert kept.connection is before


WAYS = pytest.mark.parametrize("way", jobs.WAYS_TO_LEAVE_OPEN)


@pytest.mark.django_db(transaction=True, databases=["default", "second"])
class TestATaskThatLeavesATransactionOpen:
    @WAYS
    def test_fails_and_is_told_where_and_what_to_do(
        self, kept: BaseDatabaseWrapper, way: str
    ) -> None:
        jobs.leave_open.enqueue(way)

        ended = run_one()

        alias = "second" if way == "begin elsewhere" else "default"
        assert isinstance(ended, Died)
        assert isinstance(ended.error, TransactionLeftOpen)
        assert f"on the database {alias} was still open" in str(ended.error)
        assert not Group.objects.exists()

    @WAYS
    def test_leaves_nothing_of_it_to_the_next(self, kept: BaseDatabaseWrapper, way: str) -> None:
        jobs.leave_open.enqueue(way)
        run_one()
        jobs.leave.enqueue("after it")

        ended = run_one()

        assert isinstance(ended, Succeeded)
        kept.close()  # what it has not committed is gone with it
        assert [each.name for each in Group.objects.all()] == ["after it"]

    @pytest.mark.parametrize("way", ["begin", "begin elsewhere", "pipeline", "copy"])
    def test_fails_where_it_asked_to_go_on_later(self, kept: BaseDatabaseWrapper, way: str) -> None:
        jobs.leave_open_and_defer.enqueue(way)

        ended = run_one()

        assert isinstance(ended, Died)
        assert isinstance(ended.error, TransactionLeftOpen)

    @pytest.mark.parametrize("way", ["begin", "begin elsewhere", "pipeline", "copy"])
    def test_keeps_an_error_of_its_own(self, kept: BaseDatabaseWrapper, way: str) -> None:
        jobs.leave_open_and_fail.enqueue(way)

        ended = run_one()

        assert isinstance(ended, Died)
        assert isinstance(ended.error, ValueError)
        assert not django_connections.are_any_in_transaction(django_connections._opened.here)

    @pytest.mark.parametrize("way", ["begin elsewhere", "pipeline", "copy"])
    def test_fails_though_it_is_atomic(self, kept: BaseDatabaseWrapper, way: str) -> None:
        jobs.leave_open_atomically.enqueue(way)

        run_one_to_its_end()

        message = Message.objects.get()
        assert message.state == State.DEAD
        assert message.errors[0]["class"] == "pgqueue.exceptions.TransactionLeftOpen"
        assert not Group.objects.exists()


@pytest.mark.django_db(transaction=True)
class TestAReceiver:
    def test_that_leaves_a_transaction_open_leaves_none_of_it_to_the_next_run(
        self, kept: BaseDatabaseWrapper
    ) -> None:
        def begin(**kwargs: object) -> None:
            with connection.cursor() as cursor:
                cursor.execute("BEGIN")

        jobs.add.enqueue(1)
        signals.task_finished.connect(begin)
        try:
            ended = run_one()
        finally:
            signals.task_finished.disconnect(begin)

        assert isinstance(ended, Succeeded)
        assert kept.connection is None


def run_one_to_its_end() -> None:
    """Run a message here, and write how it ended unless that is done."""
    with connect("default", name="test") as session:
        (claimed,) = claim(session)
        leased = LeasedMessage(claimed, monotonic())
        ending = runner().run(leased)
        if not isinstance(ending, Closed):
            # The server may keep the row of a session that has just been closed locked.
            eventually(lambda: write(session, [(leased, ending)]))


def runner() -> Runner:
    quarantine = Quarantine("default", Leases(), max_lost=3)
    return Runner("default", Timeouts(), Handlers("default"), quarantine, Tally())


def run_one() -> Ending:
    """Run a message here, as one of a worker's threads would."""
    with connect("default", name="test") as session:
        (claimed,) = claim(session)
    return runner().run(LeasedMessage(claimed, monotonic()))


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("arguments", [[], ["--async", "1"]])
def test_a_task_finds_no_queries_of_the_one_before(settings: Any, arguments: list[str]) -> None:
    settings.DEBUG = True
    results = [jobs.count_queries.enqueue() for _ in range(3)]
    results += [jobs.count_queries_async.enqueue() for _ in range(3)]

    call_command("runworker", "--drain", "--threads", "1", *arguments, verbosity=1)

    for each in results:
        each.refresh()
    assert [each.return_value for each in results] == [1] * 6


@pytest.mark.django_db(transaction=True)
def test_a_test_keeps_its_queries_while_messages_run_in_it(settings: Any) -> None:
    settings.DEBUG = True
    Group.objects.count()
    jobs.count_queries.enqueue()

    run_all()

    assert any("auth_group" in each["sql"] for each in connection.queries)
