"""The duty that makes messages of events: exactly once, whichever worker does it or dies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from pgqueue import publish, publish_many, signals, subscribe
from pgqueue.database.connections import Contact, Session
from pgqueue.duties.dispatch import Dispatch
from pgqueue.duties.run import run_duty
from pgqueue.duties.service import Duties
from pgqueue.engine import dispatch as engine
from pgqueue.engine import duty, sequence
from pgqueue.events import growth, subscribing, subscriptions
from pgqueue.exceptions import InvalidSubscription
from pgqueue.models import Message, Reader, Subscription
from tests.events import handlers
from tests.eventually import eventually
from tests.factories import LEASE, Connection, one
from tests.hearing import heard
from tests.stepping import Step

DAY = timedelta(days=1)
ALWAYS = Contact(lease=LEASE)


@pytest.fixture(autouse=True)
def _nobody_waits() -> Iterator[None]:
    yield
    growth.forget_all()


@pytest.fixture(autouse=True)
def _no_code(monkeypatch: pytest.MonkeyPatch) -> None:
    subscribing.declared("default")  # imports what would declare its own later
    monkeypatch.setattr(subscribing, "_subscriptions", {})


@pytest.fixture
def service() -> Iterator[Duties]:
    """The duties of a worker, which does no other ones."""
    own = Dispatch(database="default", subscribing=subscribing)
    with closing(Session("default", name="test")) as session:
        service = Duties(session, [own], lease=LEASE, on_done=lambda: None)
        yield service
        own.close()


def a_duty() -> Dispatch:
    """The duty of another worker."""
    return Dispatch(database="default", subscribing=subscribing)


def create(name: str = "all", **options: Any) -> Subscription:
    return subscriptions.create(name, handlers.plain, **options)


def begin(connection: Connection) -> None:
    """Have a subscription that follows."""
    create()
    with connection.transaction():
        engine.step(connection)


def publish_numbers(connection: Connection, *given: int) -> None:
    """Publish events, and give them positions."""
    publish_many([("n", n) for n in given])
    sequence.advance(connection)


def numbers(name: str = "all") -> list[int]:
    messages = Message.objects.filter(metadata__subscription=name).order_by("id")
    return [each.payload["args"][0]["payload"] for each in messages]


class TestTwoWorkers:
    def test_dispatch_each_event_once(self, connection: Connection, other: Connection) -> None:
        begin(connection)
        duty.due(connection, ["dispatch"])
        publish_numbers(connection, 1, 2)

        with connection.transaction():
            assert duty.take(connection, "dispatch", early=True)
            a_duty().run(connection)
            assert run_duty(other, a_duty(), contact=ALWAYS, early=True) is None
        publish_numbers(connection, 3)
        run_duty(other, a_duty(), contact=ALWAYS, early=True)

        assert numbers() == [1, 2, 3]

    def test_wait_for_each_other_where_no_duty_keeps_them_apart(
        self, connection: Connection, other: Connection, step: Callable[..., Step]
    ) -> None:
        begin(connection)
        publish_numbers(connection, 1, 2)

        with connection.transaction():
            engine.step(connection)
            waiting = step(in_transaction, other)
            waiting.waits()

        assert waiting.result().events == 0
        assert numbers() == [1, 2]

    @pytest.mark.parametrize("was_stored", [False, True], ids=["before", "after"])
    def test_lose_and_repeat_nothing_where_one_is_killed_amid_a_step(
        self,
        connection: Connection,
        other: Connection,
        third: Connection,
        step: Callable[..., Step],
        was_stored: bool,
    ) -> None:
        begin(connection)
        publish_numbers(connection, 1, 2)
        other.execute("BEGIN")
        other.execute(engine.SQL["lock"])
        if was_stored:
            assert engine.step(other).messages == 2
        waiting = step(in_transaction, connection)
        waiting.waits()

        third.execute("SELECT pg_terminate_backend(%s)", [other.info.backend_pid])

        assert waiting.result() == engine.DispatchStep(2, 2, is_last=True)
        assert numbers() == [1, 2]
        with pytest.raises(psycopg.OperationalError):
            other.execute("COMMIT")

    def test_begin_at_the_end_of_the_log_together(
        self, connection: Connection, other: Connection, step: Callable[..., Step]
    ) -> None:
        publish_numbers(connection, 1)

        with connection.transaction():
            engine.step(connection)
            waiting = step(in_transaction, other)
            waiting.waits()

        waiting.result()
        assert one(connection, 'SELECT position FROM pgqueue_cursor WHERE "group" = %s', "") == (1,)


def in_transaction(connection: Connection) -> engine.DispatchStep:
    with connection.transaction():
        return engine.step(connection)


class TestAStep:
    def test_matches_so_many_events_and_says_whether_there_are_more(
        self, connection: Connection
    ) -> None:
        begin(connection)
        publish_numbers(connection, *range(5))

        steps = []
        for _ in range(4):
            with connection.transaction():
                steps.append(engine.step(connection, limit=2))

        assert [(each.events, each.messages, each.is_last) for each in steps] == [
            (2, 2, False), (2, 2, False), (1, 1, True), (0, 0, True),
        ]  # fmt: skip
        assert numbers() == list(range(5))

    def test_matches_so_many_bytes_and_one_event_at_least(
        self, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(engine, "BYTES", 1000)
        begin(connection)
        publish_many([("n", "x" * size) for size in (600, 600, 600, 5000)])
        sequence.advance(connection)

        assert [in_transaction(connection).events for _ in range(3)] == [2, 2, 0]

    def test_reads_no_events_where_nobody_follows(self, connection: Connection) -> None:
        with connection.transaction():
            engine.step(connection)
        publish_numbers(connection, 1, 2, 3)
        create("ahead", start=2)

        with connection.transaction():
            assert engine.step(connection) == engine.DispatchStep(1, 1, is_last=True)

        assert numbers("ahead") == [3]
        assert Subscription.objects.get().follows

    def test_tells_what_it_did(self, connection: Connection, service: Duties) -> None:
        begin(connection)
        create("none", topics="other")
        own = service._duties[0]
        publish_numbers(connection, 1, 2, 3)

        service.tick()

        assert own.did == {"events": 3, "messages": 3}


class TestAWorker:
    def test_dispatches_what_is_published_at_once(self, service: Duties) -> None:
        create()
        service.tick()
        publish("n", 1)

        nap = service.tick()

        assert numbers() == [1]
        assert nap <= timedelta(seconds=1)

    def test_goes_on_at_once_where_there_is_more(
        self, connection: Connection, service: Duties, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        create()
        service.tick()
        step = engine.step
        monkeypatch.setattr(engine, "step", lambda connection: step(connection, limit=2))
        publish_numbers(connection, *range(9))

        assert service.tick() < timedelta(seconds=0.1)
        for _ in range(4):
            service.tick()

        assert numbers() == list(range(9))

    def test_that_idles_is_woken_by_those_who_publish(
        self, service: Duties, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        create()
        service.tick()
        eventually(Reader.objects.filter(notify_until__isnull=False).exists)
        service._nudge.clear()

        publish("n", 1)

        eventually(service._nudge.is_set)

    def test_asks_nobody_to_wake_it_where_there_are_no_subscriptions(self, service: Duties) -> None:
        service.tick()

        assert not Reader.objects.exists()
        assert growth._open == {}

    def test_asks_no_more_once_it_ends(self, service: Duties) -> None:
        create()
        service.tick()

        service.finish()
        service.finish()

        assert all(not each._waiting for each in growth._open.values())

    def test_does_not_spin_where_another_one_dispatches(
        self, connection: Connection, other: Connection, service: Duties
    ) -> None:
        begin(connection)
        service.tick()
        publish_numbers(connection, 1)

        with other.transaction():
            assert duty.take(other, "dispatch", early=True)
            naps = [service.tick() for _ in range(3)]

        assert min(naps) >= timedelta(seconds=0.05)


class TestTheCode:
    def test_is_declared_by_each_worker_whichever_dispatches(
        self, connection: Connection, service: Duties
    ) -> None:
        duty.due(connection, ["dispatch"])
        duty.done(connection, "dispatch", again_in=DAY)
        subscribe("n", name="ours")(handlers.plain)

        service.tick()

        assert Subscription.objects.get().declared

    def test_that_can_not_be_read_keeps_none_of_the_others_waiting(
        self, service: Duties, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        create()

        def fail(database: str) -> None:
            raise InvalidSubscription("Two have one name.")

        monkeypatch.setattr(subscribing, "declared", fail)
        with heard(signals.service_failed, "service") as failed:
            service.tick()
        publish("n", 1)
        service.tick()

        assert failed == ["subscriptions"]
        assert numbers() == [1]

    def test_is_declared_where_no_worker_looks_first(self, connection: Connection) -> None:
        duty.due(connection, ["dispatch"])
        subscribe("n", name="ours")(handlers.plain)

        run_duty(connection, a_duty(), contact=ALWAYS, early=True)

        assert Subscription.objects.get().name == "ours"
