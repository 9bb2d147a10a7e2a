"""What a signal says while a test listens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.dispatch import Signal


@contextmanager
def heard(signal: Signal, what: str) -> Iterator[list[Any]]:
    """Collect one of the things that it is sent with."""
    found: list[Any] = []

    def note(**kwargs: Any) -> None:
        found.append(kwargs[what])

    signal.connect(note)
    try:
        yield found
    finally:
        signal.disconnect(note)
