"""Deliveries: what is posted, what becomes of each answer, and of the webhook."""

from __future__ import annotations

import gzip
import json
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from time import monotonic
from typing import Any

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from standardwebhooks import Webhook as Verifier
from standardwebhooks import WebhookVerificationError

from pgqueue import DeliveryFailed, Exponential, RecordedEvent, webhooks
from pgqueue.database.connections import connect
from pgqueue.exceptions import WebhookDisabled
from pgqueue.models import History, Message, Webhook
from pgqueue.states import Outcome, State
from pgqueue.tasks import TaskResult
from pgqueue.testing import run_all
from pgqueue.webhooks import health, targets
from pgqueue.webhooks.delivering import deliver, deliver_batch, patience, wait_of
from tests.webhooks.receiver import Post, Receiver, speaking
from tests.webhooks.test_bodies import as_lines, event

pytestmark = pytest.mark.django_db
SECOND = timedelta(seconds=1)


def create(receiver: Receiver, name: str = "shop", **options: Any) -> Webhook:
    return webhooks.create(name, receiver.url, **options)


def enqueue(*events: RecordedEvent, name: str = "shop") -> TaskResult[Any]:
    """Store a delivery as the dispatch does."""
    task = deliver_batch if len(events) > 1 else deliver
    own: Any = task.using(key=name, max_attempts=16)
    return own.enqueue(list(events) if len(events) > 1 else (events or (event(),))[0])


def row(name: str = "shop") -> Webhook:
    return Webhook.objects.get(pk=name)


def verified(post: Post, secret: str) -> Any:
    body = post.body
    if post.headers.get("content-encoding") == "gzip":
        body = gzip.decompress(body)
    return Verifier(secret).verify(body, dict(post.headers))


def again() -> None:
    """Run what waits for its retry, whatever its time, and look the webhook up anew."""
    Message.objects.filter(state=State.SCHEDULED).run_now()
    targets.forget_all()
    run_all()


def waits() -> timedelta:
    """Return how long the only message waits for its next attempt."""
    [message] = Message.objects.all()
    assert message.state == State.SCHEDULED
    return message.run_at - timezone.now()


def error() -> str:
    [message] = Message.objects.all()
    text: str = message.errors[-1]["message"]
    return text


class TestAPost:
    def test_it_is_signed_so_that_others_can_verify_it(self, receiver: Receiver) -> None:
        secret = create(receiver).secret

        enqueue(event({"total": 12}))
        run_all(raise_errors=True)

        [post] = receiver.posts
        assert verified(post, secret)["data"] == {"total": 12}
        assert post.headers["content-type"] == "application/json"
        assert post.headers["user-agent"].startswith("pgqueue/")

    def test_what_was_answered_is_in_history(self, receiver: Receiver) -> None:
        create(receiver)
        receiver.answer(202, b"thanks\x00" + b"x" * 2000)

        enqueue()
        run_all()

        ended = History.objects.get()
        assert (ended.outcome, ended.result["status"]) == (Outcome.SUCCEEDED, 202)
        assert ended.result["response"] == "thanks" + "x" * (1024 - 7)
        assert ended.result["ms"] > 0

    def test_the_id_stays_the_same_and_the_time_does_not(self, receiver: Receiver) -> None:
        secret = create(receiver, max_attempts=2).secret
        receiver.answer(500, times=2)
        Message.objects.filter(pk=enqueue().id).update(max_attempts=2)

        run_all()
        again()
        assert Message.objects.get().state == State.DEAD
        assert webhooks.replay("shop") == 1
        run_all(raise_errors=True)

        assert len(set(receiver.ids)) == 1
        assert len(receiver.posts) == 3
        for post in receiver.posts:
            verified(post, secret)

    def test_other_events_and_other_webhooks_have_other_ids(self, receiver: Receiver) -> None:
        create(receiver)
        create(receiver, "other")
        for name in ("shop", "other"):
            enqueue(event(position=1), name=name)
            enqueue(event(position=2), name=name)
            enqueue(event(position=1), event(position=2), name=name)

        run_all(raise_errors=True)

        assert len(set(receiver.ids)) == 6

    def test_both_secrets_verify_it_after_a_rotation(self, receiver: Receiver) -> None:
        old = create(receiver).secret
        enqueue()
        run_all()

        new = webhooks.rotate("shop")
        enqueue()
        run_all()

        first, second = receiver.posts
        with pytest.raises(WebhookVerificationError):
            verified(first, new)
        verified(second, old)
        verified(second, new)

    def test_it_is_compressed_from_a_kibibyte_on_and_signed_before(
        self, receiver: Receiver
    ) -> None:
        secret = create(receiver).secret
        for size in (100, 1024, 5000):
            enqueue(event("x" * size))

        run_all(raise_errors=True)

        kinds = [post.headers.get("content-encoding") for post in receiver.posts]
        assert sorted(map(str, kinds)) == ["None", "gzip", "gzip"]
        assert {len(verified(post, secret)["data"]) for post in receiver.posts} == {100, 1024, 5000}
        assert all(len(post.body) < 1024 for post in receiver.posts)

    def test_it_is_not_compressed_for_those_who_can_not_unpack_it(self, receiver: Receiver) -> None:
        create(receiver, gzip=False)

        enqueue(event("x" * 5000))
        run_all(raise_errors=True)

        assert json.loads(receiver.posts[0].body)["data"] == "x" * 5000

    def test_a_list_of_events_is_one_post(self, receiver: Receiver) -> None:
        secret = create(receiver, batch=10).secret

        enqueue(event(1, position=1), event(2, position=2))
        run_all(raise_errors=True)

        assert [each["data"] for each in verified(receiver.posts[0], secret)] == [1, 2]

    def test_it_may_be_a_cloudevent(
        self, receiver: Receiver, webhook_options: dict[str, Any]
    ) -> None:
        secret = create(receiver, cloudevents=True).secret

        enqueue(event(position=9))
        run_all(raise_errors=True)

        [post] = receiver.posts
        assert post.headers["content-type"] == "application/cloudevents+json"
        read = verified(post, secret)
        assert (read["source"], read["type"]) == ("/pgqueue", "order.paid")
        assert read["id"] == event(position=9).unique_id

    def test_of_another_event_at_the_same_position_has_another_id(self, receiver: Receiver) -> None:
        """After a restore to an earlier time: else the receiver takes it for a repetition."""
        create(receiver)
        first = event(position=9)
        later = replace(first, created_at=first.created_at + timedelta(microseconds=1))

        for each in (first, first, later):
            enqueue(each)
        run_all(raise_errors=True)

        one, again, other = receiver.ids
        assert one == again != other

    def test_it_may_be_what_a_function_makes(self, receiver: Receiver) -> None:
        create(receiver, serializer=as_lines)

        enqueue(event(position=9))
        run_all(raise_errors=True)

        [post] = receiver.posts
        assert (post.headers["content-type"], post.body) == ("text/plain", "9\xe4\n".encode())

    def test_headers_of_the_settings_and_its_own_are_sent(
        self, receiver: Receiver, webhook_options: dict[str, Any], settings: Any
    ) -> None:
        common = {"X-From": "all", "X-All": "1", "User-Agent": "us"}
        settings.PGQUEUE = {"WEBHOOKS": {**webhook_options, "HEADERS": common}}
        create(receiver, headers={"x-from": "shop"})

        enqueue()
        run_all(raise_errors=True)

        sent = receiver.posts[0].headers
        assert (sent["x-from"], sent["x-all"], sent["user-agent"]) == ("shop", "1", "us")


class TestAnAnswer:
    @pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
    def test_any_of_success_is_one(self, receiver: Receiver, status: int) -> None:
        create(receiver)
        receiver.answer(status)

        enqueue()
        run_all()

        assert History.objects.get().result["status"] == status

    @pytest.mark.parametrize("status", [301, 302, 400, 401, 404, 409, 429, 500, 502, 503])
    def test_any_other_is_a_failure_that_is_retried(self, receiver: Receiver, status: int) -> None:
        create(receiver, backoff=[50])
        receiver.answer(status, b"no, not now\nreally", location="/elsewhere")

        enqueue()
        run_all()

        assert 40 * SECOND < waits() <= 50 * SECOND
        message = Message.objects.get()
        assert (message.failures, message.attempt) == (1, 1)
        assert error().startswith(f"HTTP {status} after ")
        assert error().endswith(" ms: no, not now\nreally")
        assert message.errors[-1]["class"] == "pgqueue.exceptions.DeliveryFailed"
        again()
        assert History.objects.get().result["status"] == 200

    def test_none_within_the_timeout_is_a_failure(self, receiver: Receiver) -> None:
        with speaking(lambda connection, over: over.wait(30)) as (url, _):
            webhooks.create("shop", url, timeout=0.3)
            enqueue()
            run_all()

        assert error() == "It did not answer within 0.3 s."

    def test_an_address_that_is_private_by_now_is_a_failure(
        self, receiver: Receiver, settings: Any
    ) -> None:
        create(receiver)
        settings.PGQUEUE = {"WEBHOOKS": {}}
        targets.forget_all()

        enqueue()
        run_all()

        assert "Its address 127.0.0.1 is private" in error()
        assert not receiver.posts

    def test_422_ends_a_delivery_for_good(self, receiver: Receiver) -> None:
        create(receiver)
        receiver.answer(422, b"what is that?")

        enqueue()
        run_all()

        ended = History.objects.get()
        assert (ended.outcome, ended.failures, len(receiver.posts)) == (Outcome.DISCARDED, 0, 1)
        assert ended.errors[-1]["message"].endswith("what is that?")
        assert "HTTP 422" in ended.errors[-1]["message"]
        assert not Message.objects.exists()

    def test_410_disables_the_webhook_and_what_waits_is_kept_as_dead_letters(
        self, receiver: Receiver, caplog: pytest.LogCaptureFixture
    ) -> None:
        create(receiver)
        receiver.answer(410, b"we are gone")
        for _ in range(3):
            enqueue()

        with caplog.at_level(logging.WARNING, "pgqueue"):
            run_all()

        found = row()
        assert (found.enabled, found.paused) == (False, True)
        assert found.error == "The endpoint answered 410 Gone."
        assert len(receiver.posts) == 1
        assert [each.state for each in Message.objects.all()] == [State.DEAD] * 3
        assert "HTTP 410" in Message.objects.order_by("id")[0].errors[-1]["message"]
        assert "Nothing is posted to the webhook shop any more" in caplog.text
        webhooks.enable("shop")
        assert webhooks.replay("shop") == 3
        run_all(raise_errors=True)
        assert len(receiver.posts) == 4

    def test_what_waits_for_a_deleted_one_is_discarded(self, receiver: Receiver) -> None:
        create(receiver)
        enqueue()

        webhooks.delete("shop")
        run_all()

        ended = History.objects.get()
        assert (ended.outcome, ended.errors[-1]["message"]) == (
            Outcome.DISCARDED,
            "The webhook was deleted.",
        )

    def test_what_waits_for_a_deleted_one_is_not_posted_to_the_next_one_of_its_name(
        self, receiver: Receiver
    ) -> None:
        create(receiver)
        enqueue()
        Message.objects.update(created_at=timezone.now() - 60 * SECOND)

        webhooks.delete("shop")
        create(receiver)
        enqueue()
        run_all()

        old, new = History.objects.order_by("id")
        assert (old.outcome, new.outcome) == (Outcome.DISCARDED, Outcome.SUCCEEDED)
        assert len(receiver.posts) == 1

    def test_nothing_that_lets_one_in_is_kept_or_logged(
        self, receiver: Receiver, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        receiver.url += "?token=hidden-in-the-url"
        made = create(receiver, headers={"Authorization": "Bearer hidden-too"})
        receiver.answer(500, b"you sent Bearer hidden-too")
        receiver.answer(200, b"you sent Bearer hidden-too again")

        enqueue()
        run_all()
        kept = json.dumps(list(Message.objects.values_list("errors", "payload", "options")))
        again()
        kept += json.dumps(list(History.objects.values_list("errors", "payload", "result")))

        assert History.objects.get().result["response"] == "you sent \u2026 again"
        for secret in ("hidden-", made.secret, made.secret.removeprefix("whsec_")):
            assert secret not in kept + caplog.text

    @pytest.mark.parametrize(
        ("said", "kept"),
        [
            ("no token hidden-too here", "no token \u2026 here"),
            ("Bearer hidden-too", "\u2026"),
            ("x" * (1024 - 7) + "hidden-too", "x" * (1024 - 7) + "\u2026"),
        ],
        ids=["without its scheme", "whole", "cut"],
    )
    def test_a_part_of_what_lets_one_in_is_not_kept(
        self, receiver: Receiver, said: str, kept: str
    ) -> None:
        create(receiver, headers={"Authorization": "Bearer hidden-too"})
        receiver.answer(200, said.encode())

        enqueue()
        run_all(raise_errors=True)

        assert History.objects.get().result["response"] == kept


class TestRetryAfter:
    @pytest.mark.parametrize(
        ("said", "meant"),
        [
            ("120", 120),
            (" 7 ", 7),
            ("0", 0),
            ("999999999999999999999", 86_400),
            ("Fri, 31 Dec 2999 23:59:59 GMT", 86_400),
            ("Sun, 06 Nov 1994 08:49:37 GMT", 0),
        ],
    )
    def test_it_is_seconds_or_a_date_and_bounded(self, said: str, meant: int) -> None:
        assert wait_of(said) == timedelta(seconds=meant)

    def test_a_date_is_from_now(self) -> None:
        said = format_datetime(datetime.now(UTC) + timedelta(minutes=10), usegmt=True)

        found = wait_of(said)

        assert found is not None
        assert timedelta(minutes=9) < found <= timedelta(minutes=10)

    @pytest.mark.parametrize(
        "said",
        [
            *(None, "", "soon", "-1", "1.5", "\u0661", "Wed, 99 Nov 9999 99:99:99 GMT", "\x00"),
            f"Wed, 11 Nov {'9' * 20} 09:09:09 GMT",
            f"Wed, 11 Nov 2026 09:09:09 +{'9' * 20}",
        ],
    )
    def test_what_nobody_understands_is_nothing(self, said: str | None) -> None:
        assert wait_of(said) is None

    @pytest.mark.parametrize("status", [429, 503])
    def test_a_delivery_waits_as_long_as_it_is_asked_to(
        self, receiver: Receiver, status: int
    ) -> None:
        create(receiver, backoff=[1])
        receiver.answer(status, retry_after="500")

        enqueue()
        run_all()

        assert 490 * SECOND < waits() <= 500 * SECOND

    def test_and_no_less_than_its_own_backoff_says(self, receiver: Receiver) -> None:
        create(receiver, backoff=[100])
        receiver.answer(503, retry_after="5")

        enqueue()
        run_all()

        assert 90 * SECOND < waits() <= 100 * SECOND


class Result:
    failures = 2


class TestPatience:
    def test_it_is_the_webhooks_or_else_that_of_the_settings(
        self, webhook_options: dict[str, Any], settings: Any
    ) -> None:
        settings.PGQUEUE = {"WEBHOOKS": {**webhook_options, "BACKOFF": [3, 4]}}
        own = DeliveryFailed("x", backoff=Exponential(base=1, jitter=0))

        assert patience(own, Result()) == 2
        assert patience(DeliveryFailed("x"), Result()) == 4
        assert patience(ValueError(), Result()) == 4
        assert patience(WebhookDisabled(), Result()) is None

    def test_a_function_that_gives_up_is_followed(self) -> None:
        error = DeliveryFailed("x", backoff=lambda error, result: None, asked_for=SECOND)

        assert patience(error, Result()) is None


class TestPausing:
    @pytest.fixture
    def webhook_options(self, webhook_options: dict[str, Any]) -> dict[str, Any]:
        return {**webhook_options, "PAUSE_AFTER": 60, "BACKOFF": [1]}

    def fail(self, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(health, "NOTE_EVERY", 0.0)
        enqueue()
        for _ in range(times):
            again()

    @pytest.mark.parametrize("wrong_by", [-3600, 3600])
    def test_an_endpoint_is_paused_by_the_databases_clock(
        self, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, wrong_by: int
    ) -> None:
        create(receiver)
        receiver.answer(500, times=99)
        with time_machine.travel(time.time() + wrong_by, tick=True):
            self.fail(6, monkeypatch)
            is_early = row().paused
            Webhook.objects.update(failing_since=timezone.now() - timedelta(seconds=wrong_by + 61))

            again()

        assert (is_early, row().paused) == (False, True)

    def test_an_endpoint_that_fails_for_long_is_paused_and_what_waits_is_kept(
        self,
        receiver: Receiver,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        create(receiver)
        receiver.answer(500, times=99)
        self.fail(6, monkeypatch)
        assert (row().failures, row().paused) == (6, False)
        since = row().failing_since
        assert since is not None
        Webhook.objects.update(failing_since=since - timedelta(seconds=61))

        with caplog.at_level(logging.WARNING, "pgqueue"):
            again()

        assert (row().paused, row().enabled) == (True, True)
        assert row().error == "Nothing but failures for 0:01:00."
        assert "webhook shop" in caplog.text
        posted, failures = len(receiver.posts), Message.objects.get().failures
        for _ in range(3):
            again()
        assert len(receiver.posts) == posted
        message = Message.objects.get()
        assert (message.state, message.failures) == (State.SCHEDULED, failures)

        receiver.answers.clear()
        assert webhooks.resume("shop") == 1
        run_all(raise_errors=True)
        assert len(receiver.posts) == posted + 1
        assert (row().paused, row().failing_since, row().error) == (False, None, "")

    @pytest.mark.parametrize(
        ("stop", "go_on"),
        [
            (webhooks.pause, [webhooks.resume]),
            (webhooks.disable, [webhooks.enable, webhooks.replay]),
        ],
    )
    def test_one_that_goes_on_by_another_process_is_posted_to_at_once(
        self, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, stop: Any, go_on: Any
    ) -> None:
        create(receiver)
        enqueue()
        stop("shop")
        run_all()
        monkeypatch.setattr(targets, "forget", lambda *_: None)

        for verb in go_on:
            verb("shop")
        run_all(raise_errors=True)

        assert len(receiver.posts) == 1

    def test_one_that_failed_and_then_answered_is_not(
        self, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        create(receiver)
        receiver.answer(500, times=6)
        self.fail(7, monkeypatch)

        assert History.objects.exists()
        assert (row().failures, row().failing_since) == (0, None)

    def test_an_old_failure_and_a_new_one_are_no_outage(
        self, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        create(receiver)
        receiver.answer(500, times=2)
        self.fail(1, monkeypatch)
        Webhook.objects.update(failing_since=timezone.now() - timedelta(days=9))

        again()

        assert (row().failures, row().paused) == (2, False)

    def test_one_that_answers_while_a_failure_is_noted_is_not(
        self, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        create(receiver)
        receiver.answer(500, b"busy")
        note = health._note

        def answered_meanwhile(target: targets.WebhookTarget, **columns: object) -> None:
            note(target, **columns)
            if columns["failures"]:
                health.succeeded(target)

        monkeypatch.setattr(health, "_note", answered_meanwhile)
        enqueue()
        run_all()

        assert error().endswith("busy")
        assert (row().failures, row().failing_since) == (0, None)

    def test_one_may_never_be_paused(
        self,
        receiver: Receiver,
        monkeypatch: pytest.MonkeyPatch,
        webhook_options: dict[str, Any],
        settings: Any,
    ) -> None:
        settings.PGQUEUE = {"WEBHOOKS": {**webhook_options, "PAUSE_AFTER": None}}
        create(receiver)
        receiver.answer(500, times=9)
        self.fail(6, monkeypatch)
        Webhook.objects.update(failing_since=timezone.now() - timedelta(days=900))

        again()

        assert not row().paused

    def test_what_waits_looks_less_and_less_often(self, receiver: Receiver) -> None:
        create(receiver)
        webhooks.pause("shop")
        enqueue()
        run_all()

        found = []
        for _ in range(8):
            found.append(round(waits().total_seconds() / 60))
            again()

        assert found == [1, 2, 4, 8, 16, 32, 60, 60]
        assert not receiver.posts

    def test_a_422_is_an_answer(self, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
        create(receiver)
        receiver.answer(500)
        receiver.answer(422)
        self.fail(2, monkeypatch)

        assert row().failing_since is None


def statements(queries: CaptureQueriesContext, verb: str) -> Sequence[str]:
    return [
        each["sql"]
        for each in queries.captured_queries
        if each["sql"].startswith(verb) and '"pgqueue_webhook"' in each["sql"]
    ]


class TestItsRow:
    def test_it_is_not_written_while_all_is_well_and_read_once_a_second(
        self, receiver: Receiver
    ) -> None:
        create(receiver)
        for _ in range(20):
            enqueue()

        with CaptureQueriesContext(connection) as queries:
            run_all(raise_errors=True)

        assert not statements(queries, "UPDATE")
        assert 1 <= len(statements(queries, "SELECT")) < 10
        assert len(receiver.posts) == 20

    def test_it_is_written_once_when_many_fail_at_once(self, receiver: Receiver) -> None:
        create(receiver)
        receiver.answer(500, times=20)
        for _ in range(20):
            enqueue()

        with CaptureQueriesContext(connection) as queries:
            run_all()

        assert 1 <= len(statements(queries, "UPDATE")) < 10
        assert row().failing_since is not None

    def test_it_is_written_once_when_all_is_well_again(self, receiver: Receiver) -> None:
        create(receiver)
        Webhook.objects.update(failures=9, failing_since=timezone.now())
        for _ in range(20):
            enqueue()

        with CaptureQueriesContext(connection) as queries:
            run_all(raise_errors=True)

        assert len(statements(queries, "UPDATE")) == 1
        assert (row().failures, row().failing_since) == (0, None)

    def test_a_change_here_is_seen_at_once(self, receiver: Receiver) -> None:
        mine = create(receiver)
        enqueue()
        run_all(raise_errors=True)

        mine.headers = {"x-new": "1"}
        mine.save()
        enqueue()
        run_all(raise_errors=True)

        assert [each.headers.get("x-new") for each in receiver.posts] == [None, "1"]


@pytest.mark.django_db(transaction=True)
class TestALockedRow:
    """An operator has locked the row of a webhook, for example in a shell."""

    @pytest.fixture(autouse=True)
    def _is_waited_for_briefly(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(health, "PATIENCE", "100ms")

    @contextmanager
    def locked(self) -> Iterator[None]:
        with connect("default", name="test") as session, session.transaction():
            session.execute("SELECT FROM pgqueue_webhook FOR UPDATE")
            # A delivery that waits without a limit fails the test.
            with connection.cursor() as cursor:
                cursor.execute("SET lock_timeout = '5s'")
                yield
                cursor.execute("RESET lock_timeout")

    def test_fails_no_delivery_that_was_answered(self, receiver: Receiver) -> None:
        create(receiver)
        receiver.answer(500)
        enqueue()
        run_all()
        assert row().failures == 1

        began = monotonic()
        with self.locked():
            again()

        assert monotonic() - began < 3
        assert History.objects.get().outcome == Outcome.SUCCEEDED

        enqueue()
        run_all()
        assert row().failures == 0

    @pytest.mark.parametrize("status", [410, 500])
    def test_does_not_hold_a_delivery_that_failed(self, receiver: Receiver, status: int) -> None:
        create(receiver)
        receiver.answer(status, times=2)
        enqueue()

        began = monotonic()
        with self.locked():
            run_all()

        assert monotonic() - began < 3
        assert f"HTTP {status}" in error()
        assert row().enabled
