"""A worker's cache of webhooks: each that posts is looked up at most once a second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Lock
from time import monotonic
from typing import Any
from uuid import UUID

from django.db.models.signals import post_delete, post_save

from pgqueue.conf import settings
from pgqueue.models import Webhook
from pgqueue.models.fields import StatementTimestamp
from pgqueue.options.retries import Backoff, load_backoff
from pgqueue.options.webhook_options import key_of
from pgqueue.options.webhook_urls import Origin, parsed
from pgqueue.values.instants import aware

ASK_AGAIN = 1.0  # seconds
MOST = 10_000
"""The maximum number of cached webhooks."""

_known: dict[tuple[str, str], tuple[WebhookTarget, float]] = {}


@dataclass(eq=False)
class WebhookTarget:
    """A webhook as it was a moment ago."""

    alias: str
    name: str
    origin: Origin
    path: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    signing_keys: list[bytes] = field(repr=False)
    """The keys that sign posts now."""
    salt: UUID
    enabled: bool
    paused: bool
    cloudevents: bool
    gzip: bool
    serializer: str
    timeout: timedelta
    backoff: Backoff
    is_failing: bool
    created_at: datetime
    noted_at: float = float("-inf")
    """The time of the last failure that this process noted, by the monotonic clock."""
    lock: Lock = field(default_factory=Lock, repr=False)


def find_target(alias: str, name: str) -> WebhookTarget | None:
    """Return a webhook by its name; None: it does not exist."""
    found, asked_at = _known.get((alias, name), (None, 0.0))
    # A pause may have ended in another process: its deliveries must not be put off once more.
    posts = found is not None and found.enabled and not found.paused
    if posts and monotonic() - asked_at < ASK_AGAIN:
        return found
    rows = Webhook.objects.using(alias).filter(pk=name).annotate(now=StatementTimestamp())
    webhook = rows.first()
    if webhook is None:
        forget(alias, name)
        return None
    target = _target(alias, webhook, webhook.now)
    if found is not None:
        target.noted_at = found.noted_at
    if len(_known) >= MOST:
        _known.clear()
    _known[alias, name] = target, monotonic()
    return target


def forget(alias: str, name: str) -> None:
    """Remove a webhook from the cache, so that the next post looks it up."""
    _known.pop((alias, name), None)


def forget_all() -> None:
    """Empty the cache."""
    _known.clear()


def _target(alias: str, webhook: Webhook, now: datetime) -> WebhookTarget:
    options = settings().webhooks
    origin, path = parsed(webhook.url)
    secrets = webhook.signing_secrets(aware(now))
    own = {name.lower(): value for name, value in webhook.headers.items()}
    common = {name.lower(): value for name, value in options.headers.items()}
    return WebhookTarget(
        alias=alias,
        name=webhook.name,
        origin=origin,
        path=path,
        headers={**common, **own},
        signing_keys=[key_of(each) for each in secrets],
        salt=webhook.salt,
        enabled=webhook.enabled,
        paused=webhook.paused,
        cloudevents=webhook.cloudevents,
        gzip=webhook.gzip,
        serializer=webhook.serializer,
        timeout=webhook.timeout or options.timeout,
        backoff=options.backoff if webhook.backoff is None else load_backoff(webhook.backoff),
        is_failing=webhook.failing_since is not None,
        created_at=aware(webhook.created_at),
    )


def _forget_saved(instance: Any, using: str, **kwargs: Any) -> None:
    forget(using, instance.name)


post_save.connect(_forget_saved, sender=Webhook, dispatch_uid="pgqueue.webhooks.targets.saved")
post_delete.connect(_forget_saved, sender=Webhook, dispatch_uid="pgqueue.webhooks.targets.deleted")
