"""A group's handler harms nothing but itself: no thread, no session and no transaction."""

from __future__ import annotations

import decimal
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.cache import caches
from django.db import DatabaseError, connection, transaction
from django.utils import timezone, translation

from pgqueue import consumer, publish_many
from pgqueue.events import consumers
from pgqueue.events.consuming import GroupReader
from pgqueue.models import Cursor, Message
from tests.eventually import eventually

Read = Callable[..., GroupReader]
tenant: ContextVar[str] = ContextVar("tenant", default="none")


@pytest.fixture(autouse=True)
def _no_traces(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(consumers, "_consumers", {})
    yield
    connection.close()
    User.objects.all().delete()


@pytest.fixture
def read() -> Iterator[Read]:
    """A function that makes a reader of a group, whose steps the test takes."""
    readers: list[GroupReader] = []

    def read(handler: Callable[[Any], Any], **options: Any) -> GroupReader:
        given = {"start": "beginning", "backoff": [0], **options}
        readers.append(GroupReader(consumer("billing", **given)(handler)))
        return readers[-1]

    yield read
    for each in readers:
        each.finish()


def run(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def write(name: Any) -> None:
    User.objects.create(username=str(name))


def names() -> list[str]:
    return sorted(User.objects.values_list("username", flat=True))


def switch_autocommit_off() -> None:
    transaction.set_autocommit(False)


def begin() -> None:
    run("BEGIN")


copying: list[Any] = []


def begin_copying() -> None:
    connection.ensure_connection()
    copying.append(connection.connection.cursor().copy("COPY auth_user FROM STDIN"))
    copying[-1].__enter__()


class TestAHandlerThatLeavesATransactionOpen:
    @pytest.mark.parametrize("leave", [switch_autocommit_off, begin])
    @pytest.mark.parametrize("batch", [None, 10])
    def test_has_failed_and_its_events_are_tried_again(
        self,
        read: Read,
        batch: int | None,
        leave: Callable[[], None],
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        leaving = [leave, leave]

        def handle(given: Any) -> None:
            if leaving:
                leaving.pop()()
            for event in given if isinstance(given, list) else [given]:
                write(event.payload)

        publish_many([("order.paid", n) for n in range(20)])
        reader = read(handle, batch=batch)
        while Cursor.objects.filter(group="billing", position=20).count() == 0:
            reader.tick()

        assert names() == sorted(map(str, range(20)))
        assert "TransactionLeftOpen" in caplog.text
        assert not Message.objects.exists()

    def test_is_given_up_as_for_any_other_error(self, read: Read) -> None:
        def handle(event: Any) -> None:
            begin()
            write(event.payload)

        publish_many([("order.paid", 1)])
        reader = read(handle, max_attempts=1)
        reader.tick()

        (error,) = Message.objects.dead().get().errors
        assert error["class"] == "pgqueue.exceptions.TransactionLeftOpen"
        assert "default" in error["message"]
        assert names() == []

    def test_in_copy_mode_has_failed_too(self, read: Read) -> None:
        handled: list[int] = []

        def handle(event: Any) -> None:
            if event.position == 1 and 1 not in handled:
                handled.append(1)
                begin_copying()
            else:
                handled.append(event.position)

        publish_many([("order.paid", n) for n in range(2)])
        reader = read(handle)
        reader.tick()
        reader.tick()

        assert handled == [1, 1, 2]

    def test_leaves_nothing_of_its_session_to_the_next(self, read: Read) -> None:
        found: list[str] = []

        def handle(event: Any) -> None:
            with connection.cursor() as cursor:
                cursor.execute("SHOW search_path")
                found.append(cursor.fetchone()[0])
                cursor.execute(f"SET search_path TO tenant_{event.position}, public")

        publish_many([("order.paid", n) for n in range(3)])
        reader = GroupReader(consumer("billing", start="beginning")(handle))
        reader.start()  # its own thread's connections are watched
        eventually(lambda: len(found) == 3)
        reader.stop()
        reader.join()

        assert not any("tenant" in each for each in found)


def roll_back() -> None:
    run("ROLLBACK")


def commit() -> None:
    run("COMMIT")


def roll_back_behind_a_comment() -> None:
    run("/* enough */ rollback;")


def commit_and_begin_at_once() -> None:
    run("COMMIT; BEGIN")


def commit_and_chain() -> None:
    run("COMMIT AND CHAIN")


def roll_back_by_psycopg() -> None:
    connection.connection.rollback()


def commit_by_psycopg() -> None:
    connection.connection.commit()


def roll_back_after_an_error() -> None:
    with suppress(DatabaseError):
        run("SELECT 1/0")
    run("ROLLBACK")


def end_it() -> None:
    run("END")


ENDING = [
    *(roll_back, commit, roll_back_behind_a_comment, commit_and_begin_at_once),
    *(commit_and_chain, roll_back_by_psycopg, commit_by_psycopg, roll_back_after_an_error),
    end_it,
]


class TestAnAtomicHandlerThatEndsItsTransaction:
    @pytest.mark.parametrize("writes", ["before", "after", "both", "neither"])
    @pytest.mark.parametrize("end", ENDING)
    @pytest.mark.parametrize("batch", [None, 10])
    def test_has_failed_and_its_cursor_stays(
        self,
        read: Read,
        end: Callable[[], None],
        writes: str,
        batch: int | None,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        def handle(given: Any) -> None:
            connection.ensure_connection()
            if writes in ("before", "both"):
                write("before")
            end()
            if writes in ("after", "both"):
                write("after")

        publish_many([("order.paid", 1)])
        reader = read(handle, atomic=True, batch=batch, max_attempts=2, backoff=[60])
        reader.tick()
        connection.close()

        (cursor,) = Cursor.objects.filter(group="billing")
        if end in (roll_back_by_psycopg, commit_by_psycopg) and writes in ("after", "neither"):
            # psycopg had not begun the transaction yet: nothing was ended.
            assert (cursor.position, names()) == (1, ["after"] if writes == "after" else [])
            return
        assert cursor.position == 0
        assert cursor.failures == 1
        assert "TransactionLost" in cursor.error
        assert "TransactionLost" in caplog.text
        assert "after" not in names()

    @pytest.mark.parametrize(
        "innocent",
        [
            "SELECT '; COMMIT'",
            "SELECT 'a; ROLLBACK; BEGIN'",
            "SELECT 1; SELECT 2",
            "SAVEPOINT a; ROLLBACK TO a; RELEASE a",
            "DO $$ BEGIN PERFORM 1; END $$",
            "PREPARE a AS SELECT 1; DEALLOCATE a",
        ],
    )
    def test_is_not_taken_for_one_that_only_looks_like_it(self, read: Read, innocent: str) -> None:
        def handle(event: Any) -> None:
            run(innocent)
            write("before")
            with suppress(ZeroDivisionError), transaction.atomic():
                run(innocent)
                write("undone")
                raise ZeroDivisionError
            write("after")

        publish_many([("order.paid", 1)])
        reader = read(handle, atomic=True)
        reader.tick()

        assert names() == ["after", "before"]
        assert Cursor.objects.get().position == 1

    def test_costs_others_no_query(
        self, read: Read, django_assert_num_queries: Callable[..., Any]
    ) -> None:
        publish_many([("order.paid", n) for n in range(2)])
        reader = read(lambda event: None, atomic=True)
        reader._rebalance(reader._session.connection)

        with django_assert_num_queries(6):  # each time a BEGIN, the cursor's move, and a COMMIT
            reader.tick()


class TestAHandlerThatEndsItsThread:
    @pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit])
    @pytest.mark.parametrize("batch", [None, 10])
    @pytest.mark.parametrize("atomic", [False, True])
    def test_has_failed(
        self, read: Read, error: type[BaseException], batch: int | None, atomic: bool
    ) -> None:
        def handle(given: Any) -> None:
            raise error("no order")

        publish_many([("order.paid", 1), ("order.paid", 2)])
        reader = read(handle, max_attempts=1, batch=batch, atomic=atomic)
        for _ in range(4):
            reader._try_tick()

        assert Cursor.objects.get().position == 2
        assert {each.errors[0]["class"] for each in Message.objects.dead()} == {
            f"builtins.{error.__name__}"
        }

    def test_by_its_backoff_waits_as_by_default(
        self, read: Read, caplog: pytest.LogCaptureFixture
    ) -> None:
        def leave(error: BaseException, event: Any) -> float:
            raise SystemExit

        def handle(event: Any) -> None:
            raise ValueError("no such order")

        publish_many([("order.paid", 1)])
        read(handle, backoff=leave, max_attempts=2).tick()

        assert "The backoff of the group billing failed" in caplog.text
        assert Cursor.objects.get().failures == 1


class TestABackoffThatLeavesATransactionOpen:
    @pytest.mark.parametrize("leave", [switch_autocommit_off, begin])
    def test_has_failed_and_its_event_waits_as_by_default(
        self, read: Read, leave: Callable[[], None], caplog: pytest.LogCaptureFixture
    ) -> None:
        def wait(error: BaseException, result: Any) -> float:
            leave()
            write("never committed")
            return 60

        def handle(event: Any) -> None:
            raise ValueError("no such order")

        publish_many([("order.paid", 1)])
        read(handle, backoff=wait, max_attempts=2).tick()
        write("after")
        connection.close()

        assert "The backoff of the group billing failed" in caplog.text
        assert "TransactionLeftOpen" in caplog.text
        assert Cursor.objects.get().failures == 1
        assert names() == ["after"]


class TestAContext:
    def test_is_new_for_each_call(self, read: Read) -> None:
        found: list[tuple[Any, ...]] = []

        def handle(event: Any) -> None:
            found.append(
                (
                    tenant.get(),
                    decimal.getcontext().prec,
                    translation.get_language(),
                    timezone.get_current_timezone_name(),
                )
            )
            tenant.set("acme")
            decimal.getcontext().prec = 3
            translation.activate("de")
            timezone.activate("Asia/Tokyo")

        publish_many([("order.paid", n) for n in range(3)])
        decimal.getcontext()
        read(handle).tick()

        assert found == [found[0]] * 3
        assert found[0][:2] == ("none", 28)
        assert tenant.get() == "none"

    def test_is_new_after_a_conflict_with_other_transactions(self, read: Read) -> None:
        found: list[str] = []

        def handle(event: Any) -> None:
            found.append(tenant.get())
            tenant.set("acme")
            if len(found) < 3:
                run("DO $$ BEGIN RAISE 'x' USING ERRCODE = 'serialization_failure'; END $$")

        publish_many([("order.paid", 1)])
        read(handle, atomic=True).tick()

        assert found == ["none"] * 3

    def test_keeps_the_caches_of_its_thread(self, read: Read) -> None:
        found: list[Any] = []
        publish_many([("order.paid", n) for n in range(2)])

        read(lambda event: found.append(caches["default"])).tick()

        assert found[0] is found[1]

    def test_is_there_where_a_failure_is_logged(
        self, read: Read, caplog: pytest.LogCaptureFixture
    ) -> None:
        told: list[str] = []

        class Telling(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                told.append(tenant.get())

        def handle(event: Any) -> None:
            tenant.set("acme")
            raise ValueError("no such order")

        publish_many([("order.paid", 1)])
        telling = Telling()
        logging.getLogger("pgqueue").addHandler(telling)
        try:
            read(handle).tick()
        finally:
            logging.getLogger("pgqueue").removeHandler(telling)

        assert told == ["acme"]
