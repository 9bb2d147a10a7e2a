"""A disabled webhook stays disabled until it is enabled, and then skips what was published."""

from __future__ import annotations

from contextlib import closing

import pytest
from django.core.management import CommandError, call_command
from django.db import connections
from django.utils import timezone

from pgqueue import InvalidSubscription, publish, webhooks
from pgqueue.database.connections import connect
from pgqueue.engine import dispatch, health
from pgqueue.engine.sequence import catch_up
from pgqueue.models import Message, Subscription, Webhook

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.polled]
URL = "https://example.com/hooks"


@pytest.fixture(autouse=True)
def _skipped() -> None:
    """Have a disabled webhook that has skipped an event."""
    webhooks.create("shop", URL)
    webhooks.disable("shop")
    publish("order.paid", 1)
    publish_and_dispatch()


def publish_and_dispatch(*payloads: int) -> None:
    for payload in payloads:
        publish("order.paid", payload)
    django = connections["default"]
    django.ensure_connection()
    catch_up(django.connection)
    is_last = False
    while not is_last:
        with django.connection.transaction():
            is_last = dispatch.step(django.connection).is_last


def row() -> Webhook:
    return Webhook.objects.get(pk="shop")


def posted() -> list[int]:
    """Return the payloads of the events that are posted."""
    return [each.payload["args"][0]["payload"] for each in Message.objects.order_by("id")]


def test_a_queryset_resumes_none_that_is_disabled() -> None:
    webhooks.create("paused", URL)
    webhooks.pause("paused")

    assert Subscription.objects.resume() == 1

    publish_and_dispatch()
    assert (row().paused, posted()) == (True, [])


def test_a_command_that_resumes_one_names_the_remedy() -> None:
    with pytest.raises(CommandError, match=r"disabled: enable it by pgqueue.webhooks.enable\(\)"):
        call_command("pgqueue_subscription", "resume", "shop")

    assert row().paused


@pytest.mark.parametrize("fields", [None, ["paused"]])
def test_a_subscription_resumes_none_that_is_disabled(fields: list[str] | None) -> None:
    own = Subscription.objects.get(pk="shop")
    own.paused = False

    with pytest.raises(InvalidSubscription, match=r"enable it by pgqueue.webhooks.enable\(\)"):
        own.save(update_fields=fields)

    assert row().paused


@pytest.mark.parametrize("fields", [None, ["enabled"]])
def test_one_that_is_enabled_by_its_row_begins_anew(fields: list[str] | None) -> None:
    Webhook.objects.update(failures=7, failing_since=timezone.now(), error="410")
    publish("order.paid", 2)  # it has no position yet
    hook = row()

    hook.enabled = True
    hook.save(update_fields=fields)
    publish_and_dispatch(3)

    assert posted() == [3]
    found = row()
    assert (found.enabled, found.paused, found.error) == (True, False, "")
    assert (found.failures, found.failing_since) == (0, None)


@pytest.mark.parametrize("by_row", [False, True])
def test_one_that_was_disabled_skips_events_that_no_dispatch_has_seen_before(
    by_row: bool,
) -> None:
    webhooks.create("other", URL)
    publish_and_dispatch(1)
    webhooks.disable("other")
    publish("order.paid", 2)
    with closing(connect("default", name="test")) as own:
        catch_up(own)

    if by_row:
        own_row = Webhook.objects.get(pk="other")
        own_row.enabled = True
        own_row.save()
    else:
        webhooks.enable("other")
    publish_and_dispatch(3)

    assert posted() == [1, 3]


def test_one_that_is_enabled_goes_on_where_it_was_when_its_row_is_saved() -> None:
    webhooks.enable("shop")
    webhooks.pause("shop")
    publish_and_dispatch(2)
    hook = row()

    hook.paused = False
    hook.save()
    publish_and_dispatch(3)

    assert posted() == [2, 3]


def test_a_row_that_is_saved_while_it_is_disabled_stays_so() -> None:
    hook = row()
    hook.paused = False

    hook.save()

    assert row().paused


def test_one_that_is_disabled_is_not_behind() -> None:
    django = connections["default"]

    assert health.subscriptions(django.connection, limit=9) == []
