"""Tasks that are traced."""

from __future__ import annotations

import asyncio
from typing import Any

from asgiref.sync import sync_to_async
from opentelemetry import baggage, trace

from pgqueue import (
    Cancel,
    Defer,
    Discard,
    RecordedEvent,
    TaskContext,
    publish,
    send,
    task,
)

ERRORS: dict[str, Any] = {
    "defer": lambda: Defer(0),
    "discard": lambda: Discard("not worth it"),
    "cancel": lambda: Cancel("not any more"),
}


def current() -> str:
    """The id of the current span."""
    return f"{trace.get_current_span().get_span_context().span_id:016x}"


@task(channel="mail", key="ada")
def tell() -> list[Any]:
    """Say which span is current, and what the producer said."""
    return [current(), baggage.get_baggage("tenant")]


@task(channel="mail")
def take(found: Any = None) -> Any:
    """Take what another message of the flow returned."""
    return found


@task(channel="mail")
async def tell_async() -> list[str]:
    """Say which span is current, here and in what goes on beside."""
    await asyncio.sleep(0)
    return [current(), await asyncio.create_task(_later()), await sync_to_async(current)()]


async def _later() -> str:
    await asyncio.sleep(0)
    return current()


@task(channel="mail", max_attempts=3, backoff=[0, 0], takes_context=True)
def succeed_at_last(context: TaskContext) -> None:
    """Succeed at the third attempt."""
    if context.attempt < 3:
        raise ValueError(f"attempt {context.attempt}")


@task(channel="mail", max_attempts=1, takes_context=True)
def end_as(context: TaskContext, how: str) -> None:
    """End otherwise than by success."""
    if context.attempt == 1:
        raise ERRORS[how]()


@task(channel="mail", max_attempts=1)
async def fail_async() -> None:
    """Fail in a coroutine."""
    raise ValueError("no")


@task(channel="mail", max_attempts=1)
def log_in(password: str) -> None:
    """Fail, and say why."""
    raise ValueError(f"no {password}")


@task(channel="mail")
def pass_on() -> None:
    """Store all kinds of things."""
    tell.enqueue()
    send("letters", {"n": 1})
    publish("parcel.packed", {"n": 1})


@task(channel="mail")
async def pass_on_async() -> None:
    """Store a message from a coroutine."""
    await asyncio.sleep(0)
    await tell.aenqueue()


@task(channel="mail")
def follow(event: RecordedEvent) -> str:
    """Take an event."""
    return current()


@task(channel="mail")
def collect(events: list[RecordedEvent]) -> int:
    """Take several."""
    return len(events)
