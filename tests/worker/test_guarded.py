"""A task's context is gone for the next one, and a transaction that it ends is noticed."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.cache import caches
from django.core.management import call_command
from django.db import connection, transaction
from django.urls import get_script_prefix, get_urlconf, set_script_prefix, set_urlconf
from django.utils import timezone, translation
from django.utils.functional import SimpleLazyObject

from pgqueue import Defer, signals, task
from pgqueue.backend import api
from pgqueue.models import History, Message
from tests.backend.jobs import task as django_task

pytestmark = pytest.mark.django_db(transaction=True)

tenant: ContextVar[str] = ContextVar("tenant", default="none")


def found() -> list[Any]:
    return [
        tenant.get(),
        decimal.getcontext().prec,
        translation.get_language(),
        timezone.get_current_timezone_name(),
        get_urlconf(),
        get_script_prefix(),
    ]


def change() -> None:
    tenant.set("acme")
    decimal.getcontext().prec = 3
    translation.activate("de")
    timezone.activate("Asia/Tokyo")
    set_urlconf("tests.urls")
    set_script_prefix("/acme/")


@task
def find_and_change(number: int) -> list[Any]:
    before = found()
    change()
    return before


@task
async def find_and_change_async(number: int) -> list[Any]:
    before = found()
    change()
    return before


@task(max_attempts=1)
def change_and_fail(number: int) -> None:
    change()
    raise ValueError("no order")


@task
def multiply(number: decimal.Decimal) -> decimal.Decimal:
    """Take an argument whose decoding gives its thread a context of decimals."""
    decimal.getcontext().prec = 3
    return number * decimal.Decimal("1.23456")


@task
def cache_id() -> int:
    return id(caches["default"])


@task(atomic=True, max_attempts=1)
def end_atomically(statement: str) -> None:
    Group.objects.create(name="before")
    with connection.cursor() as cursor:
        cursor.execute(statement)
    Group.objects.create(name="after")


def open_one(*args: Any, **kwargs: Any) -> int:
    transaction.set_autocommit(False)
    Group.objects.create(name="never committed")
    return 0


def open_group() -> Group:
    open_one()
    return Group.objects.get()


@task(atomic=True, max_attempts=1)
def end_atomically_and_defer(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        cursor.execute(statement)
    raise Defer(60)


class Opening(int):
    """A number that opens a transaction as it is stored."""

    def __int__(self) -> int:
        if transaction.get_autocommit():
            open_one()
        return 0


@task(max_attempts=1)
def return_lazily() -> Group:
    lazy: Any = SimpleLazyObject(open_group)
    return lazy


@task(max_attempts=1)
def defer_lazily() -> None:
    raise Defer(60, progress=Opening(1))


@task(max_attempts=2, backoff=open_one)
def fail() -> None:
    raise ValueError("no order")


@task
def write(name: str) -> None:
    Group.objects.create(name=name)


@django_task
def write_as_django(name: str) -> None:
    Group.objects.create(name=name)


def drain(*arguments: str) -> None:
    call_command("runworker", "--drain", *(arguments or ("--threads", "1")), verbosity=1)


def results() -> list[Any]:
    return list(History.objects.order_by("id").values_list("result", flat=True))


class TestAContext:
    def test_is_new_for_each_run(self) -> None:
        find_and_change.enqueue_many([(n,) for n in range(3)])
        multiply.enqueue(decimal.Decimal("2.5"))
        change_and_fail.enqueue(1)
        find_and_change.enqueue(4)

        drain()

        first, *others = [each for each in results() if isinstance(each, list)]
        assert first[:2] == ["none", 28]
        assert others == [first] * 3

    def test_is_new_for_each_async_run(self) -> None:
        multiply.enqueue(decimal.Decimal("2.5"))
        find_and_change_async.enqueue_many([(n,) for n in range(3)])

        drain("--async", "1", "--threads", "1")

        first, *others = [each for each in results() if isinstance(each, list)]
        assert first[:2] == ["none", 28]
        assert others == [first] * 2

    @pytest.mark.parametrize("kind", [find_and_change, find_and_change_async])
    def test_is_that_of_its_receivers_too(self, kind: Any) -> None:
        heard: dict[str, list[str]] = {"started": [], "finished": []}

        def started(**kwargs: Any) -> None:
            heard["started"].append(tenant.get())
            tenant.set("of a receiver")

        def finished(**kwargs: Any) -> None:
            heard["finished"].append(tenant.get())
            tenant.set("of another receiver")

        signals.task_started.connect(started)
        signals.task_finished.connect(finished)
        try:
            kind.enqueue_many([(n,) for n in range(2)])
            drain("--async", "1", "--threads", "1")
        finally:
            signals.task_started.disconnect(started)
            signals.task_finished.disconnect(finished)

        assert [each[0] for each in results()] == ["of a receiver"] * 2
        assert heard["started"] == ["none"] * 2
        # An async run ends in another thread, in a context of its own.
        assert heard["finished"] == ["acme" if kind is find_and_change else "none"] * 2

    def test_has_the_caches_of_its_thread(self) -> None:
        """A cache of each run's own would have connections of its own."""
        cache_id.enqueue_many([()] * 3)

        drain()

        assert len(set(results())) == 1


class TestATransaction:
    @pytest.mark.parametrize(
        "statement", ["COMMIT", "ROLLBACK", "COMMIT; BEGIN", "ROLLBACK AND CHAIN"]
    )
    def test_that_an_atomic_task_ends_has_failed(self, statement: str) -> None:
        end_atomically.enqueue(statement)

        drain()

        (error,) = Message.objects.dead().get().errors
        assert error["class"] == "pgqueue.database.guard.TransactionLost"
        assert not Group.objects.filter(name="after").exists()

    @pytest.mark.parametrize("statement", ["COMMIT", "ROLLBACK", "COMMIT; BEGIN"])
    def test_that_an_atomic_task_ends_has_failed_though_it_asked_to_go_on(
        self, statement: str
    ) -> None:
        end_atomically_and_defer.enqueue(statement)

        drain()

        (error,) = Message.objects.dead().get().errors
        assert error["class"] == "pgqueue.database.guard.TransactionLost"

    @pytest.mark.parametrize("kind", [return_lazily, defer_lazily])
    def test_that_what_is_stored_of_a_run_left_open_has_failed(self, kind: Any) -> None:
        kind.enqueue()
        write.enqueue("after")

        drain()

        (error,) = Message.objects.dead().get().errors
        assert error["class"] == "pgqueue.exceptions.TransactionLeftOpen"
        assert [each.name for each in Group.objects.all()] == ["after"]

    def test_that_a_backoff_left_open_harms_no_other_task(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        fail.enqueue()
        write.enqueue("after")

        drain()

        assert "The backoff of tests.worker.test_guarded.fail failed" in caplog.text
        assert "TransactionLeftOpen" in caplog.text
        assert [each.name for each in Group.objects.all()] == ["after"]

    @pytest.mark.parametrize("name", ["task_started", "task_finished"])
    def test_that_a_receiver_left_open_harms_no_task(
        self, connected: Callable[..., None], name: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        connected(getattr(signals, name), open_one)
        write.enqueue("one")
        write.enqueue("two")

        drain()

        assert sorted(each.name for each in Group.objects.all()) == ["one", "two"]
        assert "A receiver failed" in caplog.text
        assert "TransactionLeftOpen" in caplog.text

    @pytest.mark.parametrize("name", ["task_started", "task_finished"])
    def test_that_a_receiver_of_djangos_left_open_harms_no_task(
        self, connected: Callable[..., None], name: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        connected(getattr(api.signals, name), open_one)
        write_as_django.enqueue("one")
        write_as_django.enqueue("two")

        drain()

        assert sorted(each.name for each in Group.objects.all()) == ["one", "two"]
        assert "TransactionLeftOpen" in caplog.text

    def test_that_a_receiver_of_the_producers_left_open_is_not_the_producers(
        self, connected: Callable[..., None], caplog: pytest.LogCaptureFixture
    ) -> None:
        connected(signals.task_enqueued, open_one)

        write.enqueue("one")
        Group.objects.create(name="of the producer")
        connection.close()

        assert [each.name for each in Group.objects.all()] == ["of the producer"]
        assert Message.objects.count() == 1
        assert "TransactionLeftOpen" in caplog.text


@pytest.fixture
def connected() -> Iterator[Callable[..., None]]:
    connections: list[tuple[Any, Any]] = []

    def connect(signal: Any, receiver: Any) -> None:
        signal.connect(receiver)
        connections.append((signal, receiver))

    yield connect
    for signal, receiver in connections:
        signal.disconnect(receiver)
