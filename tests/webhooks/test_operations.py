"""Webhooks as code makes and operates them."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.db import connection, transaction
from django.utils import timezone

from pgqueue import Exponential, InvalidSubscription, InvalidWebhook, publish, webhooks
from pgqueue.events import subscriptions
from pgqueue.exceptions import InvalidFilter
from pgqueue.models import Message, Subscription, Webhook
from pgqueue.models.webhook import DELIVER, DELIVER_BATCH
from pgqueue.options.retries import load_backoff
from pgqueue.options.webhook_options import new_secret
from pgqueue.testing import run_all
from pgqueue.webhooks import delivering
from pgqueue.webhooks.targets import find_target
from tests import jobs
from tests.webhooks.receiver import Receiver
from tests.webhooks.test_bodies import as_lines, event

pytestmark = pytest.mark.django_db
URL = "https://example.com/hooks?token=hidden"
LATER = datetime(2100, 1, 1, tzinfo=UTC)


def create(name: str = "shop", url: str = URL, **options: Any) -> Webhook:
    return webhooks.create(name, url, **options)


def row(name: str = "shop") -> Webhook:
    return Webhook.objects.get(pk=name)


def test_a_webhook_is_a_subscription_whose_task_posts() -> None:
    made = create(topics="order.*", where={"total__gte": 100})

    own = Subscription.objects.get(pk="shop")
    assert (own.task, own.channel, own.key) == (delivering.deliver.name, "webhooks", "shop")
    assert (own.topics, own.where, own.max_attempts) == (["order.*"], {"total__gte": 100}, 16)
    assert (made.url, made.enabled, made.paused) == (URL, True, False)
    assert made.secret == row().secret


def test_the_tasks_of_its_messages_are_those_that_it_names() -> None:
    assert (delivering.deliver.name, delivering.deliver_batch.name) == (DELIVER, DELIVER_BATCH)
    assert create(batch=10).task == DELIVER_BATCH


def test_all_options_are_kept() -> None:
    secret = new_secret()

    create(
        secret=secret,
        headers={"X-From": "shop"},
        cloudevents=True,
        gzip=False,
        serializer=as_lines,
        timeout=3,
        backoff=Exponential(base=1),
        max_attempts=3,
        channel="hooks",
        ordered=True,
        batch=5,
        split_by="{key}",
        expires_after=60,
        predicate="e.key = s.params ->> 'key'",
        params={"key": "a"},
    )

    made = row()
    assert (made.secret, made.headers, made.cloudevents) == (secret, {"X-From": "shop"}, True)
    assert (made.gzip, made.serializer) == (False, "tests.webhooks.test_bodies.as_lines")
    assert (made.timeout, made.max_attempts) == (timedelta(seconds=3), 3)
    assert load_backoff(made.backoff) == Exponential(base=1)
    assert (made.channel, made.ordered, made.batch, made.split_by) == ("hooks", True, 5, "{key}")
    assert (made.predicate, made.params) == ("e.key = s.params ->> 'key'", {"key": "a"})
    assert made.expires_at is not None


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"name": ""}, InvalidSubscription),
        ({"name": "{key}"}, InvalidWebhook),
        ({"name": 7}, InvalidSubscription),
        ({"url": "ftp://example.com"}, InvalidWebhook),
        ({"url": "https://10.0.0.1/"}, InvalidWebhook),
        ({"url": None}, InvalidWebhook),
        ({"secret": "hidden"}, InvalidWebhook),
        ({"headers": {"Host": "a"}}, InvalidWebhook),
        ({"headers": 7}, InvalidWebhook),
        ({"cloudevents": 1}, InvalidWebhook),
        ({"gzip": "no"}, InvalidWebhook),
        ({"serializer": print}, InvalidWebhook),
        ({"serializer": "os.system"}, InvalidWebhook),
        ({"timeout": 0}, InvalidWebhook),
        ({"timeout": "1"}, InvalidWebhook),
        ({"backoff": "often"}, InvalidWebhook),
        ({"backoff": [-1]}, InvalidWebhook),
        ({"backoff": lambda error, result: 1}, InvalidWebhook),
        ({"max_attempts": 0}, InvalidWebhook),
        ({"topics": "a..b"}, InvalidFilter),
        ({"batch": 0}, InvalidSubscription),
        ({"split_by": "{key}"}, InvalidSubscription),
        ({"channel": ""}, InvalidSubscription),
        ({"database": "nowhere"}, InvalidSubscription),
    ],
)
def test_an_option_that_can_not_be_is_named(
    options: dict[str, Any], error: type[Exception]
) -> None:
    given = {"name": "shop", "url": URL, **options}

    with pytest.raises(error, match=next(iter(options))) as raised:
        webhooks.create(**given)

    assert "hidden" not in str(raised.value)
    assert not Subscription.objects.exists()


def test_a_name_is_taken_once_by_webhooks_and_subscriptions() -> None:
    subscriptions.create("audit", channel="audit")
    create()

    for name in ("audit", "shop"):
        with pytest.raises(InvalidSubscription, match="already"):
            create(name)
    assert Subscription.objects.get(pk="audit").channel == "audit"
    assert Webhook.objects.count() == 1


def test_it_is_part_of_the_callers_transaction() -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        create()
        raise ZeroDivisionError

    assert not Subscription.objects.exists()
    assert not Webhook.objects.exists()


def test_deleting_it_deletes_its_subscription() -> None:
    create()

    assert webhooks.delete("shop")
    assert not webhooks.delete("shop")
    assert not Subscription.objects.exists()


def test_deleting_its_subscription_by_sql_deletes_it_too() -> None:
    create()

    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM pgqueue_subscription")
        cursor.execute("SELECT count(*) FROM pgqueue_webhook")
        assert cursor.fetchone() == (0,)


def test_a_row_that_is_saved_is_checked_and_keeps_what_workers_write() -> None:
    mine = create()
    Webhook.objects.update(failures=3, failing_since=timezone.now(), position=0, follows=True)

    mine.headers = {"X-From": "shop"}
    mine.batch = 3
    mine.save()

    found = row()
    assert (found.headers, found.task) == ({"X-From": "shop"}, DELIVER_BATCH)
    assert (found.failures, found.follows) == (3, True)
    mine.url = "https://127.0.0.2.example:0/"
    with pytest.raises(InvalidWebhook, match="url"):
        mine.save()


class TestSecrets:
    def test_a_rotated_one_signs_for_a_while(self) -> None:
        old = create().secret

        new = webhooks.rotate("shop", keep_old_for=60)

        assert new != old
        now = timezone.now()
        assert row().signing_secrets(now) == [new, old]
        assert row().signing_secrets(now + timedelta(seconds=61)) == [new]

    @pytest.mark.parametrize("wrong_by", [-3600, 3600])
    def test_a_rotated_one_signs_by_the_databases_clock(self, wrong_by: int) -> None:
        create()
        with time_machine.travel(time.time() + wrong_by, tick=True):
            webhooks.rotate("shop", keep_old_for=60)
            target = find_target("default", "shop")

        now = timezone.now()
        assert len(row().signing_secrets(now)) == 2
        assert len(row().signing_secrets(now + timedelta(seconds=61))) == 1
        assert target is not None and len(target.signing_keys) == 2

    def test_each_of_several_signs_until_its_own_time(self) -> None:
        first = create().secret
        second = webhooks.rotate("shop", keep_old_for=60)
        third = webhooks.rotate("shop", new_secret(), keep_old_for=timedelta(minutes=5))

        now = timezone.now()
        assert row().signing_secrets(now) == [third, second, first]
        assert row().signing_secrets(now + timedelta(minutes=2)) == [third, second]

    def test_one_that_is_no_longer_to_be_trusted_signs_no_more(self) -> None:
        create()

        new = webhooks.rotate("shop", keep_old_for=0)

        assert row().signing_secrets(timezone.now()) == [new]

    def test_one_that_comes_back_signs_once(self) -> None:
        first = create().secret
        second = webhooks.rotate("shop")

        webhooks.rotate("shop", first)

        assert row().signing_secrets(timezone.now()) == [first, second]

    def test_only_so_many_sign_at_once(self) -> None:
        create()
        for _ in range(9):
            webhooks.rotate("shop")

        assert len(row().signing_secrets(timezone.now())) == 6

    @pytest.mark.parametrize("given", [{"secret": "hidden"}, {"keep_old_for": -1},
                                       {"keep_old_for": "long"}])  # fmt: skip
    def test_what_can_not_be_is_refused(self, given: dict[str, Any]) -> None:
        create()

        with pytest.raises(InvalidWebhook, match=next(iter(given))) as error:
            webhooks.rotate("shop", **given)
        assert "hidden" not in str(error.value)


@pytest.mark.parametrize("verb", ["rotate", "enable", "disable", "pause", "resume", "replay",
                                  "send_test"])  # fmt: skip
@pytest.mark.parametrize("name", ["nobody", "audit", "", None, "\x00"])
def test_one_that_is_not_there_is_said_so(verb: str, name: Any) -> None:
    subscriptions.create("audit", channel="audit")

    with pytest.raises(InvalidWebhook, match="no webhook"):
        getattr(webhooks, verb)(name)


def test_one_that_is_paused_makes_no_messages_and_goes_on_where_it_was() -> None:
    create()

    webhooks.pause("shop")
    assert (row().paused, row().enabled) == (True, True)
    webhooks.resume("shop")
    assert not row().paused


def test_one_that_is_disabled_begins_anew_when_it_is_enabled() -> None:
    create()
    Subscription.objects.update(position=0)
    webhooks.disable("shop")
    assert (row().paused, row().enabled) == (True, False)
    with pytest.raises(InvalidWebhook, match="enable it instead"):
        webhooks.resume("shop")

    webhooks.enable("shop")

    assert (row().paused, row().enabled) == (False, True)
    webhooks.enable("shop")


def test_a_test_is_sent_also_where_nothing_else_is(receiver: Receiver) -> None:
    create(url=receiver.url)
    webhooks.disable("shop")

    result = webhooks.send_test("shop")
    other = webhooks.send_test("shop")
    run_all()

    result.refresh()
    assert result.return_value["status"] == 200
    assert b'"type":"pgqueue.test"' in receiver.posts[0].body
    assert len(set(receiver.ids)) == 2
    other.refresh()
    assert not Message.objects.exists()


def test_a_test_of_one_with_a_batch_is_a_list(receiver: Receiver) -> None:
    create(url=receiver.url, batch=10)

    webhooks.send_test("shop")
    run_all(raise_errors=True)

    assert receiver.posts[0].body.startswith(b"[{")


def test_a_test_that_fails_is_not_repeated_and_says_nothing_of_health(receiver: Receiver) -> None:
    create(url=receiver.url)
    receiver.answer(410, b"gone")

    result = webhooks.send_test("shop")
    run_all()

    result.refresh()
    assert "HTTP 410" in result.errors[-1].message
    assert (row().enabled, row().failures, len(receiver.posts)) == (True, 0, 1)


def test_publishing_makes_no_message_by_itself() -> None:
    create()
    publish("order.paid")

    assert not Message.objects.exists()


class TestADeliveryInAnotherChannel:
    """The channel of its webhook was changed."""

    @pytest.fixture(autouse=True)
    def _stored(self) -> None:
        create(channel="first")
        for state in ("scheduled", "dead"):
            id = delivering.deliver.using(channel="first", key="shop").enqueue(event()).id
            Message.objects.filter(pk=id).update(state=state, run_at=LATER)
        Webhook.objects.filter(pk="shop").update(channel="second")

    def test_is_ready_after_a_resume(self) -> None:
        assert webhooks.resume("shop") == 1
        assert Message.objects.filter(state="ready").count() == 1

    def test_is_replayed(self) -> None:
        assert webhooks.replay("shop") == 1
        assert not Message.objects.dead().exists()

    def test_is_not_a_message_of_another_task_with_the_same_key(self) -> None:
        other = jobs.add.using(channel="first", key="shop", run_after=3600).enqueue(1)

        assert webhooks.resume("shop") == 1
        assert Message.objects.get(pk=other.id).state == "scheduled"
