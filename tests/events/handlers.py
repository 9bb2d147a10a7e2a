"""Functions that are run with events, and what they were given."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from pgqueue import Event, RecordedEvent, subscribe, task

seen: list[Any] = []


class Paid(Event, topic="order.paid", key="order_id"):
    """A typed event."""

    order_id: int
    total: Decimal = Decimal(0)


@subscribe("order.*", where={"total__gte": 100})
def large(event: RecordedEvent) -> None:
    """Take one event."""
    seen.append(event)


@subscribe("order.paid", name="paid")
def paid(event: Paid) -> None:
    """Take an instance."""
    seen.append(event)


@subscribe("stock.**", batch=3, split_by="{payload.place}")
def stock(events: list[RecordedEvent]) -> None:
    """Take several."""
    seen.append([event.payload["n"] for event in events])


@subscribe("mail.*", key="{key}", ordered=True, takes_context=True)
def mail(context: Any, event: RecordedEvent) -> None:
    """Take them in order."""
    seen.append((context.metadata["subscription"], event.key))


@task
def plain(event: dict[str, Any]) -> None:
    """A task without a subscription of its own."""
    seen.append(event["topic"])
