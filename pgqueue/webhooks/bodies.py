"""The bodies of posts: an event or a list, as JSON, as CloudEvents, or by a serializer."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from datetime import UTC
from functools import partial
from json import JSONEncoder
from typing import Any, NamedTuple, TypeAlias, TypeVar

from django.core.serializers.json import DjangoJSONEncoder

from pgqueue.events.recorded import RecordedEvent
from pgqueue.exceptions import InvalidWebhook
from pgqueue.values.discovery import import_declaring
from pgqueue.values.error_words import shown
from pgqueue.values.instants import aware

Serializer: TypeAlias = "Callable[[list[RecordedEvent]], tuple[bytes | str, str]]"
F = TypeVar("F", bound="Callable[..., tuple[bytes | str, str]]")

JSON = "application/json"

_declared: dict[str, Serializer] = {}


class Body(NamedTuple):
    """The content of a post, and its content type."""

    content: bytes
    kind: str


def serializer(function: F) -> F:
    """Declare a function that makes the bodies of webhooks.

        @webhooks.serializer
        def as_csv(events):
            return "".join(f"{each.position},{each.topic}\\n" for each in events), "text/csv"

    It takes a list of events; without batch, the list has one event. It returns the body, as bytes
    or text, and its content type. A webhook stores its name, and workers call only declared
    functions.

    Raises:
        InvalidWebhook: it is no function at the top of a module.
    """
    name = getattr(function, "__qualname__", "")
    if not name.isidentifier() or isinstance(function, type):
        raise InvalidWebhook(f"{shown(function)} must be a function at the top of a module.")
    _declared[f"{function.__module__}.{name}"] = function
    return function


def find_serializer(name: str) -> Serializer:
    """Return the declared function of this name, importing its module of the project.

    Raises:
        InvalidWebhook: no such function is declared.
    """
    if name not in _declared:
        import_declaring(name)
    if name not in _declared:
        raise InvalidWebhook(
            f"serializer: no function named {shown(name)} is declared by @webhooks.serializer here."
        )
    return _declared[name]


def name_of(given: Serializer | str | None) -> str:
    """Return the name of a declared serializer; "": none is given.

    Raises:
        InvalidWebhook: the serializer is not declared.
    """
    if given is None or given == "":
        return ""
    if isinstance(given, str):
        find_serializer(given)
        return given
    for name, declared in _declared.items():
        if declared is given:
            return name
    raise InvalidWebhook(f"serializer={shown(given)}: declare it by @webhooks.serializer.")


def serialized(name: str, events: Sequence[RecordedEvent]) -> Body:
    """Return the body that a declared function makes.

    Raises:
        InvalidWebhook: no function of this name is declared, or its return value is no body.
        Exception: the function's own error.
    """
    made: Any = find_serializer(name)(list(events))
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
        return super().default(o)


_to_json: Callable[[Any], str] = partial(
    JSONEncoder.encode, _Encoder(ensure_ascii=False, separators=(",", ":"))
)
