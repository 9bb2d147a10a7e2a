"""Subscriptions that start now get no event that was published before."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.db import transaction

from pgqueue import publish_many
from pgqueue.events import subscriptions
from pgqueue.exceptions import InvalidSubscription
from pgqueue.models import Message, Subscription
from pgqueue.webhooks import create
from tests.events import handlers

Dispatch = Callable[[], None]
pytestmark = pytest.mark.polled


def numbers(name: str) -> list[int]:
    """Return the payloads of the events that a subscription made messages of."""
    messages = Message.objects.filter(metadata__subscription=name).order_by("id")
    return [each.payload["args"][0]["payload"] for each in messages]


def publish_numbers(*given: int) -> None:
    publish_many([("n", n) for n in given])


def test_a_subscription_gets_no_event_from_before_it(dispatch: Dispatch) -> None:
    publish_numbers(1, 2)  # no worker has given them positions

    subscriptions.create("new", handlers.plain)
    publish_numbers(3)
    dispatch()

    assert numbers("new") == [3]


def test_a_webhook_posts_no_event_from_before_it(dispatch: Dispatch) -> None:
    publish_numbers(1, 2)

    create("new", "https://example.com/hooks")
    publish_numbers(3)
    dispatch()

    assert numbers("new") == [3]


def test_a_row_that_is_saved_gets_no_event_from_before_it(dispatch: Dispatch) -> None:
    publish_numbers(1, 2)

    Subscription(name="new", channel="new", task=handlers.plain.name).save()
    publish_numbers(3)
    dispatch()

    assert numbers("new") == [3]


def test_a_start_after_the_end_of_the_log_counts_waiting_events(dispatch: Dispatch) -> None:
    publish_numbers(1, 2)

    subscriptions.create("new", handlers.plain, start=datetime.now(UTC) + timedelta(hours=1))
    publish_numbers(3)
    dispatch()

    assert numbers("new") == [3]


def test_in_a_transaction_a_subscription_gets_events_that_wait_for_a_position(
    dispatch: Dispatch,
) -> None:
    publish_numbers(1)
    with transaction.atomic():
        subscriptions.create("new", handlers.plain)

    dispatch()

    assert numbers("new") == [1]


def test_a_taken_name_leaves_the_callers_transaction_usable(dispatch: Dispatch) -> None:
    subscriptions.create("new", handlers.plain)

    with transaction.atomic():
        with pytest.raises(InvalidSubscription, match="already"):
            subscriptions.create("new", handlers.plain)
        assert Subscription.objects.filter(pk="new").exists()
