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


@subscribe("report.*")
async def report(event: RecordedEvent) -> None:
    """Take one in a coroutine."""
    seen.append(event.payload)


class Moved(Event, topic="house.moved"):
    """Another typed event."""

    n: int


@subscribe("house.moved", batch=2, name="houses")
def houses(events: list[Moved]) -> None:
    """Take instances."""
    seen.append([event.n for event in events])


@subscribe("house.*", name="twice, all")
@subscribe("house.sold", name="twice, sold", channel="sold", priority=7, weight=5)
@subscribe("house.burnt", name="twice, burnt")
def twice(event: RecordedEvent) -> None:
    """Have three subscriptions."""
    seen.append(event.topic)


@subscribe(
    "fail.*",
    where={"deep": {"n__gte": 1}},
    name="failing",
    key="{payload.deep.who}",
    batch=3,
    channel="failing",
    priority=-3,
    weight=100,
    max_attempts=2,
    backoff=[0],
    metadata={"team": "a"},
    atomic=True,
)
def fails(events: list[RecordedEvent]) -> None:
    """Fail at the first try."""
    seen.append([event.position for event in events])
    if len(seen) == 1:
        raise ValueError("not yet")


@task
def plain(event: dict[str, Any]) -> None:
    """A task without a subscription of its own."""
    seen.append(event["topic"])


@task
def many(events: list[RecordedEvent]) -> None:
    """A task that takes several, without a subscription of its own."""
    seen.append([event.payload for event in events])
