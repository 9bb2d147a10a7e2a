"""Relays to a broker that is two lists."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pgqueue import RecordedEvent, relay, task

broker: list[Any] = []
in_a_batch: list[Any] = []
is_away = False


def hand_over(*payloads: Any, to: list[Any] = broker) -> None:
    """Give the broker something, if it is there."""
    if is_away:
        raise ConnectionError("nobody answers")
    to.extend(payloads)


@relay("relayed.**")
def one_by_one(event: RecordedEvent) -> None:
    """Hand over one event."""
    hand_over(event.payload)


@relay("relayed.**", name="in batches", key="", batch=100)
def in_batches(events: list[RecordedEvent]) -> None:
    """Hand over many."""
    hand_over(*(event.payload for event in events), to=in_a_batch)


def to_be_capped(event: RecordedEvent) -> None:
    """Become a relay in a test."""
    hand_over(event.payload)


def to_be_choosy(event: RecordedEvent) -> None:
    """Take no text."""
    if isinstance(event.payload, str):
        raise ValueError(event.payload)
    hand_over(event.payload)


def no_hope(error: BaseException, result: Any) -> timedelta | None:
    """Give up what the broker will never take."""
    return None if isinstance(error, ValueError) else timedelta(seconds=1)


@task
def plain(event: RecordedEvent) -> None:
    """A task that no subscription has yet."""
    hand_over(event.payload)
