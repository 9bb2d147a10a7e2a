"""A relay gives nothing up, keeps the order of each key, and holds nothing else up."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.core.management import call_command

from pgqueue import (
    Channel,
    Exponential,
    InvalidFilter,
    InvalidSubscription,
    InvalidTask,
    publish,
    publish_many,
    relay,
)
from pgqueue.events import subscribing
from pgqueue.models import History, Message, Subscription
from pgqueue.states import State
from pgqueue.testing import run_all
from tests.events import relays
from tests.events.conftest import dispatching
from tests.factories import Connection

Dispatch = Callable[[], None]


@pytest.fixture(autouse=True)
def _the_broker_is_there() -> Iterator[None]:
    relays.broker.clear()
    relays.in_a_batch.clear()
    relays.is_away = False
    yield
    relays.is_away = False


@pytest.fixture
def code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that declares no subscriptions but those of the test."""
    subscribing.declared("default")
    monkeypatch.setattr(subscribing, "_subscriptions", {})


class TestARelay:
    def test_has_a_channel_of_its_own_an_order_and_no_cap(self, dispatch: Dispatch) -> None:
        publish("relayed.a", 1, key="k")
        dispatch()

        found = {each.channel: each for each in Message.objects.all()}
        assert set(found) == {"tests.events.relays.one_by_one", "in batches"}
        message = found["tests.events.relays.one_by_one"]
        assert (message.key, message.ordered, message.max_attempts) == ("k", True, 2**31 - 1)
        assert (found["in batches"].key, found["in batches"].ordered) == ("", True)

    def test_waits_a_minute_at_most(self) -> None:
        backoff = relays.one_by_one.backoff

        assert backoff == Exponential(base=1, cap=60)

    def test_loses_nothing_however_often_it_fails(self, dispatch: Dispatch) -> None:
        publish_many([("relayed.a", n, f"k{n % 2}") for n in range(6)])
        dispatch()
        relays.is_away = True
        # A day of one attempt a minute.
        Message.objects.update(failures=1440)
        assert {each.status for each in run_all()} == {State.SCHEDULED}

        relays.is_away = False
        Message.objects.filter(state=State.SCHEDULED).run_now()
        run_all(raise_errors=True)

        assert [[n for n in relays.broker if n % 2 == k] for k in (0, 1)] == [[0, 2, 4], [1, 3, 5]]
        assert relays.in_a_batch == list(range(6))
        assert not Message.objects.exists()

    def test_that_is_told_a_number_gives_up_after_it(
        self, code: None, connection: Connection
    ) -> None:
        relay("n", name="capped", max_attempts=2, backoff=[0])(relays.to_be_capped)
        with dispatching(connection) as dispatch:
            publish("n", 1)
            dispatch()
        relays.is_away = True

        run_all(retries=True)

        assert Message.objects.get().state == State.DEAD

    def test_buries_at_once_what_its_backoff_has_no_hope_for(
        self, code: None, connection: Connection
    ) -> None:
        relay("n", name="choosy", backoff=relays.no_hope)(relays.to_be_choosy)
        with dispatching(connection) as dispatch:
            publish_many([("n", "too large", "a"), ("n", 1, "a"), ("n", 2, "b")])
            dispatch()

        run_all()

        # Of its key, what is behind it waits until somebody looks at it.
        assert relays.broker == [2]
        assert Message.objects.get(state=State.DEAD).errors
        Channel("choosy").discard()
        run_all(raise_errors=True)
        assert relays.broker == [2, 1]

    def test_may_be_a_task_that_is_there_already(self, code: None, connection: Connection) -> None:
        relay("n")(relays.plain)
        with dispatching(connection) as dispatch:
            publish("n", 1, key="k")
            dispatch()

        message = Message.objects.get()
        assert (message.channel, message.ordered) == (relays.plain.name, True)
        assert message.max_attempts == 2**31 - 1

    def test_needs_no_order(self, code: None, connection: Connection) -> None:
        relay("n", name="loose", ordered=False, channel="shared")(relays.plain)
        with dispatching(connection) as dispatch:
            publish("n", 1, key="k")
            dispatch()

        message = Message.objects.get()
        assert (message.channel, message.key, message.ordered) == ("shared", "k", False)

    def test_of_one_broker_holds_no_other_up(self, dispatch: Dispatch) -> None:
        publish_many([("relayed.a", n, "k") for n in range(3)])
        dispatch()
        Channel("tests.events.relays.one_by_one").pause()

        run_all(raise_errors=True)

        assert (relays.broker, relays.in_a_batch) == ([], [0, 1, 2])
        assert History.objects.count() == 1
        assert Message.objects.count() == 3

    def test_is_listed_as_the_subscription_that_it_is(self, dispatch: Dispatch) -> None:
        names = set(Subscription.objects.values_list("name", flat=True))

        assert {"tests.events.relays.one_by_one", "in batches"} <= names
        call_command("pgqueue_subscription", "pause", "in batches")
        assert Subscription.objects.get(pk="in batches").paused


@pytest.mark.usefixtures("code")
class TestARefusal:
    def test_names_what_is_wrong(self) -> None:
        for options, error, said in (
            ({"channel": "c" * 201}, InvalidTask, "channel='ccc"),
            ({"key": "{other}"}, InvalidSubscription, "key='{other}'"),
            ({"dedupe_key": "a"}, InvalidSubscription, "dedupe_key"),
            ({"max_attempts": 0}, InvalidTask, "max_attempts=0"),
            ({"backoff": 5}, InvalidTask, "backoff=5"),
        ):
            with pytest.raises(error, match=said):
                relay("a", **options)(relays.to_be_capped)
        with pytest.raises(InvalidFilter, match="topics='a..b'"):
            relay("a..b")(relays.to_be_capped)

    def test_of_a_backoff_says_where_it_belongs(self) -> None:
        with pytest.raises(InvalidSubscription, match="backoff: give it to .*plain"):
            relay("a", backoff=[1])(relays.plain)
