"""Receiving without a worker: on real connections, with consumers in threads."""

from __future__ import annotations

import asyncio
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import Any
from unittest.mock import patch

import psycopg
import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connection, connections, transaction

from pgqueue import Delivery, areceive, receive, send, send_many, signals
from pgqueue.claiming import idle
from pgqueue.claiming.claimer import Claimer
from pgqueue.claiming.consumer import PullClient
from pgqueue.database.connections import connect
from pgqueue.duties import agenda, expire, rescue
from pgqueue.engine import lease
from pgqueue.exceptions import (
    InvalidMessage,
    LeaseLost,
    ReceiverClosed,
    UnreadablePayload,
)
from pgqueue.models import Channel, History, Message, Policy, Worker
from pgqueue.states import Outcome, State
from pgqueue.tasks import Receiver
from tests import jobs
from tests.eventually import eventually
from tests.factories import make_due

pytestmark = pytest.mark.django_db(transaction=True)

WITHIN = 20.0
"""Seconds: longer than anything here takes."""


@pytest.fixture
def other() -> Iterator[psycopg.Connection[Any]]:
    """A second connection, not shared."""
    with connect("default", name="other") as other:
        yield other


@pytest.fixture
def in_thread() -> Iterator[Callable[..., Future[Any]]]:
    """A function that calls another in a thread, whose connections are closed at its end."""
    with ThreadPoolExecutor() as threads:

        def start(function: Callable[..., Any], *arguments: Any) -> Future[Any]:
            def run() -> Any:
                try:
                    return function(*arguments)
                finally:
                    connections.close_all()

            return threads.submit(run)

        yield start


@pytest.fixture
def long_naps(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a receiver nap for an hour, unless it is woken."""
    settings.PGQUEUE = {"POLL_INTERVAL": 3600}
    monkeypatch.setattr(idle, "SHORTEST_NAP", timedelta(hours=1))
    for module, name in ((agenda, "LOOK_EVERY"), (expire, "EVERY"), (rescue, "EVERY")):
        monkeypatch.setattr(module, name, timedelta(hours=1))


def one(*channels: str, **options: Any) -> Delivery:
    """Receive the one message that is there."""
    with receive(*channels, limit=10, **options) as deliveries:
        [delivery] = deliveries
    return delivery


def steal(delivery: Delivery) -> None:
    """Let its lease run out, and be noticed."""
    Message.objects.filter(pk=delivery.id).update(lease_until="2020-01-01T00:00Z")
    with connect("default", name="rescuer") as rescuer:
        lease.rescue(rescuer, max_lost=3)


def wait_until_it_idles() -> None:
    eventually(
        lambda: Worker.objects.filter(notify_until__isnull=False).exists(),
        what="no receiver waits to be told",
    )


class TestReceiving:
    def test_gives_what_was_sent(self) -> None:
        id = send("mail", {"to": "a"}, body=b"\x00", key="k", metadata={"trace": "abc"})

        delivery = one("mail")

        assert (delivery.id, delivery.channel, delivery.key, delivery.task) == (id, "mail", "k", "")
        assert (delivery.payload, delivery.body) == ({"to": "a"}, b"\x00")
        assert (delivery.metadata, delivery.progress) == ({"trace": "abc"}, None)
        assert (delivery.attempt, delivery.failures, delivery.lost) == (1, 0, 0)
        assert repr(delivery) == f"<Delivery {id} of mail>"

    @pytest.mark.parametrize("wait", [0, 0.3])
    def test_gives_what_is_there_though_a_look_is_expensive(
        self, looks_are_expensive: None, wait: float
    ) -> None:
        with receive("a", "b", wait=wait) as deliveries:
            deliveries.take()
            send("b", 1)
            [delivery] = deliveries.take()

        assert delivery.payload == 1

    def test_gives_messages_of_tasks_with_their_arguments(self) -> None:
        jobs.add.enqueue(1, b=2)

        delivery = one("default")

        assert delivery.task == "tests.jobs.add"
        assert (delivery.args, delivery.kwargs) == ([1], {"b": 2})

    def test_knows_no_arguments_of_a_raw_message_or_an_unknown_task(self) -> None:
        send("mail", 1)
        jobs.add.using(channel="other").enqueue(1)
        Message.objects.filter(channel="other").update(task="shop.of_tomorrow")

        with pytest.raises(UnreadablePayload, match="raw"):
            one("mail").args  # noqa: B018
        with pytest.raises(UnreadablePayload, match=r"shop\.of_tomorrow"):
            one("other").kwargs  # noqa: B018

    def test_leases_as_many_as_the_limit_at_most_for_as_long_as_asked(self) -> None:
        send_many("mail", range(5))

        with receive("mail", limit=3, lease=1000) as deliveries:
            found = list(deliveries)

        assert [delivery.payload for delivery in found] == [0, 1, 2]
        left = [
            each.lease_until - each.claimed_at for each in Message.objects.filter(state="running")
        ]
        assert left == [timedelta(seconds=1000)] * 3

    def test_is_from_one_channel_several_or_all(self) -> None:
        for channel in ("a", "b", "c"):
            send(channel, channel)

        def received(*channels: str) -> list[Any]:
            with receive(*channels, limit=10) as deliveries:
                found = list(deliveries)
            for delivery in found:
                delivery.release()
            return sorted(delivery.payload for delivery in found)

        assert received("a") == ["a"]
        assert received("a", "b") == ["a", "b"]
        assert received() == ["a", "b", "c"]

    @pytest.mark.parametrize("is_governed", [False, True])
    @pytest.mark.parametrize("channels", [(), ("a",), ("a", "b", "c")])
    def test_gives_what_is_there_up_to_the_limit_wherever_it_is(
        self, channels: tuple[str, ...], is_governed: bool
    ) -> None:
        if is_governed:
            Policy.objects.create(channel="a", scope="channel", max_running=100)
        send_many("a", range(10), key="deep")
        send("a", "shallow")
        send("other", "not asked for" if channels else "shallow, too")

        with receive(*channels, limit=10) as deliveries:
            assert len(list(deliveries)) == 10

    def test_may_be_repeated(self) -> None:
        send_many("mail", range(5))

        with receive("mail", limit=2) as deliveries:
            batches = [[each.payload for each in deliveries] for _ in range(4)]

        assert batches == [[0, 1], [2, 3], [4], []]

    def test_goes_on_with_what_was_leased_before(self) -> None:
        send_many("mail", range(3))

        with receive("mail", limit=2) as deliveries:
            first = next(iter(deliveries)).payload
            assert Message.objects.filter(state=State.RUNNING).count() == 2
            rest = [each.payload for each in deliveries]

        assert (first, rest) == (0, [1])

    def test_in_batches_ends_when_nothing_is_left(self) -> None:
        send_many("mail", range(5))

        with receive("mail", limit=2) as receiver:
            batches = []
            while batch := receiver.take():
                batches.append([each.payload for each in batch])

        assert batches == [[0, 1], [2, 3], [4]]

    def test_leaves_paused_channels_alone(self) -> None:
        Channel.objects.create(name="mail", paused=True)
        send("mail", 1)

        with receive("mail") as deliveries:
            assert not list(deliveries)

    def test_obeys_policies_and_order(self) -> None:
        Policy.objects.create(channel="mail", scope="each", max_running=1)
        send_many("mail", [1, 2], key="k")
        send_many("chat", ["a", "b"], ordered=True)

        with receive("mail", "chat", limit=10) as deliveries:
            first = list(deliveries)
            again = list(deliveries)
            for delivery in first:
                delivery.complete()
            next_ones = list(deliveries)

        assert sorted(str(each.payload) for each in first) == ["1", "a"]
        assert not again
        assert sorted(str(each.payload) for each in next_ones) == ["2", "b"]

    @pytest.mark.parametrize(
        "options",
        [
            *({"limit": 0}, {"limit": True}),
            *({"lease": 0}, {"lease": "x"}, {"lease": 10**12}),
            {"wait": None},
        ],
    )
    def test_refuses_what_cannot_be(self, options: Any) -> None:
        with pytest.raises((ValueError, TypeError)):
            receive("mail", **options)

    def test_refuses_what_is_no_channel(self) -> None:
        with pytest.raises(InvalidMessage, match="channel="):
            receive("")


class TestWithoutMessages:
    def test_there_is_nothing_and_nothing_to_come(self) -> None:
        with receive("mail") as deliveries:
            assert not list(deliveries)
            assert deliveries.next_due_in is None

    def test_it_is_told_when_the_next_one_is_due(self) -> None:
        send("mail", 1, run_after=3600)
        send("other", 1, run_after=60)

        with receive("mail") as deliveries:
            assert not list(deliveries)
            assert timedelta(minutes=59) < deliveries.next_due_in <= timedelta(hours=1)
        with receive() as deliveries:
            assert not list(deliveries)
            assert deliveries.next_due_in <= timedelta(minutes=1)

    @pytest.mark.parametrize("scope", ["each", "channel"])
    def test_it_is_told_when_a_rate_lets_the_next_one_go_on(self, scope: str) -> None:
        Policy.objects.create(channel="mail", scope=scope, rate=1, per=timedelta(hours=1))
        send_many("mail", [1, 2], key="k")

        with receive("mail", limit=5) as deliveries:
            (first,) = deliveries
            first.complete()
            assert not list(deliveries)
            assert timedelta(minutes=59) < deliveries.next_due_in <= timedelta(hours=1)

    def test_it_is_told_when_a_lease_of_another_consumer_ends(self) -> None:
        send("mail", 1)
        Policy.objects.create(channel="chat", scope="each", rate=1, per=timedelta(hours=1))

        with receive("mail", lease=60) as one_consumer, receive("mail") as another:
            assert len(list(one_consumer)) == 1
            assert not list(another)

            assert timedelta(seconds=50) < another.next_due_in <= timedelta(seconds=60)

    def test_it_is_not_told_of_other_channels(self) -> None:
        Policy.objects.create(channel="chat", scope="each", rate=1, per=timedelta(hours=1))
        send_many("chat", [1, 2], key="k")

        with receive("chat", limit=5) as chat, receive("mail") as mail:
            assert len(list(chat)) == 1
            assert not list(mail)
            assert mail.next_due_in is None

    def test_a_delayed_one_becomes_ready_though_no_worker_runs(self) -> None:
        id = send("mail", 1, run_after=3600)
        with connection.cursor() as cursor:
            make_due(cursor, [id])  # type: ignore[arg-type, list-item]

        assert one("mail").id == id

    def test_waiting_ends_when_a_delayed_one_is_due(self) -> None:
        began = monotonic()
        send("mail", 1, run_after=0.3)

        one("mail", wait=WITHIN)

        assert 0.3 <= monotonic() - began < 3

    def test_it_waits_as_long_as_asked(self) -> None:
        began = monotonic()

        with receive("mail", wait=0.3) as deliveries:
            assert not list(deliveries)

        assert 0.3 <= monotonic() - began < 3


class TestWaiting:
    def test_ends_by_a_notification(
        self, in_thread: Callable[..., Future[Any]], long_naps: None
    ) -> None:
        woken: list[float] = []

        def consume() -> Any:
            with receive("mail", wait=WITHIN) as deliveries:
                [delivery] = deliveries
                woken.append(monotonic())
                return delivery.payload

        consumed = in_thread(consume)
        wait_until_it_idles()
        sent_at = monotonic()
        send("mail", 7)

        assert consumed.result(WITHIN) == 7
        assert woken[0] - sent_at < 5

    def test_finds_what_was_sent_as_it_asked_to_be_told(self, long_naps: None) -> None:
        """The sender saw no waiter; the waiter had looked before."""
        with receive("mail", wait=WITHIN) as receiver:
            registration = receiver._consumer._registration
            want_notice = registration.want_notice

            def late(at: psycopg.Connection[Any], wanted: bool) -> None:
                send("mail", 1)
                want_notice(at, wanted)

            registration.want_notice = late  # type: ignore[method-assign]
            began = monotonic()

            [delivery] = receiver

        assert delivery.payload == 1
        assert monotonic() - began < 5

    def test_is_not_ended_by_what_others_are_told(
        self, in_thread: Callable[..., Future[Any]], other: psycopg.Connection[Any]
    ) -> None:
        """It looks again when its nap is over, and no earlier."""
        looks = []

        def consume() -> None:
            with receive("mail", wait=1) as deliveries:
                look = deliveries._consumer._duties.look
                deliveries._consumer._duties.look = lambda at: (looks.append(1), look(at))[1]  # type: ignore[func-returns-value, method-assign]
                list(deliveries)

        with receive("chat", wait=True) as noisy:
            chat = in_thread(lambda: [each.complete() for each in noisy])
            wait_until_it_idles()
            consumed = in_thread(consume)
            for number in range(200):
                send("chat", number)
            consumed.result(WITHIN)
            eventually(lambda: not Message.objects.exists())
            noisy.close()
            chat.result(WITHIN)

        # By doubling naps from 10 ms on, a second has about eight.
        assert len(looks) < 15

    def test_finds_what_a_transaction_that_was_open_already_commits(
        self, in_thread: Callable[..., Future[Any]], other: psycopg.Connection[Any]
    ) -> None:
        other.autocommit = False
        send("mail", 1, connection=other)

        consumed = in_thread(lambda: one("mail", wait=WITHIN).payload)
        wait_until_it_idles()
        other.commit()

        assert consumed.result(WITHIN) == 1

    def test_finds_what_others_had_locked_once_they_let_it_go(
        self, in_thread: Callable[..., Future[Any]], other: psycopg.Connection[Any]
    ) -> None:
        send("mail", 1)

        with other.transaction():
            other.execute("SELECT FROM pgqueue_message FOR UPDATE")
            consumed = in_thread(lambda: one("mail", wait=WITHIN).payload)
            wait_until_it_idles()

        assert consumed.result(5) == 1

    def test_is_not_notified_while_it_finds_many_messages_a_second(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(idle.Busyness, "is_busy", lambda busyness: len(busyness._found_at) > 2)
        with receive("mail", wait=0.5) as receiver:
            assert not receiver.take()
            assert Worker.objects.get().notify_until is not None
            for number in range(3):
                send("mail", number)
                receiver.take()

            assert Worker.objects.get().notify_until is None
            assert not receiver.take()
            assert Worker.objects.get().notify_until is not None

    def test_renews_its_wish_to_be_notified_with_its_heartbeat(self) -> None:
        with receive("mail", wait=0.1) as receiver:
            assert not receiver.take()
            wished = Worker.objects.get().notify_until
            send("mail", 1)
            receiver._consumer._beat_at = 0.0

            receiver.take()

            assert Worker.objects.get().notify_until > wished

    def test_goes_on_until_closed_by_another_thread(
        self, in_thread: Callable[..., Future[Any]], long_naps: None
    ) -> None:
        with receive("mail", wait=True) as receiver:
            consumed = in_thread(lambda: [each.payload for each in receiver])
            for number in range(3):
                send("mail", number)
            eventually(lambda: Message.objects.filter(state=State.RUNNING).count() == 3)
            wait_until_it_idles()

            closed_at = monotonic()
            receiver.close()
            found = consumed.result(WITHIN)

        assert found == [0, 1, 2]
        assert monotonic() - closed_at < 5

    def test_may_be_closed_by_a_signal(self, long_naps: None) -> None:
        receiver = receive("mail", wait=True)
        before = signal.signal(signal.SIGALRM, lambda *_: receiver.close())
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        try:
            assert not list(receiver)
        finally:
            signal.signal(signal.SIGALRM, before)

        assert not Worker.objects.exists()

    def test_outlives_its_connection(
        self, in_thread: Callable[..., Future[Any]], other: psycopg.Connection[Any]
    ) -> None:
        with receive("mail", wait=WITHIN) as receiver:
            consumed = in_thread(receiver.take)
            wait_until_it_idles()
            before = Worker.objects.get().pk
            cut_off(other)
            eventually(lambda: not Worker.objects.filter(pk=before).exists())
            send("mail", 1)

            [delivery] = consumed.result(WITHIN)
            cut_off(other)
            send("mail", 2)
            [second] = receiver.take()

        # A new connection, a new id to claim under.
        assert len({before, delivery.claim.worker_id, second.claim.worker_id}) == 3
        delivery.complete()

    def test_begins_again_where_answers_fit_no_question_any_more(self) -> None:
        # As behind a pooler whose server went away, which may answer twice.
        with receive("mail") as receiver:
            assert not receiver.take()
            before = Worker.objects.get().pk
            twice = psycopg.InternalError("received 2 results from command 'BEGIN'")
            with (
                patch.object(Claimer, "claim", side_effect=twice),
                pytest.raises(psycopg.OperationalError, match="2 results"),
            ):
                receiver.take()
            send("mail", 1)
            [delivery] = receiver.take()

        assert delivery.claim.worker_id != before

    def test_waits_for_a_database_that_is_away_for_a_while(
        self, other: psycopg.Connection[Any], caplog: pytest.LogCaptureFixture
    ) -> None:
        seen: list[Any] = []

        def consume() -> None:
            for delivery in receiver:
                seen.append(delivery.payload)
                delivery.complete()
            connections.close_all()

        with receive("mail", wait=True) as receiver:
            consuming = threading.Thread(target=consume, daemon=True)
            consuming.start()
            send("mail", 1)
            eventually(lambda: seen == [1])
            away = psycopg.OperationalError("away")
            with patch("pgqueue.database.connections._open", side_effect=away):
                cut_off(other)
                eventually(lambda: caplog.text.count("receiver failed and will try again") > 1)
            send("mail", 2)
            eventually(lambda: seen == [1, 2])
            with patch("pgqueue.database.connections._open", side_effect=away):
                cut_off(other)
                receiver.close()
                consuming.join(10)
        assert not consuming.is_alive()

    def test_says_so_where_the_database_is_away_for_longer_than_it_may_wait(
        self, other: psycopg.Connection[Any]
    ) -> None:
        with receive("mail", wait=0.3) as receiver:
            assert not receiver.take()
            cut_off(other)
            with (
                patch(
                    "pgqueue.database.connections._open",
                    side_effect=psycopg.OperationalError("away"),
                ) as tried,
                pytest.raises(psycopg.OperationalError, match="away"),
            ):
                receiver.take()

        assert tried.call_count > 1

    def test_loses_nothing_where_it_can_not_say_that_it_begins(self) -> None:
        send("mail", 1)
        send("mail", 2)
        gone = psycopg.OperationalError("gone")
        with receive("mail", limit=2) as receiver:
            Message.objects.filter(payload=2).update(lost=1)
            with (
                patch.object(PullClient, "begin", side_effect=gone),
                pytest.raises(psycopg.OperationalError, match="gone"),
            ):
                receiver.take()

            assert [delivery.payload for delivery in receiver.take()] == [1, 2]

    def test_that_is_async_loses_nothing_where_that_is_cancelled(self) -> None:
        send("mail", 1)
        send("mail", 2)
        Message.objects.filter(payload=2).update(lost=1)

        async def main() -> list[object]:
            async with areceive("mail", limit=2) as receiver:
                slow = patch.object(PullClient, "begin", side_effect=lambda claim: time.sleep(0.3))
                with slow, pytest.raises(TimeoutError):
                    await asyncio.wait_for(receiver.take(), 0.2)
                return [delivery.payload for delivery in await receiver.take()]

        assert async_to_sync(main)() == [1, 2]

    def test_that_is_async_hands_back_what_it_was_about_to_begin_as_it_was_left(self) -> None:
        send("mail", 1)
        send("mail", 2)
        Message.objects.filter(payload=2).update(lost=2)

        def slowly(*arguments: object) -> None:
            time.sleep(0.5)

        async def main() -> None:
            async with areceive("mail", limit=2) as receiver:
                with patch("pgqueue.engine.lease.begin", slowly):
                    await asyncio.wait_for(receiver.take(), 0.2)

        with pytest.raises(TimeoutError):
            async_to_sync(main)()

        handed_back = Message.objects.filter(state=State.READY, failures=0)
        eventually(lambda: handed_back.count() == 2)
        eventually(lambda: not Worker.objects.exists())


def cut_off(other: psycopg.Connection[Any]) -> None:
    """End the connections of receivers."""
    other.execute(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
        "WHERE application_name = 'pgqueue receiver' AND datname = current_database()"
    )


class TestSettling:
    def test_complete_moves_it_into_history(self) -> None:
        send("mail", {"n": 1}, body=b"b")

        one("mail").complete()

        ended = History.objects.get()
        assert (ended.outcome, ended.payload, bytes(ended.body)) == (
            Outcome.SUCCEEDED,
            {"n": 1},
            b"b",
        )
        assert ended.claimed_at <= ended.started_at <= ended.finished_at
        assert not Message.objects.exists()

    def test_retry_charges_a_failure_and_keeps_its_error(self) -> None:
        send("mail", 1)

        one("mail").retry(60, error=ValueError("no such address"))

        message = Message.objects.get()
        assert (message.state, message.failures) == (State.SCHEDULED, 1)
        assert 55 < (message.run_at - message.claimed_at).total_seconds() < 65
        [error] = message.errors
        assert (error["class"], error["message"]) == ("builtins.ValueError", "no such address")
        assert error["attempt"] == 1

    def test_retry_may_say_why_in_words(self) -> None:
        send("mail", 1)

        one("mail").retry(0, error="closed on Sundays")

        message = Message.objects.get()
        assert message.state == State.READY
        assert message.errors[0]["message"] == "closed on Sundays"

    def test_retry_waits_as_the_setting_says(self, settings: Any) -> None:
        told = []
        settings.PGQUEUE = {"BACKOFF": lambda error, result: told.append(result.failures) or 600}
        send("mail", 1)

        one("mail").retry()

        message = Message.objects.get()
        assert 590 < (message.run_at - message.claimed_at).total_seconds() < 610
        assert told == [1]

    def test_retry_gives_up_where_the_setting_says_so(self, settings: Any) -> None:
        settings.PGQUEUE = {"BACKOFF": lambda error, result: None}
        send("mail", 1)

        one("mail").retry()

        assert Message.objects.get().state == State.DEAD

    @pytest.mark.parametrize(
        "backoff",
        [lambda error, result: 1 / 0, lambda error, result: float("nan"), lambda *both: "soon"],
    )
    def test_retry_waits_by_the_default_where_the_setting_fails(
        self, settings: Any, backoff: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        settings.PGQUEUE = {"BACKOFF": backoff}
        send("mail", 1)

        one("mail").retry()

        message = Message.objects.get()
        assert (message.state, message.failures) == (State.SCHEDULED, 1)
        assert "The backoff of the channel mail failed" in caplog.text

    def test_retry_buries_it_at_max_attempts(self) -> None:
        send("mail", 1, max_attempts=2)

        one("mail").retry(0)
        second = one("mail")
        second.retry(0)

        message = Message.objects.get()
        assert (second.failures, second.attempt) == (1, 2)
        assert (message.state, message.failures) == (State.DEAD, 2)

    def test_defer_charges_nothing_and_may_replace_what_it_carries(self) -> None:
        send("mail", [1, 2, 3], body=b"123")

        one("mail").defer(0, progress={"done": [1]}, payload=[2, 3], body=b"23")

        delivery = one("mail")
        assert (delivery.payload, delivery.body, delivery.progress) == (
            [2, 3],
            b"23",
            {"done": [1]},
        )
        assert (delivery.attempt, delivery.failures, delivery.lost) == (2, 0, 0)

    def test_defer_waits_as_long_as_asked(self) -> None:
        send("mail", 1)

        one("mail").defer(timedelta(hours=1))

        message = Message.objects.get()
        assert (message.state, message.payload) == (State.SCHEDULED, 1)
        assert timedelta(minutes=59) < message.run_at - message.claimed_at

    def test_release_hands_it_back_at_once(self) -> None:
        id = send("mail", 1)
        send("mail", 2)
        with receive("mail") as deliveries:
            [first] = deliveries

        first.release()

        with receive("mail") as deliveries:
            [again] = deliveries
        assert (again.id, again.attempt, again.failures) == (id, 2, 0)  # at its old place

    def test_checkpoint_is_found_by_the_next_to_receive_it(self) -> None:
        send("mail", [1, 2])
        delivery = one("mail")

        delivery.checkpoint({"sent": 1}, payload=[2], body=b"new")
        steal(delivery)

        again = one("mail")
        assert (again.progress, again.payload, again.body) == ({"sent": 1}, [2], b"new")
        assert again.lost == 1

    def test_checkpoint_leaves_what_it_does_not_name(self) -> None:
        send("mail", 1, body=b"b")
        delivery = one("mail")
        delivery.checkpoint("here")

        delivery.checkpoint(payload=2)
        delivery.release()

        again = one("mail")
        assert (again.progress, again.payload, again.body) == ("here", 2, b"b")

    def test_a_tasks_payload_stays_what_it_was(self) -> None:
        jobs.add.enqueue(1)
        delivery = one("default")

        for change in (delivery.checkpoint, lambda **given: delivery.defer(0, **given)):
            with pytest.raises(InvalidMessage, match=r"tests\.jobs\.add"):
                change(payload=[2])

        delivery.checkpoint({"half": True})
        assert Message.objects.get().progress == {"half": True}

    def test_extend_keeps_it_longer(self) -> None:
        send("mail", 1)
        delivery = one("mail", lease=10)

        delivery.extend(600)

        message = Message.objects.get()
        assert message.lease_until - message.claimed_at >= timedelta(seconds=600)

    @pytest.mark.parametrize("wrong", [0, -1, 10**12, float("nan"), "60"])
    def test_extend_refuses_what_is_no_time_from_now(self, wrong: Any) -> None:
        send("mail", 1)
        delivery = one("mail", lease=1000)

        with transaction.atomic():
            with pytest.raises(ValueError, match="lease="):
                delivery.extend(wrong)
            delivery.extend()

        delivery.complete()

    def test_extend_keeps_it_for_its_lease_again(self) -> None:
        send("mail", 1)
        delivery = one("mail", lease=1000)
        Message.objects.update(lease_until="2020-01-01T00:00Z")

        delivery.extend()

        message = Message.objects.get()
        assert message.lease_until - message.claimed_at >= timedelta(seconds=1000)

    def test_ends_what_was_to_be_cancelled(self) -> None:
        send("mail", 1)
        delivery = one("mail")
        Message.objects.all().cancel()

        delivery.retry(60)

        assert History.objects.get().outcome == Outcome.CANCELLED

    @pytest.mark.parametrize(
        "settle",
        [
            Delivery.complete,
            Delivery.retry,
            lambda delivery: delivery.defer(1),
            Delivery.release,
            Delivery.extend,
            lambda delivery: delivery.checkpoint("x"),
        ],
    )
    def test_is_refused_once_the_lease_was_lost(self, settle: Callable[[Delivery], None]) -> None:
        id = send("mail", 1)
        late = one("mail")
        steal(late)
        again = one("mail")

        with pytest.raises(LeaseLost, match=rf"Message {id} of the channel 'mail'"):
            settle(late)

        assert (again.id, again.attempt, again.lost) == (id, 2, 1)
        again.complete()
        assert History.objects.get().attempt == 2

    def test_is_refused_the_second_time(self) -> None:
        send("mail", 1)
        delivery = one("mail")
        delivery.complete()

        with pytest.raises(LeaseLost, match="settled before"):
            delivery.complete()


class TestInATransaction:
    def test_settling_joins_the_callers(self, other: psycopg.Connection[Any]) -> None:
        send("mail", 1)
        delivery = one("mail")

        with transaction.atomic():
            delivery.complete()
            jobs.add.enqueue(1)
            seen = other.execute("SELECT state FROM pgqueue_message").fetchall()

        assert seen == [("running",)]
        assert (Message.objects.count(), History.objects.count()) == (1, 1)

    @pytest.mark.parametrize(
        "settle",
        [
            Delivery.complete,
            lambda delivery: delivery.retry(0),
            lambda delivery: delivery.defer(0, payload=2),
            lambda delivery: delivery.checkpoint("x"),
        ],
    )
    def test_a_rollback_takes_the_settle_with_it(self, settle: Callable[[Delivery], None]) -> None:
        send("mail", 1)
        delivery = one("mail")

        with pytest.raises(ZeroDivisionError), transaction.atomic():
            settle(delivery)
            1 / 0  # noqa: B018

        message = Message.objects.get()
        assert (message.state, message.payload, message.progress) == (State.RUNNING, 1, None)
        delivery.complete()
        assert History.objects.count() == 1

    def test_what_was_lost_undoes_nothing_else(self) -> None:
        send("mail", 1)
        late = one("mail")
        steal(late)

        with transaction.atomic():
            jobs.add.enqueue(1)
            for settle in (late.complete, lambda: late.defer(0), lambda: late.checkpoint("x")):
                with pytest.raises(LeaseLost):
                    settle()

        assert Message.objects.filter(channel="default").count() == 1

    def test_settling_waits_for_an_operator_who_gives_up(
        self, other: psycopg.Connection[Any], in_thread: Callable[..., Future[Any]]
    ) -> None:
        id = send("mail", 1)
        delivery = one("mail")
        other.autocommit = False
        other.execute("SELECT FROM pgqueue_message WHERE id = %s FOR UPDATE", [id])

        settled = in_thread(delivery.complete)
        eventually(blocked, what="it does not wait")
        other.rollback()
        settled.result(WITHIN)

        assert History.objects.get().outcome == Outcome.SUCCEEDED


def blocked() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        return bool(cursor.fetchone()[0])


class TestClosing:
    def test_hands_back_what_was_not_iterated_to(self) -> None:
        send_many("mail", range(3))

        with receive("mail", limit=3) as deliveries:
            first = next(iter(deliveries))

        states = dict(Message.objects.values_list("payload", "state"))
        assert states == {0: State.RUNNING, 1: State.READY, 2: State.READY}
        assert not Message.objects.exclude(failures=0, lost=0).exists()
        first.complete()

    def test_removes_its_row_of_the_workers(self) -> None:
        with receive("mail", "chat", limit=7) as deliveries:
            list(deliveries)
            worker = Worker.objects.get()

        assert (worker.channels, worker.info["receives"]) == (["mail", "chat"], 7)
        assert not Worker.objects.exists()

    def test_comes_by_itself_at_the_end_of_an_iteration_without_with(self) -> None:
        send_many("mail", range(2))

        for delivery in receive("mail", limit=2, wait=True):
            delivery.complete()
            break

        assert not Worker.objects.exists()
        assert Message.objects.get().state == State.READY

    def test_is_final(self) -> None:
        receiver = receive("mail")
        receiver.close()
        receiver.close()

        assert not list(receiver)
        with pytest.raises(ReceiverClosed):
            receiver.take()

    def test_ends_no_other_wait(self, in_thread: Callable[..., Future[Any]]) -> None:
        first = receive("mail", wait=True)
        closed = in_thread(first.take)
        wait_until_it_idles()
        with receive("mail", wait=WITHIN) as second:
            consumed = in_thread(second.take)
            eventually(lambda: Worker.objects.exclude(notify_until=None).count() == 2)

            first.close()
            assert closed.result(WITHIN) == []
            send("mail", 1)

            assert [each.payload for each in consumed.result(WITHIN)] == [1]

    def test_while_others_iterate_gives_each_message_to_one(
        self, in_thread: Callable[..., Future[Any]]
    ) -> None:
        send_many("mail", range(200))

        with receive("mail", limit=10, wait=True) as receiver:
            consumers = [in_thread(complete_all, receiver) for _ in range(4)]
            eventually(lambda: History.objects.count() >= 100)
            receiver.close()
            consumed = [id for each in consumers for id in each.result(WITHIN)]

        assert len(consumed) == len(set(consumed)) == History.objects.count()
        assert not Message.objects.exclude(state=State.READY).exists()

    def test_survives_a_lost_database(self, other: psycopg.Connection[Any]) -> None:
        heard = []
        signals.service_failed.connect(hear := lambda **kwargs: heard.append(kwargs["service"]))
        send_many("mail", range(2))

        with receive("mail", limit=2) as deliveries:
            next(iter(deliveries))
            cut_off(other)

        signals.service_failed.disconnect(hear)
        assert heard == ["receiver"]


def complete_all(receiver: Receiver) -> list[int]:
    completed = []
    for delivery in receiver:
        delivery.complete()
        completed.append(delivery.id)
    return completed


class TestUpkeep:
    def test_rescues_what_others_lost_once_it_was_connected_for_a_lease(self) -> None:
        heard = []
        signals.message_rescued.connect(hear := lambda **kwargs: heard.append(kwargs["rescued"].id))
        id = send("mail", 1)
        one("mail")
        Message.objects.update(lease_until="2020-01-01T00:00Z")

        with receive("mail") as receiver:
            before = receiver.take()
            receiver._consumer._duties._agenda.contact._since -= 31
            receiver._consumer._duties._look_at = 0.0
            after = receiver.take()

        signals.message_rescued.disconnect(hear)
        assert not before
        assert [(each.id, each.lost) for each in after] == [(id, 1)]
        assert heard == [id]

    def test_beside_a_lock_it_does_not_look_all_the_time(
        self, other: psycopg.Connection[Any]
    ) -> None:
        id = send("mail", 1, run_after=3600)
        make_due(other, [id])  # type: ignore[list-item]
        other.autocommit = False
        other.execute("SELECT FROM pgqueue_message FOR UPDATE")

        with receive("mail", wait=0.5) as receiver:
            claimer = receiver._consumer._claimer
            with patch.object(claimer, "claim", side_effect=claimer.claim) as claim:
                assert not receiver.take()
        other.rollback()

        assert 1 < claim.call_count < 15


class TestInAsyncCode:
    def test_deliveries_are_iterated_over_and_settled(self) -> None:
        send_many("mail", range(3))

        async def consume() -> list[Any]:
            found = []
            async with areceive("mail", limit=5) as deliveries:
                async for delivery in deliveries:
                    found.append(delivery.payload)
                    await delivery.acomplete()
                assert [each async for each in deliveries] == []
                assert deliveries.next_due_in is None
            return found

        assert async_to_sync(consume)() == [0, 1, 2]
        assert History.objects.count() == 3
        assert not Worker.objects.exists()

    def test_each_verb_does_what_its_sync_one_does(self) -> None:
        send_many("mail", range(6))

        async def consume() -> None:
            async with areceive("mail", limit=6) as receiver:
                first, second, third, fourth, fifth, _ = await receiver.take()
                await first.aretry(60, error="no")
                await second.adefer(60, progress=1, payload="new")
                await third.arelease()
                await fourth.aextend(900)
                await fifth.acheckpoint("half")

        async_to_sync(consume)()

        one, two, three, four, five, six = Message.objects.order_by("pk")
        assert (one.state, one.failures) == (State.SCHEDULED, 1)
        assert (two.state, two.progress, two.payload) == (State.SCHEDULED, 1, "new")
        assert three.state == State.READY
        assert four.lease_until - four.claimed_at > timedelta(seconds=890)
        assert (five.progress, six.state) == ("half", State.RUNNING)

    def test_many_wait_at_once_and_are_ended_by_closing(self) -> None:
        async def consume(receiver: Any) -> list[Any]:
            return [delivery.payload async for delivery in receiver]

        async def main() -> list[list[Any]]:
            receivers = [areceive(f"mail {n}", wait=True) for n in range(3)]
            consumers = [asyncio.create_task(consume(each)) for each in receivers]
            for n in range(3):
                await sync_to_async(send)(f"mail {n}", n)
            await sync_to_async(eventually)(
                lambda: Message.objects.filter(state=State.RUNNING).count() == 3
            )
            for each in receivers:
                await each.aclose()
                await each.aclose()
            return await asyncio.gather(*consumers)

        assert async_to_sync(main)() == [[0], [1], [2]]
        assert not Worker.objects.exists()

    def test_a_wait_that_is_cancelled_loses_nothing(self) -> None:
        async def main() -> list[Any]:
            async with areceive("mail", wait=True) as receiver:
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.2):
                        await receiver.take()
                await sync_to_async(send)("mail", 1)
                return [each.payload for each in await receiver.take()]

        assert async_to_sync(main)() == [1]

    def test_without_async_with_it_is_closed_at_the_end_of_an_iteration(self) -> None:
        send("mail", 1)

        async def main() -> None:
            async for delivery in areceive("mail", limit=5):
                await delivery.acomplete()

        async_to_sync(main)()

        assert not Worker.objects.exists()
        assert threading.active_count() < 20


@pytest.mark.django_db(transaction=True, databases=["default", "second"])
def test_another_database_may_be_named() -> None:
    send("mail", 1, database="second")

    with receive("mail") as deliveries:
        assert not list(deliveries)
    delivery = one("mail", database="second")
    with pytest.raises(ZeroDivisionError), transaction.atomic(using="second"):
        delivery.complete()
        1 / 0  # noqa: B018
    delivery.complete()

    assert History.objects.using("second").get().outcome == Outcome.SUCCEEDED


def test_the_guides_example_does_what_it_says() -> None:
    page = (Path(__file__).parents[2] / "docs/guide/pull.md").read_text()
    names: dict[str, Any] = {}

    exec(re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0], names)  # noqa: S102

    assert names["sent"] == ["Hello"]
    assert Message.objects.get().errors[0]["message"] == "no such address"


@pytest.mark.parametrize(
    "how", [{"expires_at": datetime(2020, 1, 1, tzinfo=UTC)}, {"hold_for": 0.05}]
)
def test_what_expires_blocks_nothing_where_there_is_no_worker(how: Any) -> None:
    send("mail", 1, key="a", ordered=True, **how)
    send("mail", 2, key="a", ordered=True)

    with receive("mail", wait=10) as deliveries:
        (delivery,) = deliveries

    assert delivery.payload == 2
