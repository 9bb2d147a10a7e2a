"""Hand events to a broker, by a subscription that retries without a limit."""

from __future__ import annotations

from typing import Any, Unpack

from pgqueue.events.subscribing import SubscribeOptions, SubscriptionDecorator, subscribe
from pgqueue.options.retries import Exponential
from pgqueue.tasks import Task
from pgqueue.values.number_checks import LARGEST

PATIENT = Exponential(base=1, cap=60)
"""While a broker is away, each key tries it once a minute."""
NO_CAP = LARGEST
"""The number of attempts: at one a minute they last for 4 000 years."""


def relay(
    *topics: str, name: str = "", **options: Unpack[SubscribeOptions]
) -> SubscriptionDecorator:
    """Make a function at the top of a module a task that hands events to a broker.

        @relay("order.**")
        def to_kafka(event): ...        # return when the broker has it; raise, and it is retried

    This is `subscribe` with defaults for a broker. The number of attempts has no limit: an outage
    of the broker only delays events, and events of one key stay in order. If a worker dies between
    the broker's answer and the settle, the broker gets the event twice. It should detect such
    duplicates by `event.unique_id`.

    Args:
        topics, name: as for `subscribe`.
        channel: the channel of its messages; none: a channel of its own, with the name of the
            subscription. Relays that share a channel share the order of its keys: an event that one
            cannot hand over blocks the other.
        key: the scope of the order: "{key}", the event's key; "": the whole log.
        ordered: whether the order is kept.
        max_attempts: the number of errors after which an event is a dead letter; None: no limit.
        backoff: as for `@task`; None: 1, 2, 4 … 60 seconds, ±20 %. A function that returns None for
            an error makes the event a dead letter at once, for events that the broker refuses.
        options: further options of `subscribe`.

    Raises:
        InvalidSubscription, InvalidFilter, InvalidTask: an option is invalid.
    """
    given: dict[str, Any] = {"key": "{key}", "ordered": True, **options}
    if given.get("max_attempts") is None:
        given["max_attempts"] = NO_CAP
    backoff = given.pop("backoff", None)
    channel = given.pop("channel", None)

    def declare(function: Any, /) -> Any:
        own = {**given, "channel": channel or name or _name_of(function)}
        if not isinstance(function, Task):
            own["backoff"] = PATIENT if backoff is None else backoff
        elif backoff is not None:
            own["backoff"] = backoff  # `subscribe` refuses it by its name
        return subscribe(*topics, name=name, **own)(function)

    return declare


def _name_of(function: Any) -> str:
    if isinstance(function, Task):
        return function.name
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', '')}"
