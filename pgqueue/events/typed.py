"""Typed events: one dataclass for each topic."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, ClassVar, TypeVar, cast, dataclass_transform

from pgqueue.codec import raw
from pgqueue.codec.arguments import UNREADABLE
from pgqueue.codec.encoding import Hint
from pgqueue.codec.hints import classes_in, hints_of
from pgqueue.codec.json_text import to_json
from pgqueue.codec.scalars import Unstorable
from pgqueue.exceptions import InvalidEvent, UnreadableEvent
from pgqueue.options.filters import as_topic
from pgqueue.values.error_words import hint, shown
from pgqueue.values.names import as_key
from pgqueue.values.number_checks import as_count

T = TypeVar("T", bound="Event")

VERSION = "version"
"""The name, in an event's metadata, of the version of its class."""

_classes: dict[str, type[Event]] = {}


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Event:
    """The base of typed events. A subclass is a frozen dataclass with keyword arguments.

        class OrderPaid(Event, topic="order.paid", key="order_id"):
            order_id: int
            total: Decimal

        publish(OrderPaid(order_id=1, total=Decimal("9.50")))

    An event is read with the current class. A missing field takes its default, and an unknown field
    is left out. So old readers accept new versions, and new readers accept old ones. `upgrade()`
    handles all other changes.

    Args:
        topic: the topic of its events; each topic has one class. None: a base class only.
        version: 1, or more after a change that `upgrade()` must handle.
        key: the name of the field whose value is the event's key.

    Raises:
        InvalidEvent: the class is invalid; or a field of a new instance has the wrong type.
    """

    topic: ClassVar[str] = ""
    version: ClassVar[int] = 1
    key_field: ClassVar[str] = ""

    def __init_subclass__(
        cls, *, topic: str | None = None, version: int = 1, key: str | None = None
    ) -> None:
        super().__init_subclass__()
        if "topic" not in vars(cls):
            cls.topic = ""  # not inherited: the base class reads the events of its topic
        dataclass(frozen=True, kw_only=True)(cls)
        names = [field.name for field in fields(cls)]  # type: ignore[arg-type]
        if taken := [name for name in names if hasattr(Event, name)]:
            raise InvalidEvent(f"{cls.__name__}.{taken[0]}: events have this name already.")
        if key is not None and key not in names:
            raise InvalidEvent(f"{cls.__name__}: key={shown(key)}: {hint(key, names)}")
        try:
            cls.version = as_count(version)
        except ValueError as error:
            raise InvalidEvent(f"{cls.__name__}: version={shown(version)}: {error}") from error
        cls.key_field = key or cls.key_field
        if topic is None:
            return
        cls.topic = as_topic(topic)
        other = _classes.setdefault(topic, cls)
        if (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            raise InvalidEvent(
                f"topic={topic!r}: {other.__module__}.{other.__qualname__} has this topic already."
            )
        _classes[topic] = cls

    def __post_init__(self) -> None:
        cls: Any = type(self)
        for name, types in _types(cls).items():
            value = getattr(self, name)
            if not isinstance(value, types):
                known = " or ".join(each.__name__ for each in types)
                raise InvalidEvent(
                    f"{type(self).__name__}.{name} = {shown(value)}: it must be {known}."
                )

    @classmethod
    def upgrade(cls, payload: dict[str, Any], version: int) -> dict[str, Any]:
        """Return the payload of an older version in the form of this version.

        Args:
            payload: plain JSON of version `version`.
        """
        return payload


@cache
def _types(cls: Any) -> dict[str, tuple[type, ...]]:
    """Return the classes in each field's type hint, for fields whose hint names classes."""
    hints = hints_of(cls)
    types = {}
    for field in fields(cls):
        named = tuple(each for each, _ in classes_in(hints.get(field.name, Any)))
        if named and object not in named and all(map(_has_instances, named)):
            # As for type checkers, an int is a float.
            types[field.name] = (*named, int) if float in named else named
    return types


def _has_instances(cls: type) -> bool:
    """Return whether isinstance() knows this class: not Any, a TypedDict, most protocols."""
    try:
        isinstance(None, cls)
    except TypeError:
        return False
    return True


@cache
def _hints(cls: Any) -> dict[str, Hint]:
    hints = hints_of(cls)
    return {field.name: Hint(hints.get(field.name, Any)) for field in fields(cls)}


def class_of(topic: str) -> type[Event] | None:
    """Return the class that is declared for a topic in this process."""
    return _classes.get(topic)


def declared() -> list[type[Event]]:
    """Return the classes that are declared in this process, by their topics."""
    return [_classes[topic] for topic in sorted(_classes)]


def key_of(event: Event) -> str:
    """Return the value of the event's key field as a key; "": its class has no key field.

    Raises:
        InvalidEvent: the value is no valid key.
    """
    if not event.key_field:
        return ""
    value = str(getattr(event, event.key_field))
    try:
        return as_key(value)
    except ValueError as error:
        raise InvalidEvent(f"{type(event).__name__}.{event.key_field}: {error}") from error


def encode(event: Event) -> str:
    """Return the payload of an event as JSON text.

    Raises:
        InvalidEvent: the event has no topic, or a field is not storable.
        PayloadTooLarge: the payload takes more than 16 MiB.
    """
    what = f"the event {type(event).__name__}"
    if not event.topic:
        raise InvalidEvent(f"{what} has no topic: class {type(event).__name__}(Event, topic=…).")
    parts = []
    cls: Any = type(event)
    for name, own in _hints(cls).items():
        try:
            parts.append(f"{to_json(name)}: {own.dump(getattr(event, name))}")
        except Unstorable as error:
            raise InvalidEvent(error.about(f"{what}, field {name!r},")) from error
    text = "{" + ", ".join(parts) + "}"
    raw.check_size(what, len(text.encode()))
    return text


def decode(cls: type[T], payload: Any, metadata: Mapping[str, Any]) -> T:
    """Return the event for a payload.

    Args:
        payload: parsed JSON.

    Raises:
        UnreadableEvent: a field without a default is missing, or a value does not fit its field.
    """
    try:
        version = metadata.get(VERSION, 1)
        if not isinstance(payload, dict):
            raise TypeError(f"{payload!r:.200} is no dict")
        if isinstance(version, int) and version < cls.version:
            payload = cls.upgrade(payload, version)
        hints: Mapping[str, Hint] = _hints(cast(Any, cls))
        known = {name: own for name, own in hints.items() if name in payload}
        return cls(**{name: own.read(payload[name]) for name, own in known.items()})
    except (*UNREADABLE, InvalidEvent) as error:
        raise UnreadableEvent(
            f"{cls.__module__}.{cls.__qualname__} can't be read from "
            f"{shown(json.dumps(payload, default=str))}: {error}."
        ) from error
