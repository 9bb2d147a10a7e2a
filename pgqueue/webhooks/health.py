"""Note whether endpoints answer, and pause a webhook whose endpoint has failed for long.

A row is written when an endpoint begins to fail, and when it has recovered. In between, each
process writes it at most once a second: all deliveries to an endpoint fail at once, and must not
queue for its row.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from time import monotonic

from django.db import DatabaseError, OperationalError, connections, transaction
from django.db.models import F
from django.db.models.functions import Coalesce

from pgqueue import signals
from pgqueue.conf import settings
from pgqueue.database.transactions import waiting_at_most
from pgqueue.models import Subscription, Webhook
from pgqueue.models.fields import StatementTimestamp
from pgqueue.webhooks import targets
from pgqueue.webhooks.targets import WebhookTarget

NOTE_EVERY = 1.0  # seconds
LEAST = 5
"""The number of noted failures in a row before a webhook is paused: an old failure and a new one
are no outage."""
PATIENCE = "1s"
"""The lock_timeout of a delivery: an operator may have locked the row."""
GONE = "The endpoint answered 410 Gone."


def succeeded(target: WebhookTarget) -> None:
    """Note that an endpoint has answered, if it had failed before."""
    with target.lock:
        had_failed, target.is_failing = target.is_failing, False
    if had_failed:
        _note(target, failures=0, failing_since=None)


def failed(target: WebhookTarget) -> None:
    """Note that an endpoint failed; pause its webhook if the endpoint has failed for too long."""
    with target.lock:
        if monotonic() - target.noted_at < NOTE_EVERY:
            return
        target.noted_at = monotonic()
        target.is_failing = True
    since = Coalesce("failing_since", StatementTimestamp())
    _note(target, failures=F("failures") + 1, failing_since=since)
    after = settings().webhooks.pause_after
    if after is not None:
        _pause(target, after)


def gone(target: WebhookTarget) -> None:
    """Disable the webhook of an endpoint that has answered 410 Gone."""
    if _stop(target, enabled=False, reason=GONE):
        signals.send(signals.webhook_stopped, Webhook, name=target.name, reason=GONE)


def stop(alias: str, name: str, *, enabled: bool, reason: str) -> bool:
    """Pause or disable a webhook; return whether it was active before."""
    with transaction.atomic(using=alias):
        rows = Webhook.objects.using(alias).filter(pk=name)
        count = rows.filter(enabled=True).update(enabled=enabled)
        if count:
            own = Subscription.objects.using(alias).filter(pk=name)
            stopped = own.filter(paused=False).update(paused=True, error=reason)
            count = stopped or not enabled
    targets.forget(alias, name)
    return bool(count)


def _stop(target: WebhookTarget, *, enabled: bool, reason: str) -> bool:
    try:
        with _limited(target.alias):
            return stop(target.alias, target.name, enabled=enabled, reason=reason)
    except OperationalError:
        # The row is locked: the next delivery stops the webhook.
        targets.forget(target.alias, target.name)
        return False


def _note(target: WebhookTarget, **columns: object) -> None:
    try:
        with _limited(target.alias):
            Webhook.objects.using(target.alias).filter(pk=target.name).update(**columns)
    except DatabaseError:
        # The next delivery notes it. A failed note must not fail the delivery.
        targets.forget(target.alias, target.name)


@contextmanager
def _limited(alias: str) -> Iterator[None]:
    with transaction.atomic(using=alias), waiting_at_most(connections[alias].connection, PATIENCE):
        yield


def _pause(target: WebhookTarget, after: timedelta) -> None:
    rows = Webhook.objects.using(target.alias).filter(pk=target.name, paused=False, enabled=True)
    long_ago = StatementTimestamp() - after
    if not rows.filter(failures__gte=LEAST, failing_since__lte=long_ago).exists():
        return
    reason = f"Nothing but failures for {after}."
    if _stop(target, enabled=True, reason=reason):
        signals.send(signals.webhook_stopped, Webhook, name=target.name, reason=reason)
