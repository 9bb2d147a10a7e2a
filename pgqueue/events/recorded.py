"""An event that was read from the log or arrived with a message."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, TypeVar, overload

from django.conf import settings

from pgqueue.codec import encoding, raw
from pgqueue.codec.arguments import parse, read
from pgqueue.codec.forms import expect
from pgqueue.codec.json_text import TAG, with_decimals
from pgqueue.codec.scalars import Form, as_number
from pgqueue.engine.identity import marker_of
from pgqueue.engine.log import StoredEvent
from pgqueue.events import typed
from pgqueue.events.typed import Event
from pgqueue.exceptions import UnreadableEvent
from pgqueue.values.instants import aware, of_project

T = TypeVar("T", bound=Event)

FIELDS = ("position", "topic", "key", "payload_json", "metadata_json", "created_at")
"""The fields of an event, in the order in which the engine reads them."""
TAGGED = f'"{TAG}"'


@dataclass(frozen=True, eq=False)
class RecordedEvent:
    """An event of the log. Its payload and metadata are parsed at first use.

    Attributes:
        position: its place in the log: assigned once, gapless, in the order of commits.
        topic: words that are separated by dots.
        key: the key; "" if it was published without one.
        created_at: the time of publishing, before its transaction was committed.
        payload_json, metadata_json: JSON texts, as PostgreSQL stores them.
    """

    position: int
    topic: str
    key: str
    payload_json: str | None
    metadata_json: str
    created_at: datetime

    @classmethod
    def of(cls, stored: StoredEvent) -> RecordedEvent:
        """Return the event for a row that the engine has read."""
        # A frozen class's own __init__ takes three times as long.
        event = object.__new__(cls)
        vars(event).update(zip(FIELDS, stored, strict=True))
        if not settings.USE_TZ:
            vars(event)["created_at"] = of_project(event.created_at)
        return event

    @classmethod
    def unread(cls, position: int) -> RecordedEvent:
        """Return a stand-in for an unreadable event: it has no topic."""
        return cls(position, "", "", None, "{}", datetime.min.replace(tzinfo=UTC))

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> RecordedEvent:
        """Return the event for the parsed JSON of a message.

        Raises:
            LookupError, TypeError, ValueError: the JSON is no event.
        """
        event = object.__new__(cls)
        # Numbers keep all their digits. The JSON texts are made at first use.
        vars(event).update(
            position=int(plain["position"]),
            topic=plain["topic"],
            key=plain["key"],
            created_at=of_project(datetime.fromisoformat(plain["created_at"])),
            metadata=plain["metadata"] or {},
            _plain=plain["payload"],
        )
        return event

    @property
    def unique_id(self) -> str:
        """The position, and the microsecond at which the event was published.

        The id is unique even if the database was restored to an earlier time, and another event has
        this position. So a system that detects duplicates should use this id.
        """
        return f"{self.position}-{marker_of(aware(self.created_at))}"

    def __getattr__(self, name: str) -> Any:
        own = vars(self)
        if name == "payload_json" and "_plain" in own:
            own[name] = _text(own["_plain"])
        elif name == "metadata_json" and "metadata" in own:
            own[name] = _text(own["metadata"])
        else:
            raise AttributeError(name)
        return own[name]

    def to_plain(self) -> dict[str, Any]:
        """Return the event as JSON values."""
        return {
            "position": self.position,
            "topic": self.topic,
            "key": self.key,
            "payload": self.payload_json and json.loads(self.payload_json, parse_float=_as_plain),
            "metadata": json.loads(self.metadata_json),
            "created_at": aware(self.created_at).isoformat(),
        }

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RecordedEvent):
            return NotImplemented
        return (self.position, self.topic, self.key) == (other.position, other.topic, other.key)

    def __hash__(self) -> int:
        return hash(self.position)

    @cached_property
    def _plain(self) -> Any:
        text = self.payload_json
        return None if text is None else parse(f"the payload of {self}", text)

    @cached_property
    def payload(self) -> Any:
        """The payload as it was published. A number that no float can hold exactly is a Decimal.

        Raises:
            UnreadablePayload: the payload has a tag that is unknown here.
        """
        if "_plain" not in vars(self):
            # Without a tag it is plain JSON. Errors of the parser are raised below, with a name.
            with suppress(ValueError, RecursionError):
                if (text := self.payload_json) and TAGGED not in text:
                    return json.loads(text, parse_float=as_number)
        return read(f"the payload of {self}", raw.HINT, self._plain)

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the event, including its actor."""
        metadata: dict[str, Any] = json.loads(self.metadata_json)
        return metadata

    @overload
    def as_event(self) -> Event: ...
    @overload
    def as_event(self, cls: type[T]) -> T: ...
    def as_event(self, cls: type[Event] | None = None) -> Event:
        """Return the event as an instance of its class.

        Args:
            cls: the class; None: the class that is declared for its topic.

        Raises:
            UnreadableEvent: no class is declared for its topic, or the payload does not fit.
        """
        found = cls or typed.class_of(self.topic)
        if found is None:
            raise UnreadableEvent(
                f"No class is declared for the topic {self.topic!r}: is its module imported?"
            )
        return typed.decode(found, self._plain, self.metadata)

    def __str__(self) -> str:
        return f"{self.topic or 'The event'} at {self.position}"


def _as_plain(digits: str) -> Any:
    number = as_number(digits)
    return number if isinstance(number, float) else {TAG: "Decimal", "value": digits}


def _text(plain: Any) -> str | None:
    return None if plain is None else with_decimals(plain)


FORM = Form(
    RecordedEvent,
    "pgqueue.RecordedEvent",
    (dict,),
    RecordedEvent.to_plain,
    lambda plain: RecordedEvent.from_plain(expect(dict, plain)),
)


def _form(cls: type) -> Form | None:
    return FORM if cls is RecordedEvent else None


encoding.register_forms(_form)
