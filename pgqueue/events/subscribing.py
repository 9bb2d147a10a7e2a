"""Declare subscriptions: functions that run with the events that they match."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Any, ParamSpec, Protocol, TypeVar, Unpack, get_args, get_origin, overload

from django.db import connections
from django.utils.module_loading import autodiscover_modules

from pgqueue.calls.callables import fault_of
from pgqueue.codec.hints import hints_of
from pgqueue.conf import settings
from pgqueue.engine.dispatch import DeclaredSubscription
from pgqueue.events import groups
from pgqueue.events.growth import GrowthWaiter
from pgqueue.events.recorded import RecordedEvent
from pgqueue.events.typed import Event
from pgqueue.exceptions import InvalidSubscription
from pgqueue.options import records
from pgqueue.options.filters import Filter, compiled
from pgqueue.options.records import Record, documents
from pgqueue.options.subscription_options import (
    DECLARED,
    OPTIONS,
    SharedOptions,
    checked_name,
)
from pgqueue.tasks import Task, TaskContext, task
from pgqueue.tasks.options import EventTaskOptions
from pgqueue.values.error_words import checked_option, shown

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound=TaskContext)
E = TypeVar("E", bound="RecordedEvent | Event")

POSITIONAL = Parameter.POSITIONAL_OR_KEYWORD
NOT_FROM_EVENTS = ("run_after", "expires_at", "ttl", "dedupe_key", "dedupe_for", "on_conflict",
                   "longest_wait", "hold_for", "enqueue_on_commit", "connection", "schedule",
                   "encrypted")  # fmt: skip
"""Options of tasks that messages of events do not have."""
OF_MESSAGES = ("channel", "queue_name", "ordered", "priority", "weight", "max_attempts",
               "metadata")  # fmt: skip
"""Options that a subscription gives its messages. All other options come from the task."""
TAKES_MANY = "_takes_many_events"

_subscriptions: dict[str, Subscribed] = {}


class SubscribeOptions(SharedOptions, EventTaskOptions, total=False):
    """The options of `@subscribe`: the options of the subscription, and of its task."""

    key: str
    takes_context: bool
    redact: Sequence[str]


class SubscriptionDecorator(Protocol):
    """A decorator of functions that take an event or a list of events, perhaps after a context."""

    # A task is callable, too: the first overload takes it.
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Task[P, T], /
    ) -> Task[P, T]: ...
    @overload
    def __call__(self, function: Callable[[E], T], /) -> Task[[E | RecordedEvent], T]: ...
    @overload
    def __call__(
        self, function: Callable[[list[E]], T], /
    ) -> Task[[Sequence[E | RecordedEvent]], T]: ...
    @overload
    def __call__(self, function: Callable[[C, E], T], /) -> Task[[E | RecordedEvent], T]: ...
    @overload
    def __call__(
        self, function: Callable[[C, list[E]], T], /
    ) -> Task[[Sequence[E | RecordedEvent]], T]: ...


@dataclass(frozen=True, kw_only=True)
class Subscribed:
    """A subscription that code declares, with its checked options."""

    name: str
    task: Task[Any, Any]
    options: Mapping[str, Any]


@documents({name: each for name, each in OPTIONS.items() if name not in ("topics", "channel")})
def subscribe(
    *topics: str, name: str = "", **options: Unpack[SubscribeOptions]
) -> SubscriptionDecorator:
    """Make a function at the top of a module a task that runs with the events that it matches.

        @subscribe("order.*", where={"total__gte": 100}, channel="mail")
        def send_thanks(event): ...

        @subscribe("order.paid")
        def count(event: OrderPaid): ...      # a class of `Event`: its instance

    Each matching event becomes a message exactly once, in the transaction in which the dispatch
    passes the event. The message is then a message of the task, with its attempts, its backoff and
    its dead letters. Workers make the messages, and store the subscriptions that their code
    declares as rows.

    Args:
        topics: patterns such as "order.paid", "order.*" or "order.**"; none: all topics.
        name: the name of the subscription; "": the task's name.
        {options}
        options: further options of the task, as for `@task`: channel, priority, weight,
            max_attempts, backoff, timeout, atomic, metadata, takes_context, database. If the
            function is a task already, or has another subscription: only channel, ordered,
            priority, weight, max_attempts and metadata.

    Raises:
        InvalidSubscription, InvalidFilter, InvalidTask: an option is invalid.
    """
    of_task: dict[str, Any] = dict(options)
    for option in NOT_FROM_EVENTS:
        if option in of_task:
            raise InvalidSubscription(f"{option}: messages that are made of events have none.")
    own_options = {each: of_task.pop(each) for each in DECLARED.keys() & of_task.keys()}
    checked_option(checked_name, "name", name or "a", InvalidSubscription)
    given = checked_options(DECLARED, {"topics": topics, **own_options})
    batch = given["batch"]

    def declare(function: Any, /) -> Any:
        own: Task[Any, Any]
        if isinstance(function, Task):
            own = _with_options(function, batch, of_task)
        else:
            make: Any = task(**of_task)
            own = make(_taking_events(function, batch, of_task))
        check_may_be_open(own)
        declared = Subscribed(name=name or own.name, task=own, options=given)
        other = _subscriptions.get(declared.name)
        # A module may be loaded again: then the function is a new one of the same name.
        if other and (other.task.name != own.name or other.task.func is own.func):
            raise InvalidSubscription(
                f"name={declared.name!r}: {other.task.name} has a subscription of this name."
            )
        _subscriptions[declared.name] = declared
        return function if isinstance(function, Task) else own

    return declare


def check_may_be_open(own: Task[Any, Any]) -> None:
    """Check that a task is not encrypted.

    Raises:
        InvalidSubscription: the task is encrypted.
    """
    if own.encrypted:
        raise InvalidSubscription(
            f"{own.name} is encrypted, and the log stores its events in plain text, and so do the "
            "messages of these events: subscribe a plain task, which looks the secret up."
        )


def checked_options(record: Record, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return each option of a record of subscriptions in its stored form.

    Raises:
        InvalidSubscription, InvalidFilter: an option is unknown or invalid, or does not fit the
            others.
    """
    checked = records.checked(record, given, noun="A subscription", raised=InvalidSubscription)
    if checked["split_by"] and checked["batch"] is None:
        raise InvalidSubscription("split_by splits a batch: give batch=, too.")
    return checked


def _with_options(
    own: Task[Any, Any], batch: int | None, options: dict[str, Any]
) -> Task[Any, Any]:
    """Return a task with other options for the messages of one subscription."""
    for option in options:
        if option not in OF_MESSAGES:
            raise InvalidSubscription(f"{option}: give it to the @task of {own.name}.")
    takes_many = getattr(own.func, TAKES_MANY, None)
    if takes_many not in (None, batch is not None):
        raise InvalidSubscription(
            f"batch={batch}: {own.name} takes {'a list of events' if takes_many else 'one event'}."
        )
    return own.using(**options) if options else own


def _taking_events(
    function: Callable[..., Any], batch: int | None, options: Mapping[str, Any]
) -> Any:
    """Return a function of recorded events that calls `function`, and has its name."""
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
    """Return a function that converts recorded events to the type of the parameter."""
    parameters = list(inspect.signature(function).parameters.values())[bool(takes_context) :]
    if not parameters:
        raise InvalidSubscription(
            f"{function.__module__}.{function.__qualname__} must take an event."
        )
    hint = hints_of(function).get(parameters[0].name)

    def convert(event: RecordedEvent | Event, cls: Any) -> Any:
        # A test may call the task with an instance.
        is_typed = isinstance(cls, type) and issubclass(cls, Event)
        return event.as_event(cls) if is_typed and isinstance(event, RecordedEvent) else event

    if batch is None:
        return lambda event: convert(event, hint)
    [item] = get_args(hint)[:1] if get_origin(hint) is not None else [None]
    return lambda events: [convert(each, item) for each in events]


def declared(database: str) -> list[DeclaredSubscription]:
    """Return the subscriptions that the project's code declares, sorted by name.

    This imports the `tasks` and `events` modules of all apps.

    Args:
        database: the alias of the database that stores these subscriptions.
    """
    autodiscover_modules("tasks", "events")
    found = [each for each in _subscriptions.values() if each.task.alias == database]
    return sorted(map(_described, found), key=lambda each: each.name)


def start_of(name: str, database: str) -> int:
    """Return the position after which a new subscription starts.

    Events that are published but have no position yet get one first. A subscription that starts now
    does not match them.

    Raises:
        InvalidGroup: the log has no such position.
    """
    django = connections[database]
    was_open = django.connection is not None
    try:
        return groups.resolve(django, _subscriptions[name].options["start"])
    finally:
        # The thread of a worker's duties uses its own connections, not Django's.
        if not was_open:
            django.close()


def waiter(database: str, wake: Callable[[], None]) -> GrowthWaiter:
    """Return a waiter that calls `wake` when the log may have grown."""
    return GrowthWaiter(database, wake)


def _described(subscribed: Subscribed) -> DeclaredSubscription:
    own, options = subscribed.task, subscribed.options
    wanted = Filter(tuple(options["topics"]), options["where"])
    made = compiled(wanted, key=options["key"], split_by=options["split_by"])
    described: dict[str, Any] = {
        "name": subscribed.name,
        "task": own.name,
        "channel": own.queue_name,
        "ordered": own.ordered,
        "priority": own.priority,
        "weight": own.weight,
        "max_attempts": own.max_attempts or settings().max_attempts,
        "metadata": own.metadata_json,
        **{
            name: json.dumps(options[name]) if each.is_json else options[name]
            for name, each in DECLARED.items()
            if each.is_column
        },
        **made,
        "eq_value": json.dumps(made["eq_value"]) if made["eq_path"] else None,
        "vars": json.dumps(made["vars"]),
    }
    # The digest without a weight is the one of older versions: a worker of such a version would
    # otherwise replace the definition.
    digested = {name: each for name, each in described.items() if (name, each) != ("weight", 1)}
    digest = hashlib.sha256(json.dumps(digested, sort_keys=True, default=str).encode())
    return DeclaredSubscription(**described, definition=digest.hexdigest())
