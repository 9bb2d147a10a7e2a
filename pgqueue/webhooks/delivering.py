"""The tasks that post events to webhooks, one by one or as lists."""

from __future__ import annotations

import gzip
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from pgqueue import __version__
from pgqueue.calls import tracing
from pgqueue.conf import settings
from pgqueue.events.recorded import RecordedEvent
from pgqueue.exceptions import Defer, DeliveryFailed, Discard, WebhookDisabled
from pgqueue.options import webhook_signing
from pgqueue.options.webhook_options import CHANNEL
from pgqueue.tasks import TaskContext, task
from pgqueue.values.number_checks import as_timedelta
from pgqueue.webhooks import bodies, health, targets
from pgqueue.webhooks.bodies import Body
from pgqueue.webhooks.targets import WebhookTarget

if TYPE_CHECKING:
    from pgqueue.webhooks.sending import Response

TEST = "webhook_test"
"""The key in a message's metadata that marks a test: it is posted even if the webhook is paused."""
COMPRESSED_FROM = 1024
AGENT = f"pgqueue/{__version__}"
GONE, UNPROCESSABLE = 410, 422
LOOK_AGAIN, LOOK_AGAIN_AT_MOST = 60.0, 3600.0
"""Seconds until a delivery checks whether its webhook is still paused; doubled each time."""
LONGEST_WAIT = timedelta(days=1)
"""The longest wait that an endpoint may request."""
CLOCKS = timedelta(seconds=5)
"""How far the clocks of a primary and its standby may be apart."""
REDACTED_FROM = 6
"""The length from which a header's value is redacted in a stored response."""


def patience(error: BaseException, result: Any) -> Any:
    """Return the wait of a delivery: its webhook's backoff, or the endpoint's request if longer."""
    if isinstance(error, WebhookDisabled):
        return None
    delay = (getattr(error, "backoff", None) or settings().webhooks.backoff)(error, result)
    asked_for = getattr(error, "asked_for", None)
    if delay is None or asked_for is None:
        return delay
    return max(as_timedelta(delay), asked_for)


@task(channel=CHANNEL, takes_context=True, backoff=patience)
def deliver(context: TaskContext, event: RecordedEvent) -> dict[str, Any]:
    """Post an event to the webhook whose name is the message's key."""
    return _deliver(context, [event], is_batch=False)


@task(channel=CHANNEL, takes_context=True, backoff=patience)
def deliver_batch(context: TaskContext, events: list[RecordedEvent]) -> dict[str, Any]:
    """Post a list of events to the webhook whose name is the message's key."""
    return _deliver(context, events, is_batch=True)


def _deliver(
    context: TaskContext, events: Sequence[RecordedEvent], *, is_batch: bool
) -> dict[str, Any]:
    target = targets.find_target(context.database, context.claim.key)
    if target is None or context.claim.created_at < target.created_at - CLOCKS:
        # Another one may have its name now.
        raise Discard("The webhook was deleted.")
    is_test = TEST in context.metadata
    if not is_test:
        _check(target, context)
    body = _body(target, events, is_batch=is_batch)
    parts = [context.id] if is_test else [event.unique_id for event in events]
    try:
        response = _post(target, webhook_signing.id_of(target.salt, parts), body)
    except DeliveryFailed as error:
        if not is_test:
            health.failed(target)
        error.backoff = target.backoff
        raise
    return _judged(target, response, is_test=is_test)


def _check(target: WebhookTarget, context: TaskContext) -> None:
    """Check that the webhook is enabled, and is not paused.

    Raises:
        WebhookDisabled: the webhook is disabled.
        Defer: the webhook is paused.
    """
    if not target.enabled:
        raise WebhookDisabled
    if target.paused:
        # `resume()` makes it ready at once.
        waited = float(context.progress or LOOK_AGAIN / 2)
        delay = min(2 * waited, LOOK_AGAIN_AT_MOST)
        raise Defer(delay, progress=delay)


def _body(target: WebhookTarget, events: Sequence[RecordedEvent], *, is_batch: bool) -> Body:
    if target.serializer:
        return bodies.serialized(target.serializer, events)
    if target.cloudevents:
        source = settings().webhooks.source
        return bodies.cloudevents(events, source=source, is_batch=is_batch)
    return bodies.plain(events, is_batch=is_batch)


def _post(target: WebhookTarget, id: str, body: Body) -> Response:
    try:
        # Imported here: projects without webhooks need no urllib3.
        from pgqueue.webhooks.sending import post
    except ImportError as error:
        raise ImportError("Webhooks need urllib3: pip install 'pgqueue[webhooks]'.") from error
    content = body.content
    headers = {
        "user-agent": AGENT,
        "content-type": body.kind,
        **tracing.headers(),
        **target.headers,
        # The signature covers the uncompressed body: a receiver decompresses it first.
        **webhook_signing.headers(id, time.time(), content, target.signing_keys),
    }
    if target.gzip and len(content) >= COMPRESSED_FROM:
        headers["content-encoding"] = "gzip"
        content = gzip.compress(content, 5, mtime=0)
    return post(
        target.origin,
        target.path,
        content,
        headers,
        timeout=target.timeout.total_seconds(),
        networks=settings().webhooks.allow_private,
    )


def _judged(target: WebhookTarget, response: Response, *, is_test: bool) -> dict[str, Any]:
    """Return the stored result of a success; raise an error for any other status.

    Raises:
        Discard: the endpoint will never accept this delivery.
        WebhookDisabled: the endpoint will never accept any delivery.
        DeliveryFailed: the endpoint may accept the delivery later.
    """
    excerpt = _redacted(target, response.excerpt)
    said = f"HTTP {response.status} after {response.seconds * 1000:.0f} ms"
    said += f": {excerpt}" if excerpt else "."
    if 200 <= response.status < 300:
        if not is_test:
            health.succeeded(target)
        ms = round(response.seconds * 1000, 1)
        return {"status": response.status, "ms": ms, "response": excerpt}
    if response.status == UNPROCESSABLE:
        if not is_test:
            health.succeeded(target)
        raise Discard(said)
    if response.status == GONE and not is_test:
        health.gone(target)
        raise WebhookDisabled(said)
    if not is_test:
        health.failed(target)
    asked_for = wait_of(response.retry_after)
    raise DeliveryFailed(said, backoff=target.backoff, asked_for=asked_for)


def _redacted(target: WebhookTarget, excerpt: str) -> str:
    """Return a response without the values of the request's headers."""
    known = {part for value in target.headers.values() for part in (value, *value.split())}
    for part in sorted(known, key=len, reverse=True):
        if len(part) < REDACTED_FROM:
            continue
        excerpt = excerpt.replace(part, "…")
        # An excerpt may end within a value.
        sizes = range(len(part) - 1, REDACTED_FROM - 1, -1)
        if size := next((size for size in sizes if excerpt.endswith(part[:size])), 0):
            excerpt = f"{excerpt[:-size]}…"
    return excerpt


def wait_of(retry_after: str | None) -> timedelta | None:
    """Return the wait that an endpoint requests, as seconds or as an HTTP date.

    Returns:
        None: the endpoint requests no wait, or the header is invalid.
    """
    text = (retry_after or "").strip()
    if text.isascii() and text.isdecimal():
        return min(timedelta(seconds=int(text[:9])), LONGEST_WAIT)
    try:
        until = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    return min(max(until - datetime.now(UTC), timedelta()), LONGEST_WAIT)
