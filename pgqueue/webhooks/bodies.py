"""The bodies of posts: an event or a list, as JSON, as CloudEvents, or by a serializer."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from datetime import UTC, time
from functools import partial
from json import JSONEncoder
from typing import Any, NamedTuple

from django.core.serializers.json import DjangoJSONEncoder

from pgqueue.codec import encoding
from pgqueue.events.recorded import RecordedEvent
from pgqueue.exceptions import InvalidWebhook
from pgqueue.options import serializers
from pgqueue.values.error_words import shown
from pgqueue.values.instants import aware

JSON = "application/json"


class Body(NamedTuple):
    """The content of a post, and its content type."""

    content: bytes
    kind: str


def serialized(name: str, events: Sequence[RecordedEvent]) -> Body:
    """Return the body that a declared function makes.

    Raises:
        InvalidWebhook: no function of this name is declared, or its return value is no body.
        Exception: the function's own error.
    """
    made: Any = serializers.find_serializer(name)(list(events))
    try:
        content, kind = made
        if isinstance(content, str):
            content = content.encode()
        if not isinstance(content, bytes) or not isinstance(kind, str):
            raise TypeError
        if not (kind and kind.isascii() and kind.isprintable()):
            raise ValueError
    except (TypeError, ValueError) as error:
        raise InvalidWebhook(
            f"{name} returned {shown(made)}: it must return a body, as bytes or text, and its "
            "content type."
        ) from error
    return Body(content, kind)


def plain(events: Sequence[RecordedEvent], *, is_batch: bool) -> Body:
    """Return events in the form that Standard Webhooks proposes."""
    made = [_plain(event) for event in events]
    return Body(_to_json(made if is_batch else made[0]).encode(), JSON)


def _plain(event: RecordedEvent) -> dict[str, Any]:
    # Not its metadata: the actor must not leave the project.
    return {
        "type": event.topic,
        "timestamp": _time(event),
        "key": event.key,
        "position": event.position,
        "data": event.payload,
    }


def cloudevents(events: Sequence[RecordedEvent], *, source: str, is_batch: bool) -> Body:
    """Return events as CloudEvents 1.0, in their JSON format."""
    made = [_cloudevent(event, source) for event in events]
    if is_batch:
        return Body(_to_json(made).encode(), "application/cloudevents-batch+json")
    return Body(_to_json(made[0]).encode(), "application/cloudevents+json")


def _cloudevent(event: RecordedEvent, source: str) -> dict[str, Any]:
    # A subject must not be empty.
    subject = {"subject": event.key} if event.key else {}
    return {
        "specversion": "1.0",
        # The event of a test has no position.
        "id": event.unique_id if event.position else f"test-{_time(event)}",
        "source": source,
        "type": event.topic,
        **subject,
        "time": _time(event),
        "datacontenttype": JSON,
        "data": event.payload,
    }


def _time(event: RecordedEvent) -> str:
    return aware(event.created_at).astimezone(UTC).isoformat()


class _Encoder(DjangoJSONEncoder):
    """Writes types as plain JSON that pgqueue itself stores with a tag."""

    def default(self, o: Any) -> Any:
        if isinstance(o, bytes):
            return b64encode(o).decode()
        if isinstance(o, set | frozenset):
            return list(o)
        if isinstance(o, time):
            return o.isoformat()
        if own := encoding.own_forms.get(type(o)):
            return own.write(o)
        return super().default(o)


_to_json: Callable[[Any], str] = partial(
    JSONEncoder.encode, _Encoder(ensure_ascii=False, separators=(",", ":"))
)
