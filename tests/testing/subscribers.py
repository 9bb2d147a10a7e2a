"""Subscriptions for tests of events in tests."""

from __future__ import annotations

from typing import Any

from pgqueue import RecordedEvent, publish, subscribe, task


@subscribe("order.placed")
def reserve(event: RecordedEvent) -> str:
    """Reserve the goods of an order."""
    return f"reserved {event.payload['sku']}"


@subscribe("chain.*")
def go_on(event: RecordedEvent) -> int:
    """Publish the next event of a chain."""
    left: int = event.payload["left"]
    if left:
        publish("chain.gone_on", {"left": left - 1})
    return left


@task
def note(payload: Any) -> Any:
    """Return the argument."""
    return payload
