"""Hand events to a broker: a subscription that gives up on nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from pgqueue.events.consumers import Start
from pgqueue.events.subscribing import subscribe
from pgqueue.options.retries import Backoff, Exponential
from pgqueue.tasks import Task
from pgqueue.values.number_checks import LARGEST

PATIENT = Exponential(base=1, cap=60)
"""As long as a broker is away, each key asks for it once a minute."""
NO_CAP = LARGEST
"""Of attempts: at one a minute they last for 4 000 years."""


def relay(
    *topics: str,
    where: Mapping[str, Any] | None = None,
    name: str = "",
    channel: str = "",
    key: str = "{key}",
    ordered: bool = True,
    batch: int | None = None,
    split_by: str = "",
    start: Start = "now",
    max_attempts: int | None = None,
    backoff: Backoff | list[float | timedelta] | None = None,
    **options: Any,
) -> Callable[[Callable[..., Any] | Task[Any, Any]], Task[Any, Any]]:
    """Make a function at the top of a module a task that hands events to a broker.

        @relay("order.**")
        def to_kafka(event): ...        # return when the broker has it; raise, and it is retried

    It is `subscribe` with what a broker needs. Nothing is given up by counting: an outage of the
    broker delays events, however long it is, and those of a key stay in their order. A broker may
    be given an event twice, if a worker dies between its answer and the settle: let it tell them
    apart by `event.position`.

    Args:
        topics, where, name, batch, split_by, start: as for `subscribe`.
        channel: of its messages; "": one of its own, named as the subscription is. Relays that
            share a channel share the order of its keys: one waits for what the other can't hand
            over.
        key: whose order is kept: "{key}", the event's; "": that of the whole log.
        ordered: whether it is kept at all.
        max_attempts: errors after which an event is a dead letter; None: no number of them.
        backoff: as for `@task`; None: 1, 2, 4 … 60 seconds, ±20 %. A function that returns None
            for an error makes a dead letter at once of what the broker will never take.
        options: others of `subscribe`.

    Raises:
        InvalidSubscription, InvalidFilter, InvalidTask: an option can't be.
    """
    if max_attempts is None:
        max_attempts = NO_CAP

    def declare(function: Callable[..., Any] | Task[Any, Any]) -> Task[Any, Any]:
        own = {**options, "channel": channel or name or _name_of(function)}
        if not isinstance(function, Task):
            own["backoff"] = PATIENT if backoff is None else backoff
        elif backoff is not None:
            own["backoff"] = backoff  # which is refused, by its name
        make = subscribe(
            *topics,
            where=where,
            name=name,
            key=key,
            ordered=ordered,
            batch=batch,
            split_by=split_by,
            start=start,
            max_attempts=max_attempts,
            **own,
        )
        return make(function)

    return declare


def _name_of(function: Any) -> str:
    if isinstance(function, Task):
        return function.name
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', '')}"
