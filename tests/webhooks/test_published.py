"""From what is published to what is posted, as workers do it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connections, transaction

from pgqueue import publish, publish_many, webhooks
from pgqueue.events import groups, growth, subscribing
from pgqueue.models import History, Message, Webhook
from pgqueue.testing import run_all
from tests.engine.conftest import broom, connect, connection, transactional_db  # noqa: F401
from tests.events.conftest import dispatch  # noqa: F401
from tests.webhooks.receiver import Receiver

Dispatch = Callable[[], None]


@pytest.fixture(autouse=True)
def _every_test_commits(
    transactional_db: None,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[None]:
    subscribing.declared("default")  # imports what would declare its own later
    monkeypatch.setattr(subscribing, "_subscriptions", {})
    yield
    growth.forget_all()


def payloads(receiver: Receiver) -> list[Any]:
    """Return what was posted, in the order of the log."""
    read = [json.loads(post.body) for post in receiver.posts]
    flat = [each for one in read for each in (one if isinstance(one, list) else [one])]
    return [each["data"] for each in sorted(flat, key=lambda each: each["position"])]


def test_events_that_match_are_posted(dispatch: Dispatch, receiver: Receiver) -> None:  # noqa: F811
    webhooks.create("shop", receiver.url, topics="order.*", where={"total__gte": 100})
    publish("order.paid", {"total": 150})
    publish("order.paid", {"total": 50})
    publish("user.signed_up", {"total": 500})

    dispatch()
    run_all(raise_errors=True)

    assert payloads(receiver) == [{"total": 150}]
    message = History.objects.get()
    assert (message.channel, message.key, message.result["status"]) == ("webhooks", "shop", 200)


def test_a_batch_is_posted_together(dispatch: Dispatch, receiver: Receiver) -> None:  # noqa: F811
    webhooks.create("shop", receiver.url, batch=10)
    publish_many([("n", n) for n in range(15)])

    dispatch()
    run_all(raise_errors=True)

    assert payloads(receiver) == list(range(15))
    assert sorted(len(json.loads(post.body)) for post in receiver.posts) == [5, 10]


def test_what_is_published_while_it_is_paused_is_posted_when_it_is_resumed(
    dispatch: Dispatch,  # noqa: F811
    receiver: Receiver,
) -> None:
    webhooks.create("shop", receiver.url)
    dispatch()
    publish("n", 1)
    dispatch()
    webhooks.pause("shop")
    publish("n", 2)
    dispatch()
    run_all()
    assert not receiver.posts

    assert webhooks.resume("shop") == 1
    publish("n", 3)
    dispatch()
    run_all(raise_errors=True)

    assert payloads(receiver) == [1, 2, 3]


def test_what_is_published_while_it_is_disabled_is_skipped(
    dispatch: Dispatch,  # noqa: F811
    receiver: Receiver,
) -> None:
    webhooks.create("shop", receiver.url)
    dispatch()
    webhooks.disable("shop")
    publish("n", 1)
    dispatch()

    webhooks.enable("shop")
    publish("n", 2)
    dispatch()
    run_all(raise_errors=True)

    assert payloads(receiver) == [2]


def test_one_that_is_enabled_before_the_dispatch_has_parted_it_repeats_nothing(
    dispatch: Dispatch,  # noqa: F811
    receiver: Receiver,
) -> None:
    webhooks.create("shop", receiver.url)
    dispatch()
    publish("n", 1)
    dispatch()

    webhooks.disable("shop")
    webhooks.enable("shop")
    publish("n", 2)
    dispatch()
    run_all(raise_errors=True)

    assert payloads(receiver) == [1, 2]


def test_a_webhook_begins_with_the_transaction_that_made_it(
    dispatch: Dispatch,  # noqa: F811
    receiver: Receiver,
) -> None:
    publish("n", 1)
    groups.resolve(connections["default"], "now")
    with transaction.atomic():
        webhooks.create("shop", receiver.url)
        publish("n", 2)
    dispatch()
    run_all(raise_errors=True)

    assert payloads(receiver) == [2]


def test_one_that_expires_goes_with_its_subscription(
    dispatch: Dispatch,  # noqa: F811
    receiver: Receiver,
) -> None:
    webhooks.create("shop", receiver.url, expires_after=0.001)

    dispatch()

    assert not Webhook.objects.exists()


def test_a_worker_posts_what_it_claims(
    dispatch: Dispatch,  # noqa: F811
    receiver: Receiver,
) -> None:
    webhooks.create("shop", receiver.url)
    publish_many([("n", n) for n in range(50)])
    dispatch()

    call_command("runworker", "--drain")

    assert payloads(receiver) == list(range(50))
    assert len(set(receiver.ids)) == 50
    assert not Message.objects.exists()
