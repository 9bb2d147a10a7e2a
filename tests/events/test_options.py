"""Each option of a record is known wherever options are: rows, forms, lists, docs."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib import admin
from django.test import RequestFactory

from pgqueue import InvalidSubscription, InvalidWebhook, subscribe, webhooks
from pgqueue.engine.dispatch import DeclaredSubscription
from pgqueue.events import subscriptions
from pgqueue.events.subscribing import SubscribeOptions
from pgqueue.models import Subscription, Webhook
from pgqueue.options import subscription_options, webhook_options
from pgqueue.options.records import Record
from pgqueue.options.subscription_options import SubscriptionOptions
from pgqueue.options.webhook_options import POST, WebhookOptions
from tests.management.calling import call

OF_SUBSCRIPTIONS = subscription_options.OPTIONS
OF_WEBHOOKS = webhook_options.OPTIONS
GIVEN: dict[str, Any] = {
    "topics": ["order.*"],
    "where": {"total__gte": 100},
    "predicate": "e.key = s.params ->> 'key'",
    "params": {"key": "a", "password": "hidden"},
    "channel": "hooks",
    "key": "{key}",
    "ordered": True,
    "batch": 5,
    "split_by": "{topic}",
    "start": "beginning",
    "expires_after": timedelta(minutes=1),
}
OF_A_POST: dict[str, Any] = {
    "secret": webhook_options.new_secret(),
    "headers": {"X-From": "shop"},
    "cloudevents": True,
    "gzip": False,
    "serializer": "tests.webhooks.test_bodies.as_lines",
    "timeout": timedelta(seconds=3),
    "backoff": [1, 2],
    "max_attempts": 3,
}


def fields_of(model: Any, user: Any) -> set[str]:
    request = RequestFactory().get("/")
    request.user = user
    return set(admin.site._registry[model].get_form(request).base_fields)


def test_the_types_of_signatures_are_of_the_same_options() -> None:
    assert set(SubscriptionOptions.__annotations__) == set(OF_SUBSCRIPTIONS)
    assert set(WebhookOptions.__annotations__) == set(OF_WEBHOOKS)
    assert set(OF_SUBSCRIPTIONS) - {"topics"} <= set(SubscribeOptions.__annotations__)


@pytest.mark.parametrize(
    ("model", "record"), [(Subscription, OF_SUBSCRIPTIONS), (Webhook, OF_WEBHOOKS)]
)
def test_each_has_a_column_and_a_field_of_the_form(
    model: Any, record: Record, admin_user: Any
) -> None:
    columns = {each.name for each in model._meta.get_fields()}

    assert {name for name, each in record.items() if each.is_column} <= columns
    assert set(record) <= fields_of(model, admin_user)


def test_each_is_declared() -> None:
    declared = {name for name, each in OF_SUBSCRIPTIONS.items() if each.is_column}

    assert declared <= set(DeclaredSubscription._fields)


@pytest.mark.parametrize(
    ("function", "record"),
    [(subscriptions.create, OF_SUBSCRIPTIONS), (webhooks.create, OF_WEBHOOKS)],
)
def test_each_is_documented_at_its_function(function: Any, record: Record) -> None:
    lines = [line.strip() for line in function.__doc__.splitlines()]

    assert {name for name in record if f"{name}: " in " ".join(lines)} == set(record)
    assert not [line for line in lines if "{options}" in line]
    assert "{options}" not in (subscribe.__doc__ or "")


@pytest.mark.django_db
def test_each_is_stored_and_listed() -> None:
    assert set(GIVEN) == set(OF_SUBSCRIPTIONS)

    subscriptions.create("large", **GIVEN)

    row = Subscription.objects.get()
    [listed] = json.loads(call("pgqueue_subscription", "list", "--format=json").out)
    for name, option in OF_SUBSCRIPTIONS.items():
        if option.is_column:
            assert getattr(row, name) == GIVEN[name], name
            assert name in listed
    assert (listed["split_by"], listed["expires_after"]) == ("{topic}", 60)
    assert listed["params"] == {"key": "a", "password": "[redacted]"}


@pytest.mark.django_db
def test_each_of_a_webhook_is_stored() -> None:
    given = {name: value for name, value in GIVEN.items() if name != "key"} | OF_A_POST
    assert set(given) == set(OF_WEBHOOKS)

    webhooks.create("shop", "https://example.com/", **given)

    row = Webhook.objects.get()
    for name, option in OF_WEBHOOKS.items():
        if option.is_column:
            assert getattr(row, name) == given[name], name
    assert set(POST) == set(OF_A_POST)


def test_an_unknown_one_is_named_with_the_one_that_was_meant() -> None:
    with pytest.raises(InvalidSubscription, match=r"no option 'splitby'. Did you mean 'split_by'"):
        subscriptions.create("a", channel="a", splitby="{key}")  # type: ignore[call-arg]
    with pytest.raises(InvalidWebhook, match=r"no option 'gzipp'. Did you mean 'gzip'"):
        webhooks.create("a", "https://example.com/", gzipp=True)  # type: ignore[call-arg]
