"""Subscriptions make messages of events, exactly once each."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connections, transaction

from pgqueue import (
    Channel,
    InvalidSubscription,
    RecordedEvent,
    UnknownTask,
    publish,
    publish_many,
    receive,
    signals,
    subscribe,
)
from pgqueue.duties.dispatch import Dispatch as Duty
from pgqueue.engine import dispatch as engine
from pgqueue.engine import duty, matching, notifications, retention
from pgqueue.engine.sequence import catch_up
from pgqueue.events import subscribing, subscriptions
from pgqueue.exceptions import InvalidFilter, InvalidTask
from pgqueue.models import Channel as ChannelRow
from pgqueue.models import Event, History, Message, Subscription
from pgqueue.testing import run_all
from tests.events import handlers
from tests.events.conftest import dispatching
from tests.factories import Connection, Listening, limit, register
from tests.hearing import heard
from tests.stepping import Step

MINUTE = timedelta(minutes=1)
Dispatch = Callable[[], None]


@pytest.fixture(autouse=True)
def _nothing_seen() -> Iterator[None]:
    handlers.seen.clear()
    yield
    handlers.seen.clear()


@pytest.fixture
def code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that declares no subscriptions but those of the test."""
    subscribing.declared("default")  # imports what would declare its own later
    monkeypatch.setattr(subscribing, "_subscriptions", {})


def stored() -> list[tuple[str, Any]]:
    """Return the messages: the task's function, and the payloads of its events."""
    found = []
    for each in Message.objects.order_by("id"):
        [given] = each.payload["args"]
        events = given if isinstance(given, list) else [given]
        found.append((each.task.rpartition(".")[2], [event["payload"] for event in events]))
    return found


def numbers(name: str) -> list[int]:
    """Return the payloads of the events that a subscription made messages of, in their order."""
    messages = Message.objects.filter(metadata__subscription=name).order_by("id")
    return [each.payload["args"][0]["payload"] for each in messages]


def create(name: str, **options: Any) -> Subscription:
    """Make a subscription at run time, of all events if nothing else is said."""
    return subscriptions.create(name, handlers.plain, **options)


def publish_numbers(*given: int, topic: str = "n") -> None:
    publish_many([(topic, n) for n in given])


def row(name: str) -> Subscription:
    return Subscription.objects.get(pk=name)


def let_pass(connection: Connection, **ago: float) -> None:
    """Have no worker declare anything for so long."""
    connection.execute(
        "UPDATE pgqueue_subscription SET seen_at = statement_timestamp() - %s", [timedelta(**ago)]
    )


class TestInCode:
    def test_events_become_messages_of_the_subscriptions_that_want_them(
        self, dispatch: Dispatch
    ) -> None:
        publish(handlers.Paid(order_id=7, total=Decimal(150)))
        publish("order.made", {"total": 150})
        publish("order.made", {"total": 50})

        dispatch()
        dispatch()

        assert stored() == [
            ("paid", [{"order_id": 7, "total": "150"}]),
            ("large", [{"order_id": 7, "total": "150"}]),
            ("large", [{"total": 150}]),
        ]

    def test_functions_are_given_what_their_type_hints_name(self, dispatch: Dispatch) -> None:
        paid = handlers.Paid(order_id=7, total=Decimal("1.50"))
        publish(paid, metadata={"by": "a"})
        publish_many([handlers.Moved(n=n) for n in (1, 2)])
        publish("order.made", {"total": 150, "at": datetime(2026, 1, 1, tzinfo=UTC)}, key="k")
        publish("report.made", {"is": "async"})
        dispatch()

        run_all(raise_errors=True)

        given = [each for each in handlers.seen if each != "house.moved"]
        assert given[:2] == [paid, [1, 2]]
        made = given[2]
        assert isinstance(made, RecordedEvent)
        assert (made.topic, made.key, made.position) == ("order.made", "k", 4)
        assert made.payload == {"total": 150, "at": datetime(2026, 1, 1, tzinfo=UTC)}
        assert given[3] == {"is": "async"}

    def test_a_context_says_which_subscription_and_position(self, dispatch: Dispatch) -> None:
        publish("mail.in", key="a")
        dispatch()
        assert Message.objects.get().metadata == {
            "subscription": "tests.events.handlers.mail", "position": 1,
        }  # fmt: skip

        run_all(raise_errors=True)

        assert handlers.seen == [("tests.events.handlers.mail", "a")]

    def test_a_function_may_have_several(self, dispatch: Dispatch) -> None:
        publish_many([("house.sold",), ("house.burnt",), ("house.built",)])
        dispatch()

        rows = Message.objects.order_by("id").values_list(
            "metadata__subscription", "channel", "priority", "options"
        )
        assert list(rows) == [
            ("twice, all", "default", 0, None),
            ("twice, sold", "sold", 7, {"weight": 5}),
            ("twice, all", "default", 0, None),
            ("twice, burnt", "default", 0, None),
            ("twice, all", "default", 0, None),
        ]
        assert {each.task.name for each in run_all(raise_errors=True)} == {handlers.twice.name}

    def test_messages_have_the_options_of_the_task(self, dispatch: Dispatch) -> None:
        publish("fail.a", {"deep": {"n": 1, "who": "x"}})
        publish("fail.a", {"deep": {"n": 0}})

        dispatch()

        message = Message.objects.get()
        assert (message.channel, message.priority, message.max_attempts) == ("failing", -3, 2)
        assert (message.key, message.metadata["team"]) == ("x", "a")
        assert message.options == {"weight": 100}

    def test_the_digest_of_a_plain_weight_is_the_one_of_older_versions(self) -> None:
        own = subscribing._subscriptions["twice, all"]
        heavy = replace(own, task=own.task.using(weight=2))
        plain, other = subscribing._described(own), subscribing._described(heavy)
        described = {**plain._asdict(), "metadata": own.task.metadata_json}
        for name in ("weight", "definition", "start"):
            del described[name]

        text = json.dumps(described, sort_keys=True, default=str)

        assert plain.definition == hashlib.sha256(text.encode()).hexdigest() != other.definition

    def test_a_retry_of_a_batch_brings_exactly_the_same_events(self, dispatch: Dispatch) -> None:
        publish_many([("fail.a", {"deep": {"n": n, "who": "x"}}) for n in (1, 2, 0, 3, 4)])
        dispatch()
        publish("fail.a", {"deep": {"n": 9, "who": "x"}})
        dispatch()

        run_all(retries=True)

        assert sorted(handlers.seen) == [[1, 2, 4], [1, 2, 4], [5], [6]]
        first = History.objects.filter(attempt=2).get()
        assert (first.outcome, first.failures) == ("succeeded", 1)

    def test_a_batch_has_so_many_events_at_most_that_agree_in_what_splits_it(
        self, dispatch: Dispatch
    ) -> None:
        publish_many([("stock.in.eu", {"n": n, "place": "ab"[n % 2]}) for n in range(8)])

        dispatch()

        found = [[each["n"] for each in payloads] for _, payloads in stored()]
        assert sorted(found) == [[0, 2, 4], [1, 3, 5], [6], [7]]

    def test_ordered_messages_have_the_order_of_the_log_and_the_keys_of_their_events(
        self, dispatch: Dispatch
    ) -> None:
        publish_many([("mail.in", n, f"k{n % 2}") for n in range(4)])

        dispatch()

        rows = Message.objects.order_by("id").values_list("key", "ordered", "governed")
        assert list(rows) == [("k0", True, True), ("k1", True, True)] * 2

    def test_a_function_can_be_called_as_it_is(self) -> None:
        event = handlers.Paid(order_id=1)

        handlers.paid(event)
        handlers.houses([handlers.Moved(n=3)])

        assert handlers.seen == [event, [3]]


def takes_one(event: RecordedEvent) -> None:
    """A function that no subscription has yet."""


def takes_none() -> None:
    """A function that can't be subscribed."""


@pytest.mark.usefixtures("code")
class TestARefusal:
    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"name": 5}, "name=5"),
            ({"name": "n" * 501}, "name='nnn"),
            ({"key": "{payload}"}, "key='{payload}'.*{payload.NAME}"),
            ({"key": "k" * 1001}, "key='kkk"),
            ({"batch": 0}, "batch=0"),
            ({"batch": 10_001}, "batch=10001"),
            ({"batch": "2"}, "batch='2'"),
            ({"split_by": "{key}"}, "split_by.*give batch=, too"),
            ({"split_by": "{other}", "batch": 2}, "split_by='{other}'"),
            ({"start": "then"}, "start='then'"),
            ({"start": datetime(2026, 1, 1)}, "start=.*time zone"),
            ({"expires_after": 0}, "expires_after=0"),
            ({"run_after": 5}, "run_after: messages that are made of events have none"),
            ({"dedupe_key": "a"}, "dedupe_key: messages"),
        ],
    )
    def test_names_the_culprit(self, options: dict[str, Any], said: str) -> None:
        with pytest.raises(InvalidSubscription, match=said):
            subscribe("a", **options)(takes_one)

    def test_of_a_filter_or_of_an_option_of_tasks_does_so_too(self) -> None:
        with pytest.raises(InvalidFilter, match="topics='a..b'"):
            subscribe("a..b")
        with pytest.raises(InvalidFilter, match="where\\['a__gte'\\]"):
            subscribe(where={"a__gte": object()})
        with pytest.raises(InvalidTask, match="priority=1000"):
            subscribe("a", priority=1000)(takes_one)
        with pytest.raises(InvalidTask, match="weight=101"):
            subscribe("a", weight=101)(takes_one)

    def test_of_a_function_says_why(self) -> None:
        with pytest.raises(InvalidSubscription, match="must be a function"):
            subscribe("a")(5)  # type: ignore[arg-type]
        with pytest.raises(InvalidSubscription, match="takes_none must take an event"):
            subscribe("a")(takes_none)
        with pytest.raises(InvalidSubscription, match="must take an event"):
            subscribe("a", takes_context=True)(takes_one)

    def test_of_a_name_that_another_has_names_it(self) -> None:
        subscribe("a", name="mine")(handlers.plain)

        with pytest.raises(InvalidSubscription, match="name='mine': tests.events.handlers.plain"):
            subscribe("b", name="mine")(handlers.many)

    def test_of_a_second_one_of_a_function_without_a_name_of_its_own(self) -> None:
        subscribe("a")(handlers.plain)

        with pytest.raises(InvalidSubscription, match="has a subscription of this name"):
            subscribe("b")(handlers.plain)

    def test_of_what_belongs_to_a_task_that_is_there_already(self) -> None:
        with pytest.raises(InvalidSubscription, match="timeout: give it to .*plain"):
            subscribe("a", timeout=5)(handlers.plain)
        with pytest.raises(InvalidSubscription, match="batch=5: .*large takes one event"):
            subscribe("a", batch=5, name="b")(handlers.large)
        with pytest.raises(InvalidSubscription, match="batch=None: .*stock takes a list of events"):
            subscribe("a", name="c")(handlers.stock)


class TestWhereItBegins:
    @pytest.fixture(autouse=True)
    def _some_events(self, code: None, connection: Connection) -> None:
        publish_numbers(1, 2, 3)
        catch_up(connection)
        connection.execute(
            "UPDATE pgqueue_event "
            "SET created_at = '2026-01-01'::timestamptz + position * interval '1 day'"
        )

    @pytest.mark.parametrize(
        ("start", "expected"),
        [
            ("now", [4]),
            ("beginning", [1, 2, 3, 4]),
            (2, [3, 4]),
            (datetime(2026, 1, 3, tzinfo=UTC), [2, 3, 4]),
        ],
    )
    def test_is_where_it_says(
        self, connection: Connection, start: Any, expected: list[int]
    ) -> None:
        subscribe("n", start=start, name="new")(handlers.plain)

        with dispatching(connection) as dispatch:
            publish_numbers(4)
            dispatch()

        assert numbers("new") == expected
        assert row("new").follows

    def test_is_behind_what_was_published_before_though_it_has_no_position_yet(
        self, connection: Connection
    ) -> None:
        subscribe("n", name="new")(handlers.plain)
        publish_numbers(4)

        with dispatching(connection) as dispatch:
            publish_numbers(5)
            dispatch()

        assert numbers("new") == [5]

    def test_is_told_where_there_is_no_such_position_and_the_others_are_stored(
        self, connection: Connection
    ) -> None:
        subscribe("n", start=99, name="far")(handlers.plain)
        subscribe("n", name="other")(handlers.plain)

        with heard(signals.service_failed, "error") as errors, dispatching(connection):
            pass

        assert "no position 99" in str(errors[0])
        assert list(Subscription.objects.values_list("name", flat=True)) == ["other"]


class TestKeys:
    @pytest.mark.parametrize(
        ("key", "expected"),
        [
            ("", ""),
            ("fixed", "fixed"),
            ("{key}", "of the event"),
            ("{topic}", "a.b"),
            ("{payload.user.id}", "7"),
            ("{payload.user.name}", "Ä"),
            ("{payload.user}", '{"id": 7, "name": "Ä"}'),
            ("{payload.none}", ""),
            ("{payload.missing.id}", ""),
        ],
    )
    def test_come_from_the_event(self, dispatch: Dispatch, key: str, expected: str) -> None:
        create("keyed", key=key)
        publish("a.b", {"user": {"id": 7, "name": "Ä"}, "none": None}, key="of the event")

        dispatch()

        assert Message.objects.get().key == expected

    def test_that_are_too_long_are_those_of_a_digest(self, dispatch: Dispatch) -> None:
        create("keyed", key="{payload.a}")
        publish("a.b", {"a": "x" * 1001})

        dispatch()

        assert len(Message.objects.get().key) == 32


class TestAtRunTime:
    def test_is_made_in_the_callers_transaction(self, dispatch: Dispatch) -> None:
        with transaction.atomic():
            create("kept")
            publish_numbers(1)
        with transaction.atomic():
            create("rolled back")
            publish_numbers(2)
            transaction.set_rollback(True)
        publish_numbers(3)

        dispatch()

        assert numbers("kept") == [1, 3]
        assert not Subscription.objects.filter(pk="rolled back").exists()

    def test_commits_late_and_misses_nothing_that_came_meanwhile(self, dispatch: Dispatch) -> None:
        create("other")
        with transaction.atomic():
            create("late")
            in_thread(publish_numbers, 1, 2)
            in_thread(dispatch)

        publish_numbers(3)
        dispatch()

        assert numbers("late") == numbers("other") == [1, 2, 3]

    def test_fills_the_batches_of_each_key(self, dispatch: Dispatch) -> None:
        create("keyed", key="{key}", batch=2)
        publish_many([("a", n, "ab"[n % 2]) for n in range(4)])

        dispatch()

        rows = Message.objects.order_by("id")
        batches = [[event["payload"] for event in row.payload["args"][0]] for row in rows]
        assert batches == [[0, 2], [1, 3]]

    def test_catches_up_from_its_position_while_the_others_go_on(
        self, dispatch: Dispatch, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(engine, "_catch_up", limited(engine._catch_up, 2))
        create("follows")
        publish_numbers(1, 2, 3, 4, 5)
        dispatch()

        create("new", start=1)
        publish_numbers(6)
        engine_step(connection)
        assert numbers("follows") == [1, 2, 3, 4, 5, 6]
        assert numbers("new") == [2, 3]
        publish_numbers(7)
        dispatch()

        assert numbers("follows") == [1, 2, 3, 4, 5, 6, 7]
        assert numbers("new") == [2, 3, 4, 5, 6, 7]
        assert row("new").follows

    def test_that_begins_ahead_of_the_dispatch_waits_until_it_is_there(
        self, dispatch: Dispatch
    ) -> None:
        create("follows")
        dispatch()
        publish_numbers(1, 2, 3)
        call_command("pgqueue_maintain", verbosity=0)  # so that they have positions
        Message.objects.all().delete()
        Subscription.objects.filter(pk="follows").delete()
        create("from 2", start=2)

        dispatch()
        publish_numbers(4)
        dispatch()

        assert numbers("from 2") == [3, 4]

    def test_of_a_task_that_takes_lists(self, dispatch: Dispatch) -> None:
        subscriptions.create("lists", handlers.many.name, batch=2, channel="c", key="{topic}")
        publish_numbers(1, 2, 3)
        dispatch()

        run_all(raise_errors=True)

        assert handlers.seen == [[1, 2], [3]]

    def test_without_a_task_makes_raw_messages_that_are_the_events(
        self, dispatch: Dispatch
    ) -> None:
        subscriptions.create("raw", channel="by hand", topics="a.*", key="{key}")
        publish("a.b", {"n": 1}, key="k", metadata={"m": 2})
        dispatch()

        with receive("by hand") as receiver:
            [delivery] = receiver.take()
            event = RecordedEvent.from_plain(delivery.payload)
            delivery.complete()

        assert (event.position, event.topic, event.key) == (1, "a.b", "k")
        assert (event.payload, event.metadata) == ({"n": 1}, {"m": 2})
        assert (event.payload_json, event.metadata_json) == ('{"n": 1}', '{"m": 2}')
        assert abs(event.created_at - datetime.now(UTC)) < MINUTE
        # PostgreSQL writes no zeros at the end of a second's fractions.
        assert event.to_plain().keys() == delivery.payload.keys()
        assert RecordedEvent.from_plain(event.to_plain()) == event
        assert pickle.loads(pickle.dumps(event)) == copy.copy(event) == event  # noqa: S301
        with pytest.raises(AttributeError, match="nothing"):
            _ = event.nothing  # type: ignore[attr-defined]

    def test_expires_unless_it_is_renewed(self, dispatch: Dispatch, connection: Connection) -> None:
        create("renewed", expires_after=60)
        create("left alone", expires_after=MINUTE)
        connection.execute("UPDATE pgqueue_subscription SET expires_at = statement_timestamp()")

        assert subscriptions.renew("renewed")
        assert not subscriptions.renew("unknown")
        dispatch()
        publish_numbers(1)
        dispatch()

        assert numbers("renewed") == [1]
        assert numbers("left alone") == []
        assert not Subscription.objects.filter(pk="left alone").exists()

    def test_is_deleted_and_its_messages_are_left(self, dispatch: Dispatch) -> None:
        create("deleted")
        publish_numbers(1)
        dispatch()

        assert subscriptions.delete("deleted")
        assert not subscriptions.delete("deleted")
        publish_numbers(2)
        dispatch()

        assert numbers("deleted") == [1]

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"name": ""}, "name=''"),
            ({"task": 5}, "task=5"),
            ({"channel": 5}, "channel=5"),
            ({"task": ""}, "channel=None: raw messages need one"),
            ({"key": "{payload}"}, "key="),
            ({"ordered": "yes"}, "ordered='yes'"),
            ({"batch": 0}, "batch=0"),
            ({"split_by": "{key}"}, "split_by"),
            ({"start": 99}, "start=99.*no position 99"),
            ({"expires_after": -1}, "expires_after=-1"),
            ({"name": "taken"}, "There is a subscription 'taken' already"),
        ],
    )
    def test_names_the_culprit(self, options: dict[str, Any], said: str) -> None:
        create("taken")

        with pytest.raises(InvalidSubscription, match=said):
            subscriptions.create(**{"name": "a", "task": handlers.plain, **options})

        assert Subscription.objects.count() == 1

    def test_of_an_unknown_task_is_refused(self) -> None:
        with pytest.raises(UnknownTask, match=r"tests\.events\.handlers\.gone"):
            subscriptions.create("a", "tests.events.handlers.gone")


def in_thread(call: Callable[..., Any], *given: Any) -> None:
    """Call a function in another thread, with other connections of Django."""

    def work() -> None:
        try:
            call(*given)
        finally:
            connections.close_all()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def limited(catch_up: Callable[..., Any], limit: int) -> Callable[..., Any]:
    """Return what catches up in small steps."""
    return lambda connection, cursor, _: catch_up(connection, cursor, limit)


def engine_step(connection: Connection) -> engine.DispatchStep:
    """Do one step, as a worker does."""
    catch_up(connection)
    with connection.transaction():
        return engine.step(connection)


class TestPausing:
    def test_and_resuming_leaves_no_gap_and_repeats_nothing(self, dispatch: Dispatch) -> None:
        create("paused")
        create("other")
        publish_numbers(1, 2)
        dispatch()
        publish_numbers(3)

        Subscription.objects.filter(pk="paused").pause()
        dispatch()
        publish_numbers(4)
        dispatch()
        assert numbers("paused") == [1, 2]
        assert numbers("other") == [1, 2, 3, 4]
        Subscription.objects.filter(pk="paused").resume()
        publish_numbers(5)
        dispatch()

        assert numbers("paused") == numbers("other") == [1, 2, 3, 4, 5]

    def test_amid_a_step_that_catches_up_waits_for_it(
        self,
        dispatch: Dispatch,
        connection: Connection,
        other: Connection,
        step: Callable[..., Step],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        publish_numbers(1, 2)
        dispatch()
        create("behind", start=0)
        match, pausing = matching.Matching.run, []

        def match_and_pause(asked: matching.Matching) -> int:
            stored = match(asked)
            pausing.append(step(other.__class__.execute, other, PAUSE))
            pausing[0].waits()
            return stored

        with monkeypatch.context() as amid:
            amid.setattr(matching.Matching, "run", match_and_pause)
            engine_step(connection)
        pausing[0].result()
        Subscription.objects.resume()
        dispatch()

        assert numbers("behind") == [1, 2]

    def test_in_a_transaction_that_lasts_keeps_nobody_waiting(
        self, dispatch: Dispatch, other: Connection
    ) -> None:
        create("kept")
        create("behind")
        create("other")
        dispatch()
        Subscription.objects.filter(pk="behind").pause()
        publish_numbers(1)
        dispatch()
        Subscription.objects.filter(pk="behind").resume()
        publish_numbers(2)

        with other.transaction():
            other.execute("UPDATE pgqueue_subscription SET paused = true WHERE name <> 'other'")
            dispatch()
            assert numbers("other") == [1, 2]

        dispatch()
        Subscription.objects.resume()
        dispatch()
        assert numbers("kept") == numbers("behind") == [1, 2]

    def test_is_done_by_a_command(
        self, dispatch: Dispatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        create("mine", topics=["a.*"])
        for verb, said in (
            ("pause", "Paused."),
            ("pause", "It was paused already."),
            ("resume", "Resumed."),
            ("resume", "It was not paused."),
        ):
            call_command("pgqueue_subscription", verb, "mine")
            assert capsys.readouterr().out.strip() == said
        Subscription.objects.filter(pk="mine").update(error="Why it was paused.")
        call_command("pgqueue_subscription", "list")
        listed = capsys.readouterr().out
        assert "mine" in listed
        assert "mine: Why it was paused." in listed
        call_command("pgqueue_subscription", "delete", "mine")
        with pytest.raises(CommandError, match="no subscription 'mine'"):
            call_command("pgqueue_subscription", "pause", "mine")


PAUSE = "UPDATE pgqueue_subscription SET paused = true WHERE name = 'behind'"


CORRUPTED = {
    "a regex": {"regex": "("},
    "a jsonpath": {"path": "$.a ==="},
    "a path of the key": {"key_path": "nothing"},
    "an equality": {"eq_path": "?", "eq_value": 1},
    "a variable": {"path": "$.a == $gone"},
}


class TestOneThatCanNotBeMatched:
    @pytest.mark.parametrize("columns", CORRUPTED.values(), ids=CORRUPTED)
    def test_is_paused_with_its_error_and_the_others_go_on(
        self, dispatch: Dispatch, columns: dict[str, Any]
    ) -> None:
        for n in range(7):
            create(str(n))
        Subscription.objects.filter(pk="3").update(**columns)
        publish_many([("n", {"a": 1}), ("n", {"a": 2})])

        dispatch()
        publish("n", {"a": 3})
        dispatch()

        broken = row("3")
        assert (broken.paused, broken.follows, broken.position) == (True, False, 0)
        assert broken.error
        others = Message.objects.values_list("metadata__subscription", flat=True)
        assert sorted(others) == sorted("012456" * 3)

    def test_goes_on_where_it_was_once_it_is_mended(self, dispatch: Dispatch) -> None:
        create("broken")
        create("other")
        publish_numbers(1)
        dispatch()
        Subscription.objects.filter(pk="broken").update(regex="(")
        publish_numbers(2)
        dispatch()
        assert "invalid regular expression" in row("broken").error

        row("broken").save()
        Subscription.objects.resume()
        publish_numbers(3)
        dispatch()

        assert numbers("broken") == [1, 2, 3]
        assert row("broken").error == ""

    def test_while_it_catches_up_is_paused_too(self, dispatch: Dispatch) -> None:
        publish_numbers(1, 2)
        dispatch()
        create("broken", start=1)
        Subscription.objects.filter(pk="broken").update(regex="(")

        dispatch()

        assert (row("broken").paused, row("broken").position) == (True, 1)

    def test_in_time_is_paused(self, dispatch: Dispatch, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(matching, "PATIENCE", 0.3)
        monkeypatch.setattr(matching, "HASTE", 0.2)
        for name in ("a", "b", "slow", "z"):
            create(name)
        Subscription.objects.filter(pk="slow").update(path=SLOW)
        publish("n", {"a": list(range(5000))})

        dispatch()

        assert list(Subscription.objects.filter(paused=True)) == [row("slow")]
        assert "timeout" in row("slow").error
        names = Message.objects.values_list("metadata__subscription", flat=True)
        assert sorted(names) == ["a", "b", "z"]

    def test_is_looked_for_only_so_long_and_the_rest_catches_up(
        self, dispatch: Dispatch, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(matching, "LONGEST", -1.0)
        for n in range(5):
            create(str(n))
        Subscription.objects.filter(pk="3").update(regex="(")
        publish_numbers(1)

        engine_step(connection)
        # But for the first one that has caught up in the same step.
        left = Subscription.objects.exclude(pk="0")
        assert set(left.values_list("follows", "position", "paused")) == {(False, 0, False)}
        dispatch()

        assert [name for name in "01234" if numbers(name) == [1]] == list("0124")
        assert row("3").paused

    def test_has_to_be_its_own_fault(
        self, dispatch: Dispatch, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        create("innocent")
        publish_numbers(1)
        monkeypatch.setitem(matching.SQL, "match", "SELECT gone FROM pgqueue_subscription")

        with pytest.raises(Exception, match="gone"):
            dispatch()
        monkeypatch.undo()
        dispatch()

        assert numbers("innocent") == [1]

    def test_is_not_one_that_somebody_cancelled_or_locked_out(
        self,
        dispatch: Dispatch,
        connection: Connection,
        other: Connection,
        step: Callable[..., Step],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        create("innocent")
        publish_numbers(1)
        with other.transaction():
            other.execute("LOCK pgqueue_message")
            waiting = step(engine_step, connection)
            waiting.waits()
            other.execute("SELECT pg_cancel_backend(%s)", [connection.info.backend_pid])
            with pytest.raises(Exception, match="user request"):
                waiting.result()
            monkeypatch.setattr(matching, "PATIENCE", 0.4)
            with pytest.raises(Exception, match="lock timeout"):
                engine_step(connection)

        dispatch()

        assert numbers("innocent") == [1]


SLOW = "!(exists($.a[*] ? (exists($.a[*] ? (@ == -1)))))"
"""A condition that compares each with each."""


def test_events_that_were_removed_before_it_saw_them_are_noted(
    dispatch: Dispatch, connection: Connection
) -> None:
    create("paused")
    create("follows")
    dispatch()
    Subscription.objects.filter(pk="paused").pause()
    dispatch()
    publish_numbers(1, 2, 3)
    dispatch()
    Subscription.objects.filter(pk="paused").resume()
    remove(connection, upto=2)

    dispatch()

    assert numbers("paused") == [3]
    assert "removed unread events: after position 0, up to 2" in row("paused").error
    assert row("follows").error == ""


def test_events_that_were_removed_before_the_dispatch_are_noted_with_all(
    dispatch: Dispatch, connection: Connection
) -> None:
    create("follows")
    dispatch()
    publish_numbers(1, 2, 3)
    catch_up(connection)
    remove(connection, upto=2)

    dispatch()

    assert numbers("follows") == [3]
    assert "removed unread events: after position 0, up to 2" in row("follows").error


def remove(connection: Connection, *, upto: int) -> None:
    """Remove events, as retention does."""
    connection.execute(
        "WITH f AS (INSERT INTO pgqueue_log_floor (log, position) VALUES ('event', %(upto)s)) "
        "DELETE FROM pgqueue_event WHERE position <= %(upto)s",
        {"upto": upto},
    )


@pytest.mark.usefixtures("code")
class TestDeclaring:
    @pytest.fixture
    def old(self) -> engine.DeclaredSubscription:
        subscribe("n", name="ours")(handlers.plain)
        [declared] = subscribing.declared("default")
        return declared

    @pytest.fixture
    def new(
        self, old: engine.DeclaredSubscription, monkeypatch: pytest.MonkeyPatch
    ) -> engine.DeclaredSubscription:
        monkeypatch.setattr(subscribing, "_subscriptions", {})
        subscribe("other", name="ours")(handlers.plain)
        [declared] = subscribing.declared("default")
        return declared

    def test_by_code_that_is_gone_makes_no_messages_after_five_minutes_and_catches_up_later(
        self, connection: Connection, old: engine.DeclaredSubscription, dispatch: Dispatch
    ) -> None:
        create("by hand")
        publish_numbers(1)
        dispatch()
        let_pass(connection, minutes=4)
        publish_numbers(2)
        dispatch()
        let_pass(connection, minutes=6)
        publish_numbers(3)
        dispatch()
        assert numbers("ours") == [1, 2]
        assert numbers("by hand") == [1, 2, 3]

        engine.declare(connection, [old])
        publish_numbers(4)
        dispatch()

        assert numbers("ours") == numbers("by hand") == [1, 2, 3, 4]

    def test_again_changes_nothing_that_workers_or_operators_wrote(
        self, connection: Connection, old: engine.DeclaredSubscription
    ) -> None:
        engine.declare(connection, [old])
        Subscription.objects.update(paused=True, position=7, error="e")

        let_pass(connection, seconds=20)
        engine.declare(connection, [old])

        found = row("ours")
        assert (found.paused, found.position, found.error, found.superseded) == (True, 7, "e", [])

    def test_by_old_workers_does_not_undo_what_new_ones_say(
        self,
        connection: Connection,
        old: engine.DeclaredSubscription,
        new: engine.DeclaredSubscription,
    ) -> None:
        for each in (old, new):
            engine.declare(connection, [each])

        for seconds in (5, 30, 59):
            let_pass(connection, seconds=seconds)
            engine.declare(connection, [old])
            assert row("ours").topics == ["other"]
            engine.declare(connection, [new])

    def test_by_code_that_was_rolled_back_holds_once_the_new_workers_are_gone(
        self,
        connection: Connection,
        old: engine.DeclaredSubscription,
        new: engine.DeclaredSubscription,
    ) -> None:
        for each in (old, new):
            engine.declare(connection, [each])

        let_pass(connection, seconds=61)
        engine.declare(connection, [old])
        engine.declare(connection, [new])

        assert row("ours").topics == ["n"]
        assert row("ours").exact == ["n"]

    def test_keeps_in_mind_no_more_than_twenty_versions(
        self, connection: Connection, old: engine.DeclaredSubscription
    ) -> None:
        for n in range(24):
            engine.declare(connection, [old._replace(definition=str(n))])

        assert len(row("ours").superseded) == 20

    def test_leaves_alone_what_was_added_by_hand_under_that_name_and_tells_it(
        self, connection: Connection, old: engine.DeclaredSubscription, dispatch: Dispatch
    ) -> None:
        Subscription.objects.all().delete()
        create("ours", topics="mine")
        with heard(signals.subscription_taken, "name") as names, dispatching(connection):
            pass

        assert names == ["ours"]
        assert (row("ours").topics, row("ours").declared) == (["mine"], False)

    def test_after_the_clock_was_set_back_is_noted_as_of_now(
        self, connection: Connection, old: engine.DeclaredSubscription
    ) -> None:
        engine.declare(connection, [old])
        let_pass(connection, hours=-1)

        engine.declare(connection, [old])

        seen_at = row("ours").seen_at
        assert seen_at
        assert seen_at < datetime.now(UTC) + timedelta(seconds=1)

    def test_forgets_what_no_code_had_for_a_month(
        self, connection: Connection, old: engine.DeclaredSubscription
    ) -> None:
        engine.declare(connection, [old])
        create("by hand")
        let_pass(connection, days=31)

        engine.declare(connection, [])

        assert list(Subscription.objects.values_list("name", flat=True)) == ["by hand"]

    def test_forgets_nothing_while_retention_is_behind_a_clock_that_has_jumped(
        self, connection: Connection, old: engine.DeclaredSubscription
    ) -> None:
        engine.declare(connection, [old])
        duty.due(connection, ["retention"])
        retention.advance(connection)
        connection.execute("UPDATE pgqueue_duty SET upto = upto - interval '40 days'")
        let_pass(connection, days=40)

        engine.declare(connection, [])

        assert Subscription.objects.exists()

    def test_does_not_wait_for_an_operator_who_takes_time_nor_end_the_step(
        self, connection: Connection, other: Connection, old: engine.DeclaredSubscription
    ) -> None:
        connection.execute("SET lock_timeout = 0")  # tests have one of their own
        engine.declare(connection, [old])
        create("by hand")
        let_pass(connection, seconds=20)
        publish_numbers(1)
        catch_up(connection)
        with other.transaction():
            other.execute("UPDATE pgqueue_subscription SET paused = true WHERE name = 'ours'")
            with connection.transaction():
                Duty(database="default", subscribing=subscribing).run(connection)
        assert numbers("by hand") == [1]

    def test_renews_what_expires_however_soon(
        self, connection: Connection, monkeypatch: pytest.MonkeyPatch, dispatch: Dispatch
    ) -> None:
        subscribe("n", name="brief", expires_after=1)(handlers.plain)
        [declared] = subscribing.declared("default")
        engine.declare(connection, [declared])

        found = row("brief")

        assert found.expires_at
        assert found.seen_at
        assert found.expires_at - found.seen_at == timedelta(seconds=61)

    def test_is_done_by_a_command(self, capsys: pytest.CaptureFixture[str]) -> None:
        publish_numbers(1)
        subscribe("n", name="ours", start="beginning")(handlers.plain)

        call_command("pgqueue_subscription", "sync")

        assert capsys.readouterr().out.strip() == "ours"
        assert (row("ours").declared, row("ours").position) == (True, 0)

    def test_is_of_the_database_that_its_task_is_in(self) -> None:
        subscribe("n", name="ours")(handlers.plain)

        assert [each.name for each in subscribing.declared("default")] == ["ours"]
        assert subscribing.declared("second") == []


class TestWhoIsTold:
    def test_are_idle_workers_of_the_channel(
        self, dispatch: Dispatch, connection: Connection, other: Connection
    ) -> None:
        register(connection, notify_for=MINUTE)
        listening = Listening(other)
        subscriptions.create("told", handlers.plain, channel="c")
        publish_numbers(1)

        dispatch()

        assert "c" in " ".join(listening.heard())

    def test_are_bells_of_channels_that_policies_govern(
        self, dispatch: Dispatch, connection: Connection
    ) -> None:
        limit("governed", "channel", max_running=1)
        subscriptions.create("governed", handlers.plain, channel="governed", key="k")
        subscriptions.create("free", handlers.plain, channel="free", key="k")
        publish_numbers(1)

        dispatch()

        bells = connection.execute("SELECT channel, key FROM pgqueue_bell").fetchall()
        assert ("governed", "k") in bells
        assert "free" not in dict(bells)
        assert Message.objects.get(channel="governed").governed
        assert not Message.objects.get(channel="free").governed

    def test_are_those_who_watch_the_channel(
        self, dispatch: Dispatch, connection: Connection, other: Connection
    ) -> None:
        Channel("watched").configure(watched=True)
        assert ChannelRow.objects.get(name="watched").watched
        listening = Listening(other, notifications.listen_for_notices)
        subscriptions.create("w", handlers.plain, channel="watched")
        publish_numbers(1)

        dispatch()

        assert any("created" in each for each in listening.heard())


def test_what_was_published_before_a_new_one_is_not_for_it(connection: Connection) -> None:
    publish(handlers.Paid(order_id=7, total=Decimal(150)))

    subscriptions.synchronize()

    assert set(Subscription.objects.values_list("position", flat=True)) == {
        Event.objects.get().position
    }
