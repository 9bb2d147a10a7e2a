"""Events in tests: positions, subscriptions and groups inside a transaction, and assertions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import Group as AuthGroup
from django.db import IntegrityError, connection, transaction
from django.test import TestCase, TransactionTestCase

from pgqueue import Event, consumer, publish, read
from pgqueue.events import consumers, groups, subscribing
from pgqueue.events.consumers import Consumer
from pgqueue.events.recorded import RecordedEvent
from pgqueue.exceptions import EndlessEvents, InvalidEvent, InvalidFilter
from pgqueue.models import Cursor, EventInbox, Message
from pgqueue.testing import (
    advance,
    assert_not_published,
    assert_published,
    following,
    run_all,
)
from tests.testing import subscribers


class Shipped(Event, topic="parcel.shipped", key="parcel"):
    """A typed event."""

    parcel: int
    weight: Decimal = Decimal(1)


@pytest.fixture(autouse=True)
def _own_declarations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the subscriptions of `subscribers`, and no group but the test's."""
    own = {
        name: each
        for name, each in subscribing._subscriptions.items()
        if each.task.func.__module__ == subscribers.__name__
    }
    monkeypatch.setattr(subscribing, "_subscriptions", own)
    monkeypatch.setattr(consumers, "_consumers", {})


def declare(handler: Callable[[Any], Any], name: str = "g", **options: Any) -> Consumer:
    return consumer(name, **options)(handler)


def payloads(seen: list[RecordedEvent]) -> list[Any]:
    return [each.payload for each in seen]


class Following:
    """What holds in each kind of test case."""

    def test_an_event_becomes_a_message_of_its_subscription_which_is_run(self) -> None:
        publish("order.placed", {"sku": "A1"})
        publish("order.shipped", {"sku": "B2"})

        [ran] = run_all()

        assert (ran.task, ran.return_value) == (subscribers.reserve, "reserved A1")
        assert run_all() == []

    def test_a_message_that_publishes_leads_to_the_next_one(self) -> None:
        publish("chain.begun", {"left": 2})

        assert [each.return_value for each in run_all()] == [2, 1, 0]

    def test_a_group_is_given_its_events_once_and_in_order(self) -> None:
        seen: list[RecordedEvent] = []
        declare(seen.append, topics="stock.*")
        for number in range(3):
            publish("stock.moved", number)
        publish("other", 3)

        run_all()
        run_all()

        assert payloads(seen) == [0, 1, 2]
        assert [each.position for each in seen] == [1, 2, 3]
        publish("stock.moved", 4)
        run_all()
        assert payloads(seen) == [0, 1, 2, 4]

    def test_each_partition_of_a_group_is_read(self) -> None:
        seen: list[RecordedEvent] = []
        declare(seen.append, partitions=4)
        for number in range(20):
            publish("stock.moved", number, key=f"k{number}")

        run_all()

        assert sorted(payloads(seen)) == list(range(20))

    def test_a_batch_is_handled_as_a_list(self) -> None:
        seen: list[list[Any]] = []
        declare(lambda events: seen.append(payloads(events)), batch=2)
        for number in range(3):
            publish("stock.moved", number)

        run_all()

        assert seen == [[0, 1], [2]]

    def test_messages_that_a_handler_enqueues_are_run(self) -> None:
        declare(lambda event: subscribers.note.enqueue(event.payload) and None)
        publish("stock.moved", 7)

        assert [each.return_value for each in run_all()] == [7]

    def test_events_that_a_handler_publishes_are_handled(self) -> None:
        seen: list[RecordedEvent] = []
        declare(lambda event: publish("second", event.payload), "first", topics="first")
        declare(seen.append, "second", topics="second")
        publish("first", 1)

        run_all()

        assert payloads(seen) == [1]

    def test_a_failed_event_waits_for_its_retry_and_holds_the_events_behind_it(self) -> None:
        failing, seen = [True], []

        def handle(event: RecordedEvent) -> None:
            if failing and event.payload == 1:
                raise ValueError("no")
            seen.append(event)

        declare(handle, backoff=[60], max_attempts=3)
        for number in range(3):
            publish("stock.moved", number)

        run_all()
        run_all()
        assert payloads(seen) == [0]
        [state] = groups.states()
        assert state.error == "ValueError: no"

        failing.clear()
        advance(timedelta(seconds=60))
        run_all()
        assert payloads(seen) == [0, 1, 2]

    def test_retries_run_at_once_if_asked_until_the_event_is_parked(self) -> None:
        calls: list[Any] = []

        def handle(event: RecordedEvent) -> None:
            calls.append(event.payload)
            if event.payload == 1:
                raise ValueError("no")

        declare(handle, backoff=[3600], max_attempts=3)
        publish("stock.moved", 1)
        publish("stock.moved", 2)

        run_all(retries=True)

        assert calls == [1, 1, 1, 2]
        assert Message.objects.get().channel == "group:g"

    def test_an_error_is_raised_if_asked_and_names_the_event_and_its_group(self) -> None:
        def handle(event: RecordedEvent) -> None:
            raise ValueError("no")

        declare(handle, backoff=[60], max_attempts=2)
        publish("stock.moved", 1)

        with pytest.raises(ValueError, match="^no") as raised:
            run_all(raise_errors=True)
        assert raised.value.__notes__ == ["The group 'g' handled the event stock.moved at 1."]
        with pytest.raises(ValueError, match="^no"):
            run_all(retries=True, raise_errors=True)
        assert Message.objects.get().channel == "group:g"

    def test_a_retry_that_succeeds_raises_nothing(self) -> None:
        calls: list[Any] = []

        def handle(event: RecordedEvent) -> None:
            calls.append(event)
            if len(calls) == 1:
                raise ValueError("no")

        declare(handle, backoff=[60])
        publish("stock.moved", 1)

        run_all(retries=True, raise_errors=True)

        assert len(calls) == 2

    def test_a_group_that_stops_at_its_event_raises_if_asked(self) -> None:
        def handle(event: RecordedEvent) -> None:
            raise ValueError("no")

        declare(handle, backoff=[60], max_attempts=1, on_failure="stop")
        publish("stock.moved", 1)

        with pytest.raises(ValueError, match="^no"):
            run_all(retries=True, raise_errors=True)
        [state] = groups.states()
        assert state.stopped == 1

    def test_an_atomic_handler_loses_its_effects_with_its_error(self) -> None:
        def handle(event: RecordedEvent) -> None:
            AuthGroup.objects.create(name=str(event.payload))
            if event.payload == 1:
                raise ValueError("no")

        declare(handle, atomic=True, max_attempts=1)
        publish("stock.moved", 1)
        publish("stock.moved", 2)

        run_all()

        assert list(AuthGroup.objects.values_list("name", flat=True)) == ["2"]

    def test_endless_events_are_an_error_that_names_them(self) -> None:
        declare(lambda event: publish("again", event.payload), topics="again")
        publish("again", 1)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(following, "ROUNDS", 5)
            with pytest.raises(EndlessEvents, match="after 5 rounds.*are again: does"):
                run_all()

    def test_an_event_of_before_the_test_s_group_is_not_handled(self) -> None:
        seen: list[RecordedEvent] = []
        publish("stock.moved", 1)
        run_all()
        declare(seen.append)
        declare(lambda event: subscribers.note.enqueue(event.payload) and None, "all",
                start="beginning")  # fmt: skip

        publish("stock.moved", 2)

        assert [each.return_value for each in run_all()] == [1, 2]
        assert payloads(seen) == [2]

    def test_nothing_is_declared_without_an_event(self) -> None:
        declare(print)

        assert run_all() == []
        assert groups.states() == []

    def test_published_events_are_found_before_and_after_they_have_a_position(self) -> None:
        publish("order.placed", {"total": 5}, key="7")
        publish("order.paid", {"total": 10})
        [paid] = assert_published("order.paid")
        assert (paid.position, paid.payload) == (0, {"total": 10})

        run_all()

        publish("order.placed", {"total": 20})
        assert [each.position for each in assert_published("order.*", count=3)] == [1, 2, 0]
        assert_published("order.placed", key="7", count=1)
        assert_published("order.*", where={"total__gte": 10}, count=2)
        assert_published("order.placed", payload={"total": 20}, count=1)
        assert_not_published("order.placed", payload={"total": 21})
        assert_not_published("order.placed", key="8")
        assert_not_published("order.gone")

    def test_a_typed_event_is_found_by_its_class_or_an_instance(self) -> None:
        publish(Shipped(parcel=7, weight=Decimal("1.50")))

        assert_published(Shipped, count=1, key="7")
        assert_published(Shipped(parcel=7, weight=Decimal("1.50")))
        assert_not_published(Shipped(parcel=8))
        with pytest.raises(InvalidEvent, match="its own payload"):
            assert_published(Shipped(parcel=8), payload=1)

    def test_a_missing_event_is_an_error_that_lists_the_published_ones(self) -> None:
        with pytest.raises(AssertionError, match="found 0.\nNo event was published"):
            assert_published("order.paid")
        publish("order.placed", {"total": 5}, key="7")

        with pytest.raises(AssertionError) as raised:
            assert_published("order.*", where={"total": 6}, count=2)

        assert str(raised.value) == (
            "Expected 2 events of order.* with where={'total': 6}, found 0.\n"
            "Published:\n"
            "  order.placed: key='7', {\"total\": 5}"
        )
        with pytest.raises(AssertionError, match="Expected 0 events of order.placed, found 1"):
            assert_not_published("order.placed")
        with pytest.raises(InvalidFilter, match="topics="):
            assert_published("order..")
        with pytest.raises(InvalidFilter, match="topics=7"):
            assert_published(7)  # type: ignore[arg-type]

    def test_an_assertion_gives_no_position(self) -> None:
        publish("order.placed")

        assert_published("order.placed")

        assert EventInbox.objects.count() == 1


class TestInATestCase(Following, TestCase):
    def test_an_error_of_the_database_leaves_the_transaction_usable(self) -> None:
        AuthGroup.objects.create(name="one")

        def handle(event: RecordedEvent) -> None:
            AuthGroup.objects.create(name="one")

        declare(handle, max_attempts=1)
        publish("stock.moved", 1)

        with pytest.raises(IntegrityError):
            run_all(raise_errors=True)

        assert AuthGroup.objects.count() == 1
        assert Message.objects.get().channel == "group:g"

    def test_the_limits_of_the_session_are_those_of_before(self) -> None:
        publish("order.placed", {"sku": "A1"})

        def limit() -> Any:
            with connection.cursor() as cursor:
                cursor.execute("SELECT current_setting('lock_timeout')")
                return cursor.fetchone()

        before = limit()
        run_all()
        assert limit() == before


class TestInATransactionTestCase(Following, TransactionTestCase):
    def test_a_reader_s_partitions_are_free_afterwards(self) -> None:
        declare(lambda event: None)
        publish("stock.moved", 1)

        run_all()

        assert Cursor.objects.get(group="g").reader_id is None

    def test_events_with_a_position_are_handled_by_groups_that_were_there(self) -> None:
        seen: list[RecordedEvent] = []
        declare(seen.append)
        groups.make("g")
        publish("stock.moved", 1)
        assert len(read()) == 1

        run_all()

        assert payloads(seen) == [1]

    def test_nothing_is_committed_inside_a_transaction(self) -> None:
        with pytest.raises(IntegrityError), transaction.atomic():
            publish("order.placed", {"sku": "A1"})
            assert len(run_all()) == 1
            raise IntegrityError

        assert_not_published("order.placed")
        assert groups.states() == []
