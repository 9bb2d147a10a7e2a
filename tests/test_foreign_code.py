"""Foreign code inside a transaction of the user's: nothing there is lost in silence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.db import DatabaseError, connection, connections, transaction
from django.dispatch import Signal
from django.test import Client, override_settings
from django.utils.functional import SimpleLazyObject

from pgqueue import Channel, batch, receive, send, signals, task
from pgqueue.admin import operations
from pgqueue.backend import api
from pgqueue.database.connections import connect
from pgqueue.database.guard import TransactionLost
from pgqueue.engine.schedule import Scheduled
from pgqueue.exceptions import ChannelFull
from pgqueue.models import History, Message
from pgqueue.models.message import MessageQuerySet
from pgqueue.tasks import scheduling
from tests import jobs
from tests.admin.acting import act, told
from tests.backend import jobs as django_jobs

pytestmark = pytest.mark.django_db(transaction=True)

Receiver = Callable[..., Any]


def fail(session: Any = None) -> None:
    """Have the database refuse all that follows in this transaction."""
    with (session or connection).cursor() as cursor:
        cursor.execute("SELECT 1/0")


def fails(**named: Any) -> None:
    Group.objects.create(name="by the receiver that fails")
    fail()


def swallows(**named: Any) -> None:
    Group.objects.create(name="by the receiver that fails")
    with suppress(DatabaseError):
        fail()


def swallows_what_django_has_seen(**named: Any) -> None:
    Group.objects.create(name="by the receiver that fails")
    with suppress(DatabaseError):
        Group.objects.create(name="order")


def raises(**named: Any) -> None:
    Group.objects.create(name="by the receiver that fails")
    raise ValueError("no error of the database")


async def fails_in_a_coroutine(**named: Any) -> None:
    await sync_to_async(fails)()


FAILING = [fails, swallows, swallows_what_django_has_seen, raises, fails_in_a_coroutine]


@contextmanager
def connected(signal: Signal, *receivers: Receiver) -> Iterator[None]:
    for each in receivers:
        signal.connect(each)
    try:
        yield
    finally:
        for each in receivers:
            signal.disconnect(each)


def drain() -> None:
    call_command("runworker", "--drain", "--threads", "1", verbosity=1)


def groups() -> set[str]:
    return set(Group.objects.values_list("name", flat=True))


class TestAReceiverThatFails:
    """Of `task_enqueued`, in the producer's transaction."""

    @pytest.mark.parametrize(
        ("receiver", "how"),
        [
            *((each, "enqueue") for each in FAILING),
            *((fails, each) for each in ("enqueue_many", "batch", "on_commit")),
        ],
    )
    def test_loses_neither_the_order_nor_the_message(
        self, receiver: Receiver, how: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        with connected(signals.task_enqueued, receiver), transaction.atomic():
            Group.objects.create(name="order")
            if how == "enqueue":
                jobs.add.enqueue(1)
            elif how == "enqueue_many":
                jobs.add.enqueue_many([(1,), (2,)])
            elif how == "batch":
                with batch() as work:
                    work.enqueue(jobs.add, 1)
            else:
                jobs.add.using(enqueue_on_commit=True).enqueue(1)

        assert groups() == {"order"}
        assert Message.objects.count() == (2 if how == "enqueue_many" else 1)
        assert "A receiver failed" in caplog.text

    def test_undoes_nothing_of_other_receivers(self) -> None:
        def before(**named: Any) -> None:
            Group.objects.create(name="before")

        def after(**named: Any) -> None:
            Group.objects.create(name="after")

        with connected(signals.task_enqueued, before, fails, after), transaction.atomic():
            jobs.add.enqueue(1)

        assert groups() == {"before", "after"}

    def test_loses_nothing_where_autocommit_is_off(self) -> None:
        transaction.set_autocommit(False)
        try:
            with connected(signals.task_enqueued, fails):
                Group.objects.create(name="order")
                jobs.add.enqueue(1)
            transaction.commit()
        finally:
            transaction.set_autocommit(True)

        assert (groups(), Message.objects.count()) == ({"order"}, 1)

    @pytest.mark.django_db(transaction=True, databases=["default", "second"])
    def test_loses_nothing_in_a_transaction_on_another_database(self) -> None:
        def fails_there(**named: Any) -> None:
            fail(connections["second"])

        with connected(signals.task_enqueued, fails_there), transaction.atomic(using="second"):
            Group.objects.using("second").create(name="order")
            jobs.add.using(enqueue_on_commit="second").enqueue(1)

        assert list(Group.objects.using("second").values_list("name", flat=True)) == ["order"]
        assert Message.objects.count() == 1

    @pytest.mark.parametrize("is_swallowed", [False, True])
    def test_loses_nothing_on_a_connection_of_psycopgs(self, is_swallowed: bool) -> None:
        def fails_there(sender: Any, **named: Any) -> None:
            with suppress(*[psycopg.Error] if is_swallowed else []):
                sender.connection.execute("SELECT 1/0")

        with (
            connected(signals.task_enqueued, fails_there),
            connect("default", name="test") as own,
            own.transaction(),
        ):
            own.execute("INSERT INTO auth_group (name) VALUES ('order')")
            jobs.add.using(connection=own).enqueue(1)

        assert (groups(), Message.objects.count()) == ({"order"}, 1)

    def test_loses_no_message_where_no_transaction_is_open(self) -> None:
        with connected(signals.task_enqueued, fails):
            jobs.add.enqueue(1)

        assert Message.objects.count() == 1

    @pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK", "close"])
    def test_tells_the_producer_if_it_ended_the_transaction(self, end: str) -> None:
        def ends(**named: Any) -> None:
            if end == "close":
                connection.close()
            else:
                connection.cursor().execute(end)

        with (
            connected(signals.task_enqueued, ends),
            pytest.raises(TransactionLost, match="default"),
            transaction.atomic(),
        ):
            Group.objects.create(name="order")
            jobs.add.enqueue(1)

    def test_leaves_the_effects_of_an_atomic_task(self) -> None:
        enqueue_another.enqueue()

        with connected(signals.task_enqueued, fails):
            drain()

        assert groups() == {"by the task"}
        assert History.objects.filter(outcome="succeeded").count() == 2

    def test_takes_no_tick_of_a_schedule_away(self) -> None:
        def fails_there(sender: Any, **named: Any) -> None:
            sender.connection.execute("SELECT 1/0")

        with (
            connected(signals.task_enqueued, fails_there),
            connect("default", name="test") as own,
            own.transaction(),
        ):
            scheduling.enqueue(scheduled(), datetime(2030, 1, 1, tzinfo=UTC), own)

        assert Message.objects.get().metadata["schedule"] == "s"

    def test_costs_a_savepoint_only_where_there_is_a_receiver(
        self, django_assert_num_queries: Any
    ) -> None:
        with transaction.atomic(), django_assert_num_queries(4):
            jobs.add.enqueue(1)
            with connected(signals.task_enqueued, hear := lambda **named: None):
                jobs.add.enqueue(1)
                assert hear


@task(atomic=True)
def enqueue_another() -> None:
    Group.objects.create(name="by the task")
    jobs.add.enqueue(1)


def scheduled() -> Scheduled:
    columns = dict.fromkeys(Scheduled._fields)
    return Scheduled(
        **{
            **columns,
            "name": "s",
            "task": "tests.jobs.add",
            "args": "[1]",
            "kwargs": "{}",
            "overlap": "allow",
            "channel": "",
        }
    )


class TestADjangoTasksReceiver:
    """They are Django's: their errors reach the sender of the signal."""

    def test_of_what_is_enqueued_tells_the_producer(self) -> None:
        with (
            connected(api.signals.task_enqueued, fails),
            pytest.raises(DatabaseError),
            transaction.atomic(),
        ):
            Group.objects.create(name="order")
            django_jobs.add.enqueue(1)

        assert (groups(), Message.objects.count()) == (set(), 0)

    @pytest.mark.parametrize("name", ["task_started", "task_finished"])
    @pytest.mark.parametrize("is_atomic", [False, True])
    def test_of_a_run_takes_nothing_from_it(self, name: str, is_atomic: bool) -> None:
        django_jobs.join.using(atomic=is_atomic).enqueue("by the task")

        with connected(getattr(api.signals, name), fails):
            drain()

        assert "by the task" in groups()
        assert History.objects.get().outcome == "succeeded"


class TestAReceiverOfARun:
    @pytest.mark.parametrize("signal", [signals.task_started, signals.task_finished])
    @pytest.mark.parametrize("receiver", [fails, swallows])
    def test_takes_nothing_from_an_atomic_task(self, signal: Signal, receiver: Receiver) -> None:
        with connected(signal, receiver):
            enqueue_another.enqueue()
            drain()

        assert "by the task" in groups()
        assert History.objects.filter(outcome="succeeded").count() == 2


def key_of(*args: Any) -> str:
    fail()
    return "k"


class TestErrorsInTheProducersTransaction:
    @pytest.mark.parametrize("option", ["key", "dedupe_key"])
    def test_of_a_key_function_reach_the_producer(self, option: str) -> None:
        with pytest.raises(DatabaseError), transaction.atomic():
            Group.objects.create(name="order")
            jobs.add.using(**{option: key_of}).enqueue(1)  # type: ignore[misc]

        assert (groups(), Message.objects.count()) == (set(), 0)

    @pytest.mark.parametrize("many", [False, True])
    def test_of_a_lazy_argument_reach_the_producer(self, many: bool) -> None:
        lazy = SimpleLazyObject(key_of)

        with pytest.raises(DatabaseError), transaction.atomic():
            Group.objects.create(name="order")
            if many:
                jobs.add.enqueue_many([(1,), (lazy,)])
            else:
                jobs.add.enqueue(lazy)  # type: ignore[arg-type]

        assert (groups(), Message.objects.count()) == (set(), 0)

    def test_of_what_is_stored_at_the_commit_reach_the_producer(self) -> None:
        Channel("default").policy(max_size=1)
        jobs.add.enqueue(1)

        with pytest.raises(ChannelFull), transaction.atomic():
            jobs.add.using(enqueue_on_commit=True).enqueue(2)

    def test_of_a_backoff_reach_the_consumer_and_the_message_stays(self) -> None:
        send("default", 1)

        with (
            override_settings(PGQUEUE={"BACKOFF": lambda error, result: fail()}),
            receive("default") as deliveries,
        ):
            [delivery] = deliveries.take()
            with pytest.raises(DatabaseError), transaction.atomic():
                Group.objects.create(name="order")
                delivery.retry()
            delivery.complete()

        assert (groups(), History.objects.get().outcome) == (set(), "succeeded")

    def test_of_an_atomic_tasks_backoff_charge_one_failure_and_it_runs_again(self) -> None:
        fail_with_a_failing_backoff.enqueue()

        drain()

        ended = History.objects.get()
        assert (ended.outcome, ended.failures) == ("succeeded", 1)

    def test_of_reading_arguments_are_not_taken_for_a_row_that_is_gone(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        group = Group.objects.create(name="order")
        result = django_jobs.rename.enqueue(group, "new")

        def refuse(*args: Any, **kwargs: Any) -> None:
            fail()

        monkeypatch.setattr(Group._base_manager, "get", refuse)
        with pytest.raises(DatabaseError), transaction.atomic():
            django_jobs.rename.get_result(result.id)


def give_up_the_transaction(error: BaseException, result: Any) -> float:
    with suppress(DatabaseError):
        fail()
    return 0


@task(atomic=True, max_attempts=2, backoff=give_up_the_transaction)
def fail_with_a_failing_backoff() -> None:
    if not History.objects.exists() and Message.objects.get().failures == 0:
        raise ValueError("once")


class TestAnOperation:
    def test_in_the_admin_that_fails_undoes_none_of_what_it_reports(
        self, admin_client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ids = [int(jobs.add.enqueue(number).id) for number in range(4)]
        monkeypatch.setattr(operations, "BATCH", 2)
        cancel, calls = MessageQuerySet.cancel, []

        def fail_later(messages: MessageQuerySet) -> Any:
            calls.append(messages)
            if len(calls) == 2:
                fail()
            return cancel(messages)

        monkeypatch.setattr(
            "pgqueue.admin.message.CANCEL", replace(operations.CANCEL, run=fail_later)
        )
        with with_atomic_requests():
            page = act(admin_client, "cancel", ids)

        assert told(page) == ["2 cancelled, 2 not tried, since the database failed."]
        assert Message.objects.count() == 2


@contextmanager
def with_atomic_requests() -> Iterator[None]:
    connection.settings_dict["ATOMIC_REQUESTS"] = True
    try:
        yield
    finally:
        connection.settings_dict["ATOMIC_REQUESTS"] = False
