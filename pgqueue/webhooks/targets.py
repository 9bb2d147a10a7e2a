"""A worker's cache of webhooks: each that posts is looked up at most once a second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from threading import Lock
from time import monotonic
from typing import Any
from uuid import UUID

from django.db.models.signals import post_delete, post_save

from pgqueue.conf import settings
from pgqueue.models import Webhook
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
    keys: list[tuple[bytes, datetime | None]] = field(repr=False)
    """The signing keys, and the end of each key's use; None: no end."""
    salt: UUID
    enabled: bool
    paused: bool
    cloudevents: bool
    gzip: bool
    serializer: str
    timeout: timedelta
    backoff: Backoff
    failing_since: datetime | None
    created_at: datetime
    noted_at: float = float("-inf")
    """The time of the last failure that this process noted, by the monotonic clock."""
    lock: Lock = field(default_factory=Lock, repr=False)

    @property
    def signing_keys(self) -> list[bytes]:
        """The keys that sign posts now."""
        if len(self.keys) == 1:
            return [self.keys[0][0]]
        now = datetime.now(UTC)
        return [key for key, until in self.keys if until is None or until > now]


def find_target(alias: str, name: str) -> WebhookTarget | None:
    """Return a webhook by its name; None: it does not exist."""
    found, asked_at = _known.get((alias, name), (None, 0.0))
    # A pause may have ended in another process: its deliveries must not be put off once more.
    posts = found is not None and found.enabled and not found.paused
    if posts and monotonic() - asked_at < ASK_AGAIN:
        return found
    webhook = Webhook.objects.using(alias).filter(pk=name).first()
    if webhook is None:
        forget(alias, name)
        return None
    target = _target(alias, webhook)
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


def _target(alias: str, webhook: Webhook) -> WebhookTarget:
    options = settings().webhooks
    origin, path = parsed(webhook.url)
    rotated = [
        (key_of(each["secret"]), aware(datetime.fromisoformat(each["until"])))
        for each in webhook.rotated
    ]
    own = {name.lower(): value for name, value in webhook.headers.items()}
    common = {name.lower(): value for name, value in options.headers.items()}
    return WebhookTarget(
        alias=alias,
        name=webhook.name,
        origin=origin,
        path=path,
        headers={**common, **own},
        keys=[(key_of(webhook.secret), None), *rotated],
        salt=webhook.salt,
        enabled=webhook.enabled,
        paused=webhook.paused,
        cloudevents=webhook.cloudevents,
        gzip=webhook.gzip,
        serializer=webhook.serializer,
        timeout=webhook.timeout or options.timeout,
        backoff=options.backoff if webhook.backoff is None else load_backoff(webhook.backoff),
        failing_since=webhook.failing_since,
        created_at=aware(webhook.created_at),
    )


def _forget_saved(instance: Any, using: str, **kwargs: Any) -> None:
    forget(using, instance.name)


post_save.connect(_forget_saved, sender=Webhook, dispatch_uid="pgqueue.webhooks.targets.saved")
post_delete.connect(_forget_saved, sender=Webhook, dispatch_uid="pgqueue.webhooks.targets.deleted")
