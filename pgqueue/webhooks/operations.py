"""Create webhooks at run time, and operate them by their names."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Unpack

from django.db import connections, transaction
from django.db.models import F, Value
from django.db.models.functions import Greatest
from django.utils import timezone

from pgqueue.conf import settings
from pgqueue.database.migration_check import needing_tables
from pgqueue.events import groups, subscribing, subscriptions
from pgqueue.events.recorded import RecordedEvent
from pgqueue.exceptions import InvalidWebhook
from pgqueue.listing.index import channels_in_use
from pgqueue.models import Message, Subscription, Webhook
from pgqueue.models.fields import database_time
from pgqueue.models.webhook import DELIVER, DELIVER_BATCH
from pgqueue.options import records
from pgqueue.options.records import documents
from pgqueue.options.webhook_options import (
    OF_SUBSCRIPTIONS,
    OPTIONS,
    POST,
    WebhookOptions,
    as_secret,
    new_secret,
)
from pgqueue.states import State
from pgqueue.tasks import TaskResult
from pgqueue.tasks.dropping import refuse_dropped
from pgqueue.values.error_words import shown
from pgqueue.values.instants import aware
from pgqueue.values.number_checks import as_age
from pgqueue.webhooks import delivering, health, targets

DAY = timedelta(days=1)
TEST_TOPIC = "pgqueue.test"


@documents(OPTIONS)
def create(
    name: str, url: str, *, database: str | None = None, **options: Unpack[WebhookOptions]
) -> Webhook:
    """Create a webhook, in the caller's transaction. Matching events are posted to its URL.

    With `ordered`, a failing delivery blocks all later ones. Create a webhook outside of a
    transaction if it must post no event that was published before: in an open transaction,
    `start="now"` leaves out only events that already have a position.

    Args:
        name: the name, which no other webhook or subscription has. It is the key of its messages.
        url: the URL, which begins with https:// or http://.
        {options}
        database: the alias of the queue's database, if not the one of `PGQUEUE`.

    Raises:
        InvalidWebhook: an option of the post is invalid, or there is no such option.
        InvalidSubscription, InvalidFilter: another option is invalid, or the name is taken.
    """
    alias = subscriptions.checked_alias(database)
    given: dict[str, Any] = dict(options)
    of_subscription = {each: given.pop(each) for each in OF_SUBSCRIPTIONS.keys() & given.keys()}
    own = subscribing.checked_options(OF_SUBSCRIPTIONS, of_subscription)
    post = records.checked(POST, given, noun="A webhook", raised=InvalidWebhook)
    if post["max_attempts"] is None:
        post["max_attempts"] = settings().webhooks.max_attempts
    task = DELIVER if own["batch"] is None else DELIVER_BATCH
    columns, begins = subscriptions.described(name, task, own)
    return subscriptions.stored(Webhook(**{**columns, **post, "url": url}), begins, alias)


def rotate(
    name: str,
    secret: str | None = None,
    *,
    keep_old_for: float | timedelta = DAY,
    database: str | None = None,
) -> str:
    """Sign posts with a new secret, and for a while with the old one, too; return the new one.

    Args:
        secret: the new secret; None: a random one.
        keep_old_for: seconds or a timedelta until posts are no longer signed with the old secret.
            Give the receiver the new secret within this time.

    Raises:
        InvalidWebhook: the webhook does not exist, or the secret is invalid.
    """
    try:
        wanted = new_secret() if secret is None else as_secret(secret)
    except (TypeError, ValueError) as error:
        raise InvalidWebhook(f"secret: {error}") from error
    try:
        lasting = as_age(keep_old_for)
    except (TypeError, ValueError) as error:
        raise InvalidWebhook(f"keep_old_for={shown(keep_old_for)}: {error}") from error
    alias = subscriptions.checked_alias(database)
    with needing_tables(alias), transaction.atomic(using=alias):
        webhook = _locked(alias, name)
        webhook.rotate(wanted, keep_old_for=lasting, now=aware(database_time(alias)))
        webhook.save(using=alias, update_fields={"secret", "rotated"})
    return wanted


def disable(name: str, *, database: str | None = None) -> None:
    """Stop a webhook: it skips events until `enable()`, and waiting deliveries become dead letters.

    Raises:
        InvalidWebhook: the webhook does not exist.
    """
    alias = subscriptions.checked_alias(database)
    with needing_tables(alias):
        _find(alias, name)
        health.stop(alias, name, enabled=False, reason="")


def enable(name: str, *, database: str | None = None) -> None:
    """Enable a webhook: it posts events that are published from now on.

    `replay()` posts the deliveries that have become dead letters before.

    Raises:
        InvalidWebhook: the webhook does not exist.
    """
    alias = subscriptions.checked_alias(database)
    with needing_tables(alias):
        _find(alias, name)
        head = groups.resolve(connections[alias], "now")
        rows = Webhook.objects.using(alias).filter(pk=name, enabled=False)
        with transaction.atomic(using=alias):
            if not rows.update(enabled=True, failures=0, failing_since=None):
                return
            # It may still follow the log, where no dispatch has run since it was disabled.
            own = Subscription.objects.using(alias).filter(pk=name)
            position = Greatest(F("position"), Value(head))
            own.update(paused=False, error="", follows=False, position=position)
    targets.forget(alias, name)


def pause(name: str, *, database: str | None = None) -> None:
    """Pause a webhook until `resume()`. Waiting deliveries and new events are kept.

    Raises:
        InvalidWebhook: the webhook does not exist.
    """
    alias = subscriptions.checked_alias(database)
    with needing_tables(alias):
        _find(alias, name)
        health.stop(alias, name, enabled=True, reason="")


def resume(name: str, *, database: str | None = None) -> int:
    """Resume a webhook at once; return the number of waiting deliveries that are ready now.

    Raises:
        InvalidWebhook: the webhook does not exist, or is disabled.
    """
    alias = subscriptions.checked_alias(database)
    with needing_tables(alias):
        webhook = _find(alias, name)
        if not webhook.enabled:
            raise InvalidWebhook(f"The webhook {shown(name)} is disabled: enable it instead.")
        with transaction.atomic(using=alias):
            own = Webhook.objects.using(alias).filter(pk=name)
            own.update(failures=0, failing_since=None)
            Subscription.objects.using(alias).filter(pk=name).resume()
        targets.forget(alias, name)
        waiting = deliveries(webhook, alias).filter(state=State.SCHEDULED)
        return len(waiting.run_now().done)


def replay(name: str, *, database: str | None = None) -> int:
    """Replay a webhook's dead letters, with their full number of attempts; return their number.

    Raises:
        InvalidWebhook: the webhook does not exist.
    """
    alias = subscriptions.checked_alias(database)
    with needing_tables(alias):
        webhook = _find(alias, name)
        return len(deliveries(webhook, alias).filter(state=State.DEAD).replay().done)


def delete(name: str, *, database: str | None = None) -> bool:
    """Delete a webhook; return whether it existed. Waiting deliveries are discarded."""
    alias = subscriptions.checked_alias(database)
    with needing_tables(alias):
        found = Webhook.objects.using(alias).filter(pk=name).first()
        if found is None:
            return False
        found.delete(using=alias)
        return True


def send_test(name: str, *, database: str | None = None) -> TaskResult[Any]:
    """Post an event of the topic `pgqueue.test` once, even if the webhook is paused.

    The event is not in the log, and its outcome does not affect the webhook's health.

    Returns:
        The message: its result or its errors contain the endpoint's answer.

    Raises:
        InvalidWebhook: the webhook does not exist.
        ChannelFull: a policy's max_size is reached.
    """
    alias = subscriptions.checked_alias(database)
    with needing_tables(alias):
        webhook = _find(alias, name)
        event = RecordedEvent(
            position=0,
            topic=TEST_TOPIC,
            key="",
            payload_json='{"test":true}',
            metadata_json="{}",
            created_at=timezone.now(),
        )
        options: dict[str, Any] = {
            "channel": webhook.channel,
            "key": name,
            "max_attempts": 1,
            "metadata": {delivering.TEST: True, "subscription": name},
            "database": alias,
        }
        result: TaskResult[Any]
        if webhook.batch is None:
            result = delivering.deliver.using(**options).enqueue(event)
        else:
            result = delivering.deliver_batch.using(**options).enqueue([event])
    refuse_dropped(webhook.channel, result)
    return result


def deliveries(webhook: Webhook, alias: str) -> Any:
    """Return the messages of a webhook that have not ended, in any channel.

    Its channel may have been changed, and a message may have been moved.
    """
    rows = Message.objects.using(alias).in_channels(channels_in_use(alias))
    return rows.filter(key=webhook.name, task__in=[DELIVER, DELIVER_BATCH])


def _find(alias: str, name: str) -> Webhook:
    found = Webhook.objects.using(alias).filter(pk=_known(name)).first()
    if found is None:
        raise InvalidWebhook(f"There is no webhook {shown(name)}.")
    return found


def _locked(alias: str, name: str) -> Webhook:
    rows = Webhook.objects.using(alias).select_for_update(no_key=True).filter(pk=_known(name))
    found = rows.first()
    if found is None:
        raise InvalidWebhook(f"There is no webhook {shown(name)}.")
    return found


def _known(name: Any) -> str:
    if not isinstance(name, str) or "\x00" in name:
        raise InvalidWebhook(f"There is no webhook {shown(name)}.")
    return name
