"""Handlers that say what they were given by messages."""

from __future__ import annotations

import threading

from pgqueue import RecordedEvent, consumer, send


@consumer("command.first", topics="a", start="beginning")
def first(event: RecordedEvent) -> None:
    """Say it."""
    send("seen", payload=event.payload)


@consumer("command.second", topics="a", start="beginning")
def second(event: RecordedEvent) -> None:
    """Say nothing."""


@consumer("command.slow", topics="slow", start="beginning")
def slow(event: RecordedEvent) -> None:
    """Say it, and take 10 ms."""
    send("seen", payload=event.payload)
    threading.Event().wait(0.01)
