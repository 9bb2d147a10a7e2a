"""An event as it is read from the log."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, TypeVar, overload

from pgqueue.codec import raw
from pgqueue.codec.arguments import parse
from pgqueue.engine.log import Stored
from pgqueue.events import typed
from pgqueue.events.typed import Event
from pgqueue.exceptions import UnreadableEvent

T = TypeVar("T", bound=Event)


@dataclass(frozen=True)
class RecordedEvent:
    """An event of the log. Its payload and metadata are parsed when they are first asked for.

    Attributes:
        position: its place in the log: given once, gapless, in the order of commits.
        topic: its words are separated by dots.
        key: "" where it was published without one.
        payload_json, metadata_json: JSON texts, as PostgreSQL has them.
        created_at: when it was published: before its transaction was committed.
    """

    position: int
    topic: str
    key: str
    payload_json: str | None
    metadata_json: str
    created_at: datetime

    @classmethod
    def of(cls, stored: Stored) -> RecordedEvent:
        """Return what the engine has read."""
        return cls(*stored)

    @cached_property
    def payload(self) -> Any:
        """What was published.

        Raises:
            UnreadablePayload: it has a tag that is not known here.
        """
        text = self.payload_json
        return None if text is None else raw.decode(f"the payload of {self}", text.encode())

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """What was published beside the payload, and who acted."""
        metadata: dict[str, Any] = parse(f"the metadata of {self}", self.metadata_json)
        return metadata

    @overload
    def as_event(self) -> Event: ...
    @overload
    def as_event(self, cls: type[T]) -> T: ...
    def as_event(self, cls: type[Event] | None = None) -> Event:
        """Return it as an instance of its class.

        Args:
            cls: None: the one that is declared for its topic.

        Raises:
            UnreadableEvent: no class is declared for it, or it can't be read as one.
        """
        found = cls or typed.class_of(self.topic)
        if found is None:
            raise UnreadableEvent(
                f"No class is declared for the topic {self.topic!r}: is its module imported?"
            )
        text = self.payload_json
        plain = None if text is None else parse(f"the payload of {self}", text)
        return typed.decode(found, plain, self.metadata)

    def __str__(self) -> str:
        return f"{self.topic} at {self.position}"
