"""Messages of other systems are stored once and handled once, however often they are sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.db import connections, transaction

from pgqueue import (
    InvalidArguments,
    InvalidEvent,
    InvalidMessage,
    PayloadTooLarge,
    Received,
    areceive_external,
    publish,
    receive_external,
)
from pgqueue.database.connections import connect as open_connection
from pgqueue.engine import expire, received
from pgqueue.engine.values import Tuples
from pgqueue.events.later import publish_now
from pgqueue.models import Dedupe, Event, EventInbox, Message
from pgqueue.states import Outcome
from pgqueue.testing import advance, run_all
from tests.factories import Connection
from tests.inbox.handlers import (
    Ordered,
    book,
    book_later,
    booked,
    failing,
    particular,
    takes_nothing,
    tell,
)
from tests.stepping import Step

MINUTE = timedelta(minutes=1)
Start = Callable[..., Step]

ways = pytest.mark.parametrize("to", [book, "shop.paid", None], ids=["task", "topic", "by hand"])


def receive(to: Any, id: str = "m-1", **options: Any) -> Received:
    """Receive a message of order 7."""
    return receive_external(id, to, None if to is None else {"order": 7}, **options)


def receive_on(connection: Connection, to: Any, id: str = "m-1") -> Received:
    return receive(to, id, connection=connection)


def stored() -> int:
    """Return how many messages and events there are."""
    return Message.objects.count() + EventInbox.objects.exclude(topic="booked").count()


class TestAMessage:
    @ways
    def test_is_new_the_first_time_alone(self, to: Any) -> None:
        found = [receive(to) for _ in range(3)]

        assert [each.is_new for each in found] == [True, False, False]
        assert [bool(each) for each in found] == [True, False, False]
        assert stored() == (to is not None)

    @ways
    def test_is_another_one_of_another_source_or_with_another_id(self, to: Any) -> None:
        receive(to)

        assert receive(to, "m-2")
        assert receive(to, source="erp")
        assert not receive(to, source="erp")

    @ways
    def test_is_part_of_the_callers_transaction(self, to: Any) -> None:
        with transaction.atomic():
            assert receive(to)
            transaction.set_rollback(True)
        assert stored() == 0

        assert receive(to)
        assert stored() == (to is not None)

    @ways
    def test_is_waited_for_by_who_receives_the_same_one(
        self, to: Any, connection: Connection, other: Connection, step: Start
    ) -> None:
        with connection.transaction():
            assert receive_on(connection, to)
            second = step(receive_on, other, to)
            second.waits()

        assert not second.result()
        assert stored() == (to is not None)

    @ways
    def test_is_new_for_who_waited_if_the_first_transaction_is_rolled_back(
        self, to: Any, connection: Connection, other: Connection, step: Start
    ) -> None:
        with connection.transaction(force_rollback=True):
            assert receive_on(connection, to)
            second = step(receive_on, other, to)
            second.waits()

        assert second.result()
        assert stored() == (to is not None)

    @ways
    def test_is_remembered_for_as_long_as_was_said(self, to: Any, connection: Connection) -> None:
        receive(to, remember_for=MINUTE)
        run_all()
        advance(30)
        assert not receive(to)

        advance(31)
        expire.forget(connection)
        assert not Dedupe.objects.exists()
        assert receive(to)

    @ways
    def test_is_forgotten_then_though_no_worker_has_deleted_it(self, to: Any) -> None:
        receive(to, remember_for=MINUTE)
        run_all()
        advance(61)

        assert receive(to)
        assert not receive(to)

    def test_is_remembered_for_a_month_if_nothing_else_is_said(self) -> None:
        receive("shop.paid")

        advance(timedelta(days=29))
        assert not receive("shop.paid")
        advance(timedelta(days=2))
        assert receive("shop.paid")

    @ways
    def test_is_received_from_async_code(self, to: Any) -> None:
        async def twice() -> list[bool]:
            payload = None if to is None else {"order": 7}
            return [bool(await areceive_external("m-1", to, payload)) for _ in range(2)]

        assert asyncio.run(twice()) == [True, False]


class TestATask:
    def test_handles_a_message_once_however_often_it_comes(self) -> None:
        receive(book)
        receive(book)
        run_all(raise_errors=True)
        receive(book)
        run_all(raise_errors=True)

        assert booked() == [7]

    def test_has_its_effects_in_the_transaction_that_ends_it(self) -> None:
        received = receive(book)
        failing.append(ValueError("after the effect"))

        runs = run_all(retries=True)

        assert received.message is not None
        assert [each.id for each in runs] == [received.message.id] * 2
        assert runs[-1].status is Outcome.SUCCEEDED
        assert booked() == [7]

    def test_may_be_a_coroutine(self) -> None:
        receive(book_later)

        run_all(raise_errors=True)

        assert booked() == [7]

    def test_is_told_the_message_and_its_source(self) -> None:
        receive(tell.using(metadata={"team": "a"}), source="erp", metadata={"trace": 1})

        (ran,) = run_all(raise_errors=True)

        external = {"id": "m-1", "source": "erp"}
        assert ran.return_value == {"team": "a", "trace": 1, "external": external}

    def test_keeps_its_options_but_those_that_are_in_the_way(self) -> None:
        with transaction.atomic():
            receive(particular)
            assert Message.objects.get().key == "key 7"
            assert not receive(particular)

        run_all(raise_errors=True)
        assert booked() == [7]

    def test_has_the_key_and_the_time_of_the_message(self) -> None:
        receive(book.using(key="a", run_after=5), key="b", run_after=MINUTE)

        message = Message.objects.get()
        assert message.key == "b"
        assert message.run_at - message.created_at == MINUTE

    def test_finds_the_message_that_is_there(self) -> None:
        first = receive(book).message
        run_all()

        second = receive(book).message

        assert first is not None
        assert second is not None
        assert (second.id, second.came_of, second.status) == (first.id, "existing", "succeeded")

    def test_keeps_the_isolation_that_it_asks_for(self) -> None:
        receive(book.using(atomic="serializable"))

        options = Message.objects.get().options
        assert options is not None
        assert options["atomic"] == "serializable"


class TestAnEvent:
    def test_is_published_with_its_key_and_where_it_came_from(self) -> None:
        receive("shop.paid", key="order:7", source="erp", metadata={"trace": 1})

        event = EventInbox.objects.get()
        assert (event.topic, event.key, event.payload) == ("shop.paid", "order:7", {"order": 7})
        external = {"id": "m-1", "source": "erp"}
        assert event.metadata == {"trace": 1, "external": external}

    def test_is_handled_once_by_each_that_subscribes_to_it(
        self, dispatch: Callable[[], None]
    ) -> None:
        failing.append(ValueError("after the effect"))

        for _ in range(3):
            receive_external("m-1", Ordered(order=7))
            dispatch()
            run_all(retries=True)

        assert booked() == [7]

    def test_is_handled_in_the_order_of_its_key(self, dispatch: Callable[[], None]) -> None:
        for n in range(4):
            receive_external(f"m-{n}", f"erp.{n}", {"order": n}, key="a")

        dispatch()
        run_all(raise_errors=True)

        assert booked() == [0, 1, 2, 3]

    def test_is_published_at_its_time_and_once(self) -> None:
        received = receive("shop.paid", key="k", run_after=MINUTE)
        assert not receive("shop.paid", run_after=MINUTE)
        run_all()
        assert not Event.objects.exists()

        advance(61)
        run_all(raise_errors=True)

        assert received.message is not None
        assert received.message.task.name == publish_now.name
        event = Event.objects.get()
        assert (event.key, event.metadata["external"]["id"]) == ("k", "m-1")

    def test_that_waits_is_stored_on_the_callers_connection(self, connection: Connection) -> None:
        with connection.transaction(force_rollback=True):
            assert receive("shop.paid", run_after=MINUTE, connection=connection)

        assert not Message.objects.exists()
        assert receive("shop.paid", run_after=MINUTE, connection=connection)
        assert Message.objects.count() == 1

    def test_that_can_not_be_published_is_not_remembered(self) -> None:
        with pytest.raises(PayloadTooLarge):
            receive_external("m-1", "shop.paid", "x" * 2**24)

        assert receive("shop.paid")


class TestByHand:
    def test_its_effects_are_there_once(self) -> None:
        for _ in range(3):
            with transaction.atomic():
                if receive_external("m-1"):
                    publish("booked", 7)

        assert booked() == [7]

    def test_it_is_new_again_where_its_effects_were_undone(self) -> None:
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            assert receive_external("m-1")
            raise ZeroDivisionError

        assert receive_external("m-1")


class TestAnotherDatabase:
    @pytest.mark.django_db(transaction=True, databases=["default", "second"])
    def test_may_be_where_it_is_stored(self) -> None:
        try:
            assert receive(book, database="second")
            assert not receive(book, database="second")
            assert receive("shop.paid", database="second", source="erp")
            assert Message.objects.using("second").count() == 1
            assert EventInbox.objects.using("second").count() == 1
        finally:
            with connections["second"].cursor() as cursor:
                for table in ("message", "event_inbox", "dedupe"):
                    cursor.execute(f"DELETE FROM pgqueue_{table}")  # noqa: S608


class TestARefusal:
    @pytest.mark.parametrize(
        ("id", "options", "said"),
        [
            ("", {}, "message_id=''.*empty"),
            (7, {}, "message_id=7: it must be text"),
            ("i" * 800, {}, "message_id='iii.*799 bytes"),
            ("\0", {}, "message_id=.*NUL"),
            ("m", {"source": "a:b"}, "source='a:b'.*without colons"),
            ("m", {"source": None}, "source=None: it must be text"),
            ("m", {"source": "s" * 201}, "source='sss.*200 bytes"),
            ("m", {"remember_for": 0}, "remember_for=0: it must be longer"),
            ("m", {"remember_for": "a day"}, "remember_for='a day'"),
            ("m", {"metadata": []}, "metadata=\\[\\]"),
            ("m", {"metadata": 5}, "metadata=5: it must be a dict"),
            ("m", {"database": "none"}, "database='none'"),
        ],
    )
    @pytest.mark.parametrize("to", [book, "shop.paid"], ids=["task", "topic"])
    def test_names_the_culprit(self, to: Any, id: Any, options: dict[str, Any], said: str) -> None:
        with pytest.raises(InvalidMessage, match=said):
            receive_external(id, to, {"order": 7}, **options)

        assert not Dedupe.objects.exists()

    def test_of_options_of_the_task_names_them(self) -> None:
        with pytest.raises(InvalidMessage, match="key=5"):
            receive(book, key=5)
        with pytest.raises(InvalidMessage, match="run_after='x'"):
            receive(book, run_after="x")
        with pytest.raises(InvalidMessage, match="connection=5"):
            receive(book, connection=5)

    def test_of_an_event_names_what_can_not_be(self) -> None:
        with pytest.raises(InvalidEvent, match="topic='a b'"):
            receive("a b")
        with pytest.raises(InvalidEvent, match="key=5"):
            receive("a", key=5)
        with pytest.raises(InvalidEvent, match="run_after='x'"):
            receive("a", run_after="x")
        with pytest.raises(InvalidEvent, match="run_after=datetime.*time zone"):
            receive("a", run_after=datetime(2026, 1, 1))
        with pytest.raises(InvalidEvent, match="connection=5"):
            receive("a", connection=5)
        assert not Dedupe.objects.exists()

    def test_of_what_is_no_goal_says_what_would_be_one(self) -> None:
        with pytest.raises(InvalidMessage, match="to=5: it must be a task of pgqueue, a topic"):
            receive(5)

    def test_of_a_payload_that_fits_no_handler_names_the_task(self) -> None:
        with pytest.raises(InvalidArguments, match="takes_nothing"):
            receive(takes_nothing)

    def test_of_a_payload_for_nobody_says_so(self) -> None:
        with pytest.raises(InvalidMessage, match="to=None"):
            receive_external("m-1", None, {"order": 7})


def test_it_is_stored_on_the_callers_connection() -> None:
    with open_connection("default", name="test") as own:
        for to in (book, "shop.paid", None):
            own.autocommit = False
            assert receive(to, f"m-{to}", connection=own)
            assert not Dedupe.objects.exists()
            own.rollback()
            own.autocommit = True

            assert receive(to, f"m-{to}", connection=own)
            assert not receive(to, f"m-{to}", connection=own)
            own.execute("DELETE FROM pgqueue_dedupe")


@ways
def test_whatever_many_do_at_once_it_is_stored_once(
    to: Any, connect: Callable[..., Connection], step: Start
) -> None:
    steps = [step(receive_on, connect(), to, f"m-{n % 5}") for n in range(20)]

    found = [each.result() for each in steps]

    assert sum(map(bool, found)) == 5
    assert Dedupe.objects.count() == 5
    assert stored() == (5 if to else 0)


def test_two_that_remember_several_do_not_deadlock(
    connection: Connection, other: Connection, step: Start
) -> None:
    def remember(own: Connection, *ids: str) -> set[str]:
        with own.transaction():
            return received.remember(Tuples(own), ids, lasting=MINUTE)

    with connection.transaction():
        assert remember(connection, "a") == {"a"}
        second = step(remember, other, "b", "a")
        second.waits()
        assert remember(connection, "b") == {"b"}

    assert second.result() == set()


def test_a_serializable_transaction_is_told_to_try_again(
    connection: Connection, other: Connection, step: Start
) -> None:
    other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ

    def receive_late(own: Connection) -> bool:
        with own.transaction():
            own.execute("SELECT 1")
            return bool(receive_on(own, "shop.paid"))

    with connection.transaction():
        receive_on(connection, "shop.paid")
        second = step(receive_late, other)
        second.waits()

    with pytest.raises(psycopg.errors.SerializationFailure):
        second.result()
    assert not receive_late(other)
