"""Declare subscriptions: functions that are run with the events they want."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from inspect import Parameter, Signature
from typing import Any, get_args, get_origin

from django.db import connections
from django.utils.module_loading import autodiscover_modules

from pgqueue.calls.callables import fault_of
from pgqueue.codec.hints import hints_of
from pgqueue.conf import settings
from pgqueue.engine import predicates
from pgqueue.engine.dispatch import DeclaredSubscription
from pgqueue.events import groups
from pgqueue.events.consumers import Start, as_start
from pgqueue.events.growth import GrowthWaiter
from pgqueue.events.recorded import RecordedEvent
from pgqueue.events.typed import Event
from pgqueue.exceptions import InvalidSubscription, PGQueueError
from pgqueue.options.filters import (
    Filter,
    as_filter,
    as_place,
    compiled,
)
from pgqueue.tasks import Task, task
from pgqueue.tasks.options import as_object
from pgqueue.values.error_words import checked_option, shown
from pgqueue.values.names import KEY_LIMIT, as_text
from pgqueue.values.number_checks import as_count, as_duration

NAME_LIMIT = 500
POSITIONAL = Parameter.POSITIONAL_OR_KEYWORD
MOST_EVENTS = 10_000
NOT_FROM_EVENTS = ("run_after", "expires_at", "ttl", "dedupe_key", "dedupe_for", "on_conflict",
                   "hold_for", "enqueue_on_commit", "connection", "schedule",
                   "encrypted")  # fmt: skip
"""Options of tasks that messages of events don't have."""
OF_MESSAGES = ("channel", "queue_name", "ordered", "priority", "max_attempts", "metadata")
"""Options that messages have from their subscription; the others are their task's."""
TAKES_MANY = "_takes_many_events"

_subscriptions: dict[str, Subscribed] = {}


@dataclass(frozen=True, kw_only=True)
class Subscribed:
    """A subscription that code declares."""

    name: str
    task: Task[Any, Any]
    filter: Filter
    predicate: str
    params: Mapping[str, Any]
    key: str
    batch: int | None
    split_by: str
    start: Start
    expires_after: timedelta | None


def subscribe(
    *topics: str,
    where: Mapping[str, Any] | None = None,
    predicate: str = "",
    params: Mapping[str, Any] | None = None,
    name: str = "",
    key: str = "",
    ordered: bool = False,
    batch: int | None = None,
    split_by: str = "",
    start: Start = "now",
    expires_after: float | timedelta | None = None,
    **options: Any,
) -> Callable[[Callable[..., Any] | Task[Any, Any]], Task[Any, Any]]:
    """Make a function at the top of a module a task that is run with the events it wants.

        @subscribe("order.*", where={"total__gte": 100}, channel="mail")
        def send_thanks(event): ...

        @subscribe("order.paid")
        def count(event: OrderPaid): ...      # a class of `Event`: its instance

    Each event that matches becomes a message, in the transaction in which the dispatch passes it:
    exactly once. From there on the message is one of the task, with its attempts, its backoff and
    its dead letters. Workers make the messages, and store what their code declares as rows.

    Args:
        topics: patterns such as "order.paid", "order.*" or "order.**"; none: all topics.
        where: conditions on payloads: `{"total__gte": 100, "customer__country": "DE"}`.
        predicate: a condition in SQL over an event `e` (position, topic, key, payload, metadata,
            created_at) and this subscription `s` (name, params), for what `where` can't say. It
            may use what PostgreSQL itself brings, and no tables.
        params: a dict that the predicate knows as `s.params`. Subscriptions that differ in this
            alone are matched together.
        name: of the subscription; "": the task's.
        key: of its messages: a text, "{key}" (the event's), "{topic}" or "{payload.customer.id}".
        ordered: run the messages of a key one at a time, in the order of the log. Messages that are
            enqueued directly are not ordered against these.
        batch: give the function lists of up to so many events, as they are there; a retry brings
            exactly the same. None: one event at a time.
        split_by: put only events into one list that agree in this, which is said as a key is.
        start: where a new subscription begins: "now", at the "beginning", after a position, or at a
            time.
        expires_after: seconds or a timedelta after which it ends, once no worker declares it.
        options: of the task, as for `@task`: channel, priority, max_attempts, backoff, timeout,
            atomic, metadata, takes_context, database. If the function is a task already, or has
            another subscription: those of its messages only, which are channel, ordered, priority,
            max_attempts and metadata.

    Raises:
        InvalidSubscription, InvalidFilter, InvalidTask: an option can't be.
    """
    for option in NOT_FROM_EVENTS:
        if option in options:
            raise InvalidSubscription(f"{option}: messages that are made of events have none.")
    given = {
        "filter": as_filter(topics, where),
        **checked_options(
            name=name or "a",
            predicate=predicate,
            params=params,
            key=key,
            batch=batch,
            split_by=split_by,
            start=start,
            expires_after=expires_after,
        ),
    }
    del given["name"]

    def declare(function: Callable[..., Any] | Task[Any, Any]) -> Task[Any, Any]:
        if isinstance(function, Task):
            own = _with_options(
                function, batch, options if ordered is False else {**options, "ordered": ordered}
            )
        else:
            make: Any = task(ordered=ordered, **options)
            own = make(_taking_events(function, batch, options))
        check_may_be_open(own)
        declared = Subscribed(name=name or own.name, task=own, **given)
        other = _subscriptions.get(declared.name)
        # But a module may be loaded again.
        if other and (other.task.name != own.name or other.task.func is own.func):
            raise InvalidSubscription(
                f"name={declared.name!r}: {other.task.name} has a subscription of this name."
            )
        _subscriptions[declared.name] = declared
        return function if isinstance(function, Task) else own

    return declare


def check_may_be_open(own: Task[Any, Any]) -> None:
    """Say no to a task that asks for encryption.

    Raises:
        InvalidSubscription: it does.
    """
    if own.encrypted:
        raise InvalidSubscription(
            f"{own.name} is encrypted, and the log keeps its events as they are, as the messages "
            "do that are made of them: subscribe a plain task, which looks the secret up."
        )


def checked_options(**options: Any) -> dict[str, Any]:
    """Return options of a subscription in the form that it keeps them.

    Raises:
        InvalidSubscription: one can't be.
    """
    for name, check in _CHECKS.items():
        if options[name] is not None or name not in _MAY_BE_NONE:
            options[name] = _checked(name, check, options[name])
    if options["split_by"] and options["batch"] is None:
        raise InvalidSubscription("split_by says how a batch is split: give batch=, too.")
    return {**options, "params": options["params"] or {}}


def _with_options(
    own: Task[Any, Any], batch: int | None, options: dict[str, Any]
) -> Task[Any, Any]:
    """Return a task with other options for the messages of one subscription."""
    for option in options:
        if option not in OF_MESSAGES:
            raise InvalidSubscription(f"{option}: say it where {own.name} is made a task.")
    takes_many = getattr(own.func, TAKES_MANY, None)
    if takes_many not in (None, batch is not None):
        raise InvalidSubscription(
            f"batch={batch}: {own.name} takes {'a list of events' if takes_many else 'one event'}."
        )
    return own.using(**options) if options else own


def _taking_events(
    function: Callable[..., Any], batch: int | None, options: Mapping[str, Any]
) -> Any:
    """Return a function that is given events as they are stored, and has the name of another."""
    if not inspect.isfunction(function):
        raise InvalidSubscription(f"{shown(function)} must be a function at the top of a module.")
    if fault := fault_of(function):
        raise InvalidSubscription(f"{shown(function)} can't take events: {fault}.")
    takes_context = bool(options.get("takes_context"))
    convert = _conversion(function, batch, takes_context=takes_context)
    adapted = _awaiting if inspect.iscoroutinefunction(function) else _calling
    handle: Any = adapted(function, convert)
    for each in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(handle, each, getattr(function, each))
    names = ["context", "event"] if takes_context else ["event"]
    setattr(handle, TAKES_MANY, batch is not None)
    handle.__signature__ = Signature([Parameter(name, POSITIONAL) for name in names])
    handle.__annotations__ = {"event": RecordedEvent if batch is None else list[RecordedEvent]}
    return handle


def _calling(function: Callable[..., Any], convert: Callable[[Any], Any]) -> Callable[..., Any]:
    def handle(*given: Any) -> Any:
        return function(*given[:-1], convert(given[-1]))

    return handle


def _awaiting(function: Callable[..., Any], convert: Callable[[Any], Any]) -> Callable[..., Any]:
    async def handle(*given: Any) -> Any:
        return await function(*given[:-1], convert(given[-1]))

    return handle


def _conversion(
    function: Callable[..., Any], batch: int | None, *, takes_context: bool
) -> Callable[[Any], Any]:
    """Return what makes of an event, or of a list of them, what a function takes."""
    parameters = list(inspect.signature(function).parameters.values())[bool(takes_context) :]
    if not parameters:
        raise InvalidSubscription(
            f"{function.__module__}.{function.__qualname__} must take an event."
        )
    hint = hints_of(function).get(parameters[0].name)

    def convert(event: RecordedEvent | Event, cls: Any) -> Any:
        # A test may call it with an instance.
        is_typed = isinstance(cls, type) and issubclass(cls, Event)
        return event.as_event(cls) if is_typed and isinstance(event, RecordedEvent) else event

    if batch is None:
        return lambda event: convert(event, hint)
    [item] = get_args(hint)[:1] if get_origin(hint) is not None else [None]
    return lambda events: [convert(each, item) for each in events]


def _checked(option: str, check: Callable[[Any], Any], value: Any) -> Any:
    return checked_option(
        check, option, value, InvalidSubscription, caught=(TypeError, ValueError, PGQueueError)
    )


def _place(value: Any) -> str:
    return as_place(value, KEY_LIMIT).text


def _predicate(value: Any) -> str:
    return as_text(value, 4 * predicates.LIMIT)


def checked_params(value: Any) -> dict[str, Any]:
    """Return `value` if a predicate can have it as parameters.

    Raises:
        TypeError, ValueError: it is no dict, or PostgreSQL can't store it as JSON.
    """
    return as_object(value)


def _events(value: Any) -> int:
    return as_count(value, most=MOST_EVENTS)


def checked_name(value: Any) -> str:
    """Return `value` if it can be the name of a subscription.

    Raises:
        TypeError, ValueError: it can't.
    """
    if value == "":
        raise ValueError("it must be a name.")
    return as_text(value, NAME_LIMIT)


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "name": checked_name,
    "predicate": _predicate,
    "params": checked_params,
    "key": _place,
    "batch": _events,
    "split_by": _place,
    "start": as_start,
    "expires_after": as_duration,
}
_MAY_BE_NONE = ("params", "batch", "expires_after")


def declared(database: str) -> list[DeclaredSubscription]:
    """Return the subscriptions that the project has in its code, in the order of their names.

    It imports the `tasks` and `events` modules of all apps.

    Args:
        database: the alias of the one that they are to be stored in.
    """
    autodiscover_modules("tasks", "events")
    found = [each for each in _subscriptions.values() if each.task.alias == database]
    return sorted(map(_described, found), key=lambda each: each.name)


def start_of(name: str, database: str) -> int:
    """Return the position after which a subscription that is new begins.

    What was published before now, and has no position yet, gets one: it isn't for one that begins
    now.

    Raises:
        InvalidGroup: the log has no such position.
    """
    django = connections[database]
    was_open = django.connection is not None
    try:
        return groups.resolve(django, _subscriptions[name].start)
    finally:
        # The thread that does a worker's duties has connections of its own.
        if not was_open:
            django.close()


def waiter(database: str, wake: Callable[[], None]) -> GrowthWaiter:
    """Return what calls `wake` when the log may have grown."""
    return GrowthWaiter(database, wake)


def _described(subscribed: Subscribed) -> DeclaredSubscription:
    own, wanted = subscribed.task, subscribed.filter
    made = compiled(wanted, key=subscribed.key, split_by=subscribed.split_by)
    described: dict[str, Any] = {
        "name": subscribed.name,
        "task": own.name,
        "topics": list(wanted.topics),
        "where": json.dumps(wanted.where),
        "channel": own.queue_name,
        "key": subscribed.key,
        "ordered": own.ordered,
        "batch": subscribed.batch,
        "split_by": subscribed.split_by,
        "priority": own.priority,
        "max_attempts": own.max_attempts or settings().max_attempts,
        "metadata": json.dumps(own.metadata),
        "expires_after": subscribed.expires_after,
        **made,
        "eq_value": json.dumps(made["eq_value"]) if made["eq_path"] else None,
        "vars": json.dumps(made["vars"]),
        "predicate": subscribed.predicate,
        "params": json.dumps(subscribed.params),
    }
    digest = hashlib.sha256(json.dumps(described, sort_keys=True, default=str).encode())
    return DeclaredSubscription(**described, definition=digest.hexdigest())
