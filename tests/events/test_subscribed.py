"""What is promised of subscriptions, and of what is published later and together."""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from typing import Any

import psycopg
import pytest
import time_machine
from django.core.management import call_command
from django.db import DatabaseError, transaction
from django.utils import timezone

from pgqueue import (
    BufferedPublisher,
    InvalidSubscription,
    publish,
    publish_later,
    publish_many,
)
from pgqueue.engine import dispatch as engine
from pgqueue.engine import matching
from pgqueue.engine.publish import NewEvent
from pgqueue.engine.sequence import catch_up
from pgqueue.events import subscriptions
from pgqueue.models import Event, Message, Subscription
from pgqueue.states import State
from tests.events import handlers
from tests.eventually import eventually
from tests.factories import refusing

Connection = psycopg.Connection[Any]


def dispatch(connection: Connection) -> None:
    """Match all events that are there with all subscriptions."""
    catch_up(connection)
    while True:
        with connection.transaction():
            if engine.step(connection).is_last:
                return


def make(name: str = "own", **options: Any) -> Subscription:
    """Make a subscription whose messages are raw."""
    return subscriptions.create(name, **{"channel": name, **options})


def given(channel: str = "own") -> list[Any]:
    """Return the payloads of the events that a subscription has had messages of."""
    rows = Message.objects.filter(channel=channel).order_by("id")
    return [row.payload["payload"] for row in rows]


class TestExactlyOnce:
    def test_a_step_that_is_rolled_back_is_done_once_all_the_same(
        self, connection: Connection
    ) -> None:
        make()
        publish_many([("order.paid", n) for n in range(3)])
        catch_up(connection)

        with pytest.raises(ZeroDivisionError), connection.transaction():
            engine.step(connection)
            raise ZeroDivisionError
        assert given() == []
        dispatch(connection)
        dispatch(connection)

        assert given() == [0, 1, 2]

    def test_a_step_waits_for_another_one_at_a_time(
        self, connection: Connection, other: Connection
    ) -> None:
        make()
        dispatch(connection)
        publish("order.paid", 1)
        catch_up(connection)

        with connection.transaction():
            engine.step(connection)
            other.execute("SET lock_timeout = '50ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable), other.transaction():
                engine.step(other)

        assert given() == [1]

    @pytest.mark.slow
    def test_a_retry_of_a_batch_brings_exactly_the_same_events(
        self, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        subscriptions.create("stock", handlers.stock, topics="stock.*", batch=3)
        publish_many([("stock.in", {"n": n}) for n in range(3)])
        dispatch(connection)
        publish("stock.in", {"n": 3})
        dispatch(connection)
        seen: list[Any] = []

        class Fails(list[Any]):
            def append(self, numbers: Any) -> None:
                seen.append(numbers)
                # Another thread may run the other batch first.
                if len(numbers) > 1 and seen.count(numbers) == 1:
                    raise ValueError

        monkeypatch.setattr(handlers, "seen", Fails())
        call_command("runworker", "--drain")

        assert sorted(seen) == [[0, 1, 2], [0, 1, 2], [3]]


class TestOneThatFails:
    def test_is_paused_and_no_other_is(self, connection: Connection) -> None:
        for name in ("a", "bad", "c"):
            make(name, topics="order.*")
        dispatch(connection)
        Subscription.objects.filter(pk="bad").update(regex="(")
        publish("order.paid", 1)

        dispatch(connection)

        assert (given("a"), given("bad"), given("c")) == ([1], [], [1])
        bad = Subscription.objects.get(pk="bad")
        assert bad.paused
        assert "InvalidRegularExpression" in bad.error

    def test_goes_on_where_it_was_once_it_is_resumed(self, connection: Connection) -> None:
        make(topics="order.*")
        dispatch(connection)
        regex = Subscription.objects.get().regex
        Subscription.objects.update(regex="(")
        publish("order.paid", 1)
        dispatch(connection)
        publish("order.paid", 2)
        dispatch(connection)

        Subscription.objects.update(regex=regex)
        Subscription.objects.all().resume()
        dispatch(connection)

        assert given() == [1, 2]

    def test_by_taking_too_long_is_paused(
        self, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make(topics="order.*")
        make("good")
        dispatch(connection)
        publish("order." + "a" * 150)
        monkeypatch.setattr(matching, "PATIENCE", 0.1)
        function = "CREATE FUNCTION pg_temp.slow(text) RETURNS text LANGUAGE sql AS "
        connection.execute(f"{function} $$SELECT pg_sleep(20)::text || $1$$")
        slow = matching.SQL["match"].replace("topic ~ r.regex", "pg_temp.slow(topic) ~ r.regex")
        monkeypatch.setitem(matching.SQL, "match", slow)

        dispatch(connection)

        assert Subscription.objects.get(pk="own").error.startswith("QueryCanceled")
        assert not Subscription.objects.get(pk="good").paused


class TestAPause:
    def test_keeps_its_place(self, connection: Connection) -> None:
        make()
        dispatch(connection)
        Subscription.objects.all().pause()
        publish("order.paid", 1)
        dispatch(connection)
        assert given() == []

        Subscription.objects.all().resume()
        dispatch(connection)
        publish("order.paid", 2)
        dispatch(connection)

        assert given() == [1, 2]


class TestABeginning:
    @pytest.mark.parametrize(("start", "numbers"), [("now", []), ("beginning", [0, 1]), (1, [1])])
    def test_is_where_it_is_told(
        self, connection: Connection, start: Any, numbers: list[int]
    ) -> None:
        positions = Event.objects.order_by("position")
        publish_many([("order.paid", n) for n in range(2)])
        catch_up(connection)
        first = positions[0].position

        make(start=first if start == 1 else start)
        dispatch(connection)
        publish("order.paid", 2)
        dispatch(connection)

        assert given() == [*numbers, 2]

    def test_far_back_holds_no_other_up(self, connection: Connection) -> None:
        make("new")
        publish_many([("order.paid", n) for n in range(5)])
        catch_up(connection)
        make("old", start="beginning")
        with connection.transaction():
            engine.step(connection, limit=5)
        publish("order.paid", 5)
        catch_up(connection)

        with connection.transaction():
            engine.step(connection, limit=2)

        assert given("new") == [0, 1, 2, 3, 4, 5]
        dispatch(connection)
        assert given("old") == given("new")


class TestMadeAtRunTime:
    def test_it_is_part_of_its_transaction(self, connection: Connection) -> None:
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            make()
            raise ZeroDivisionError

        assert not Subscription.objects.exists()

    def test_it_is_one_for_each_name(self, connection: Connection) -> None:
        make()

        with pytest.raises(InvalidSubscription, match="already"):
            make()

    def test_it_ends_unless_it_is_renewed(self, connection: Connection) -> None:
        make("kept", expires_after=60)
        make("left", expires_after=60)
        publish("order.paid", 1)
        Subscription.objects.update(expires_at=timezone.now() - timedelta(seconds=1))

        assert subscriptions.renew("kept")
        dispatch(connection)

        assert list(Subscription.objects.values_list("name", flat=True)) == ["kept"]
        assert (given("kept"), given("left")) == ([1], [])

    @pytest.mark.parametrize("wrong_by", [-3600, 3600])
    def test_it_ends_by_the_databases_clock(self, wrong_by: int) -> None:
        with time_machine.travel(time.time() + wrong_by, tick=True):
            make("made", expires_after=60)
            make("renewed", expires_after=60)
            subscriptions.renew("renewed")

        for each in Subscription.objects.all():
            assert abs(each.expires_at - timezone.now()) < timedelta(seconds=61)

    def test_it_may_be_deleted_and_leaves_its_messages(self, connection: Connection) -> None:
        make()
        publish("order.paid", 1)
        dispatch(connection)

        assert subscriptions.delete("own")
        publish("order.paid", 2)
        dispatch(connection)

        assert given() == [1]


class TestOfCode:
    def test_it_rests_while_no_worker_has_it_and_keeps_its_place(
        self, connection: Connection
    ) -> None:
        make()
        dispatch(connection)
        long_ago = timezone.now() - timedelta(minutes=6)
        Subscription.objects.update(declared=True, seen_at=long_ago)
        publish("order.paid", 1)
        dispatch(connection)
        assert given() == []

        Subscription.objects.update(seen_at=timezone.now())
        dispatch(connection)

        assert given() == [1]


class TestConditions:
    def test_are_values_and_never_sql(self, connection: Connection) -> None:
        odd = """'; DELETE FROM pgqueue_event; -- " || $v0 \\ %(x)s {} $1"""
        make(where={"name": odd, odd: {"startswith": odd}}, topics=["order.paid'.x", "order.*"])
        publish("order.paid", {"name": odd, odd: odd + "!"})
        publish("order.paid", {"name": "'", odd: odd})

        dispatch(connection)

        assert given() == [{"name": odd, odd: odd + "!"}]

    def test_of_many_that_are_equal_but_for_a_value_are_looked_up(
        self, connection: Connection
    ) -> None:
        for customer in range(300):
            make(f"customer {customer}", where={"customer": customer, "total__gt": 5})
        publish_many([("order.paid", {"customer": n % 300, "total": n}) for n in range(0, 900, 9)])

        dispatch(connection)

        found = Message.objects.values_list("channel", "payload__payload__total")
        assert sorted(found) == sorted((f"customer {n % 300}", n) for n in range(9, 900, 9))


class TestKeys:
    @pytest.mark.parametrize(
        ("key", "keys"),
        [
            ("", {""}),
            ("same", {"same"}),
            ("{key}", {"k"}),
            ("{topic}", {"order.paid"}),
            ("{payload.customer.id}", {"7", ""}),
        ],
    )
    def test_come_from_the_event(self, connection: Connection, key: str, keys: set[str]) -> None:
        make(key=key)
        publish("order.paid", {"customer": {"id": 7}}, key="k")
        publish("order.paid", {}, key="k")

        dispatch(connection)

        assert set(Message.objects.values_list("key", flat=True)) == keys


class TestPublishLater:
    def test_publishes_once_and_then(self, connection: Connection) -> None:
        result = publish_later("order.late", {"order": 7}, key="k", run_after=3600)
        assert Message.objects.get().state == State.SCHEDULED
        Message.objects.update(state=State.READY)

        call_command("runworker", "--drain")
        catch_up(connection)

        assert list(Event.objects.values_list("topic", "key", "payload")) == [
            ("order.late", "k", {"order": 7})
        ]
        result.refresh()
        assert result.status == "succeeded"

    def test_that_is_cancelled_publishes_nothing(self, connection: Connection) -> None:
        publish_later("order.late", run_after=0).cancel()

        call_command("runworker", "--drain")
        catch_up(connection)

        assert not Event.objects.exists()


class TestABufferedPublisher:
    def test_publishes_what_threads_gave_it_together(self, connection: Connection) -> None:
        with BufferedPublisher(flush_every=0.05) as publisher:
            for n in range(10):
                publisher.publish("page.seen", n)

            def is_there() -> bool:
                catch_up(connection)
                return Event.objects.count() == 10

            eventually(is_there)

    def test_publishes_what_is_left_when_it_is_closed(self, connection: Connection) -> None:
        publisher = BufferedPublisher(flush_every=60)
        publisher.publish("page.seen", 1)

        publisher.close()
        catch_up(connection)

        assert Event.objects.count() == 1

    def test_logs_what_the_database_refuses_and_publishes_all_others(
        self, connection: Connection, caplog: pytest.LogCaptureFixture
    ) -> None:
        with (
            refusing(connection, "pgqueue_event_inbox", "NEW.payload = '3'"),
            BufferedPublisher(flush_every=60) as publisher,
        ):
            for n in range(9):
                publisher.publish("page.seen", n)
            publisher.flush()
        catch_up(connection)

        seen = Event.objects.order_by("position").values_list("payload", flat=True)
        assert list(seen) == [0, 1, 2, 4, 5, 6, 7, 8]
        assert caplog.text.count("An event could not be published") == 1

    @pytest.mark.slow
    def test_logs_in_full_what_it_could_not_publish(
        self,
        connection: Connection,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        publisher = BufferedPublisher(flush_every=60)
        publisher.publish("page.seen", {"path": "/é"})

        def refuse(django: Any, events: list[NewEvent]) -> None:
            raise DatabaseError

        monkeypatch.setattr("pgqueue.events.buffering.engine.publish_many", refuse)
        with caplog.at_level(logging.ERROR, "pgqueue"):
            publisher.close()

        assert "page.seen" in caplog.text
        assert "é" in caplog.text
