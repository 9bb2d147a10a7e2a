"""Append conditions: publish only if no other event of a topic and a key has come meanwhile."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from pgqueue.engine.publish import Condition, NewEvent, Unmet
from pgqueue.events.reading import position_in_log
from pgqueue.exceptions import InvalidEvent, PGQueueError, PositionAhead
from pgqueue.options.filters import as_topic
from pgqueue.values.error_words import checked_option, shown
from pgqueue.values.names import as_key

Since: TypeAlias = tuple[str, str, int]
"""A topic, a key, and the position after which no event of them may be."""
NO_EVENT: Final = 0
"""The position of `publish(…, expect=NO_EVENT)`: there is no event of this topic and key yet."""


class PositionConflict(PGQueueError):
    """Another event of this topic and key was published: read it, decide again, and publish again.

    Attributes:
        topic, key: of the condition that is not met.
        expected: the position that the publisher gave.
        found: the position of the last event; 0: there is none; None: it has no position yet.
    """

    def __init__(self, topic: str, key: str, expected: int, found: int | None) -> None:
        last = "there is none"
        if found != NO_EVENT:
            last = "it has no position yet" if found is None else f"it is at position {found}"
        super().__init__(
            f"The last event of {topic!r} with the key {key!r} is not at position {expected}, as "
            f"its publisher expected: {last}. Read the events after {expected}, decide again, and "
            "publish again."
        )
        self.topic = topic
        self.key = key
        self.expected = expected
        self.found = found

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.topic, self.key, self.expected, self.found)


def as_conditions(event: NewEvent, expect: Any, if_none_since: Any) -> list[Condition]:
    """Return the conditions of a publisher.

    Args:
        event: the event that it publishes.
        expect: the position of the last event of this topic and key; None: no condition.
        if_none_since: a tuple (topic, key, position), or a list of them; None: no condition.

    Raises:
        InvalidEvent: a condition is invalid.
    """
    conditions = []
    if expect is not None:
        if not event.key:
            raise InvalidEvent(f"expect={shown(expect)}: give the event a key=, too.")
        position = checked_option(position_in_log, "expect", expect, InvalidEvent)
        conditions.append(Condition(event.topic, event.key, position, is_last=True))
    if if_none_since is not None:
        many = [if_none_since] if isinstance(if_none_since, tuple) else if_none_since
        if not isinstance(many, list) or not many:
            raise InvalidEvent(
                f"if_none_since={shown(if_none_since)}: it must be (topic, key, position), or a "
                "list of such tuples."
            )
        conditions += map(_since, many)
    return conditions


def _since(given: Any) -> Condition:
    if not isinstance(given, tuple) or len(given) != 3:
        raise InvalidEvent(f"if_none_since={shown(given)}: it must be (topic, key, position).")
    topic, key, position = given
    if key == "":
        raise InvalidEvent(f"if_none_since={shown(given)}: the key must not be empty.")
    return Condition(
        as_topic(topic),
        checked_option(as_key, "if_none_since: key", key, InvalidEvent),
        checked_option(position_in_log, "if_none_since: position", position, InvalidEvent),
        is_last=False,
    )


def error_of(unmet: Unmet) -> PGQueueError:
    """Return the error of a condition that is not met."""
    topic, key, expected, _ = unmet.condition
    if expected > unmet.head:
        return PositionAhead(expected, unmet.head)
    return PositionConflict(topic, key, expected, unmet.found)
