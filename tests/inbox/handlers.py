"""What handles messages from outside, and the effects that it has in the database."""

from __future__ import annotations

from typing import Any

from asgiref.sync import sync_to_async

from pgqueue import Event, RecordedEvent, publish, read, subscribe, task

failing: list[Exception] = []
"""What the next handlers raise, after they have had their effects."""


class Ordered(Event, topic="shop.ordered", key="order"):
    """A typed event."""

    order: int


def book_once(order: int) -> None:
    """Have an effect in the database."""
    publish("booked", order)
    if failing:
        raise failing.pop()


@task(max_attempts=3, backoff=[0])
def book(payload: dict[str, Any]) -> None:
    """Handle a message. Nothing here says that it is atomic."""
    book_once(payload["order"])


@task(takes_context=True)
def tell(context: Any, payload: Any) -> Any:
    """Return what it was told of its message."""
    return context.metadata


@task
async def book_later(payload: dict[str, Any]) -> None:
    """Handle one in a coroutine."""
    await sync_to_async(book_once)(payload["order"])


@task(enqueue_on_commit=True, on_conflict="raise", key=lambda payload: f"key {payload['order']}")
def particular(payload: dict[str, Any]) -> None:
    """Have options of its own."""
    book_once(payload["order"])


@task
def takes_nothing() -> None:
    """Fit no message."""


@subscribe("shop.ordered", atomic=True, max_attempts=3, backoff=[0], name="inbox, typed")
def book_event(event: Ordered) -> None:
    """Handle an event."""
    book_once(event.order)


@subscribe("erp.**", atomic=True, key="{key}", ordered=True, name="inbox, in order")
def book_in_order(event: RecordedEvent) -> None:
    """Handle one in the order of its key."""
    book_once(event.payload["order"])


def booked() -> list[int]:
    """Return the orders that were booked, in the order in which that was done."""
    return [each.payload for each in read(topics="booked")]
