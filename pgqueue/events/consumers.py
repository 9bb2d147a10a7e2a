"""Declare the handlers of groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal, get_args

from django.utils.module_loading import autodiscover_modules

from pgqueue.calls import tracing
from pgqueue.calls.callables import check_did_run, fault_of, is_coroutine_function
from pgqueue.conf import settings
from pgqueue.database import guard
from pgqueue.events.projections import (
    SUFFIX,
    Rebuild,
    checked_new,
    rebuild_name,
    rebuilding,
    rebuilt_now,
)
from pgqueue.events.recorded import RecordedEvent
from pgqueue.exceptions import InvalidGroup, PGQueueError
from pgqueue.options.filters import Filter, as_filter
from pgqueue.options.records import Check, optional
from pgqueue.options.retries import Backoff, as_backoff, declare
from pgqueue.options.sql_conditions import as_sql_condition
from pgqueue.options.starts import Start, as_start
from pgqueue.tasks import tenants
from pgqueue.tasks.options import checked_message
from pgqueue.values.error_words import checked_option, shown
from pgqueue.values.names import as_channel, as_text
from pgqueue.values.number_checks import as_count, as_flag
from pgqueue.values.tracebacks import calls_user_code

OnFailure = Literal["park", "stop"]
MAX_ATTEMPTS = 5
"""The default number of errors after which an event is given up; fewer than a message's, since
the partition waits for each retry.
"""
MOST_PARTITIONS = 1024
MOST_EVENTS = 10_000
NAME_LIMIT = 190  # bytes: its dead letters' channel has it in its name

CAUGHT = (TypeError, ValueError, PGQueueError)
"""The errors of an invalid option."""

_consumers: dict[str, Consumer] = {}


@dataclass(frozen=True, kw_only=True, eq=False)
class Consumer:
    """The handler of a group, and its options. A call calls the handler. See `consumer()`."""

    name: str
    handler: Callable[[Any], Any]
    filter: Filter
    batch: int | None
    atomic: bool
    partitions: int
    start: Start
    max_attempts: int
    max_lost: int
    backoff: Backoff
    on_failure: OnFailure
    database: str | None
    rebuild: Rebuild | None = None
    rebuilt: str = ""

    def __post_init__(self) -> None:
        for name in ("__module__", "__name__", "__qualname__", "__doc__"):
            vars(self)[name] = getattr(self.handler, name, None)
        vars(self)["__wrapped__"] = self.handler

    def __call__(self, given: RecordedEvent | Sequence[RecordedEvent]) -> Any:
        """Call the handler."""
        return self.handler(given)

    @property
    def alias(self) -> str:
        """The database that the log is in."""
        return self.database or settings().database

    @property
    def is_rebuilding(self) -> bool:
        """Whether the current call of the handler belongs to a rebuild of the group."""
        return rebuilt_now() == self.name

    def for_rebuild(self) -> Consumer:
        """Return the consumer that rebuilds this group: a failing event stops it."""
        name = rebuild_name(self.name)
        return replace(self, name=name, rebuilt=self.name, on_failure="stop")

    def handle(self, events: Sequence[RecordedEvent]) -> None:
        """Call the handler with events, one by one or as a list."""
        if self.batch is None:
            for event in events:
                self._guarded([event], event)
        else:
            self._guarded(events, list(events))

    def _guarded(self, events: Sequence[RecordedEvent], given: Any) -> None:
        metadata = (each.metadata for each in events)
        mark = rebuilding(self.rebuilt) if self.rebuilt else nullcontext()
        with mark, tenants.around_events(metadata), tracing.handling(self.name, events):
            guard.call(self._call, given)

    @calls_user_code
    def _call(self, given: Any) -> None:
        check_did_run(self.name, self.handler(given))


def consumer(
    name: str,
    *,
    topics: str | Iterable[str] | None = None,
    where: Mapping[str, Any] | None = None,
    key: str | None = None,
    predicate: str = "",
    params: Mapping[str, Any] | None = None,
    batch: int | None = None,
    atomic: bool = False,
    partitions: int = 1,
    start: Start = "now",
    max_attempts: int | None = None,
    max_lost: int | None = None,
    backoff: Backoff | Sequence[float | timedelta] | None = None,
    on_failure: OnFailure = "park",
    rebuild: Rebuild | None = None,
    database: str | None = None,
) -> Callable[[Callable[[Any], Any]], Consumer]:
    """Declare a group, and the function that handles its events in the order of the log.

        @consumer("billing", topics="order.*")
        def bill(event): ...

    `manage.py pgqueue_group run billing` reads for the group. With several processes, one process
    at a time reads each partition. After its end, another takes over within 10 s.

    Args:
        name: the name of the group. Its position in the log is stored under this name.
        topics, where, key: filters of its events, as for `read()`.
        predicate, params: a further condition in SQL, as for `tail()`; `s.name` is the name of the
            group. A reader whose predicate is invalid logs the error, and reads nothing.
        batch: the maximum number of events in a list for the handler. None: one event at a time.
        atomic: run the handler in one transaction with the move of the group's cursor. Its changes
            in this database then happen exactly once. Otherwise an event may be handled again after
            a crash.
        partitions: the number of processes that may read at once. Events of one key are in one
            partition.
        start: the start of a new group: "now", the "beginning", a position (events after it), or a
            time.
        max_attempts: the number of errors after which an event is given up. None: 5, whatever
            `PGQUEUE` says of messages, since the partition waits for each retry.
        max_lost: the number of readers that may die while they handle an event. Then the event is
            given up, too. None: as `PGQUEUE` says. It is at least 2, since the first loss does not
            tell which event the reader handled.
        backoff: the wait after each error, as for tasks. The partition waits, too.
        on_failure: "park" a given-up event as a dead letter on the channel `group:NAME`, whose
            replay calls the handler again. Or "stop" the partition at the event.
        rebuild: the functions that begin and end a rebuild of the group from the log. During a
            rebuild, the handler's `is_rebuilding` is true. None: there is no rebuild.
        database: the alias of the queue's database, if not the one of `PGQUEUE`.

    Raises:
        InvalidGroup, InvalidFilter: an option is invalid.
    """
    own = settings()
    given = {
        "name": name,
        "batch": batch,
        "atomic": atomic,
        "partitions": partitions,
        "start": start,
        "max_attempts": _or(max_attempts, MAX_ATTEMPTS),
        "max_lost": _or(max_lost, own.max_lost),
        "backoff": _or(backoff, own.backoff),
        "on_failure": on_failure,
        "rebuild": rebuild,
    }
    options: dict[str, Any] = {
        option: checked_option(_CHECKS[option], option, value, InvalidGroup, caught=CAUGHT)
        for option, value in given.items()
    }
    if rebuild is not None and len(name.encode()) > NAME_LIMIT - len(SUFFIX):
        most = NAME_LIMIT - len(SUFFIX)
        raise InvalidGroup(f"name={shown(name)}: with rebuild=… it has at most {most} bytes.")
    condition = as_sql_condition(predicate, params, name=name)
    wanted = replace(as_filter(topics, where, key), condition=condition)
    options |= {"filter": wanted, "database": database}
    try:
        checked_message({"database": database})
    except PGQueueError as error:
        raise InvalidGroup(str(error)) from error

    def declare_it(handler: Callable[[Any], Any]) -> Consumer:
        if not callable(handler):
            raise InvalidGroup(f"{shown(handler)} can't be called.")
        # Otherwise its calls would do nothing, and the events would count as handled.
        if fault := fault_of(handler):
            raise InvalidGroup(f"{shown(handler)} can't handle events: {fault}.")
        if is_coroutine_function(handler):
            raise InvalidGroup(f"{shown(handler)} is async: wrap it in asgiref's async_to_sync.")
        made = Consumer(handler=handler, **options)
        other = _consumers.setdefault(made.name, made)
        if (other.__module__, other.__qualname__) != (made.__module__, made.__qualname__):  # type: ignore[attr-defined]
            raise InvalidGroup(f"name={made.name!r}: {other.__module__} declares it already.")
        _consumers[made.name] = made
        return made

    return declare_it


def find_consumer(name: str) -> Consumer | None:
    """Return the handler of a group, importing the `tasks` and `events` modules of all apps."""
    if name not in _consumers:
        discover()
    return _consumers.get(name)


def declared() -> list[Consumer]:
    """Return the handlers that are declared so far, by their groups' names."""
    return [_consumers[name] for name in sorted(_consumers)]


def discover() -> None:
    """Import the modules that may declare handlers."""
    autodiscover_modules("tasks", "events")


def _or(given: Any, default: Any) -> Any:
    return default if given is None else given


def checked_name(value: Any) -> str:
    """Return `value` if it is a valid name of a group.

    Raises:
        TypeError, ValueError: it is invalid.
    """
    return as_text(as_channel(value), NAME_LIMIT)


def checked_new_name(value: Any) -> str:
    """Return `value` if it is a valid name of a new group.

    Raises:
        TypeError, ValueError: it is invalid, or reserved for a rebuild.
    """
    return checked_new(checked_name(value))


def as_partitions(value: Any) -> int:
    """Return `value` if it is a valid number of partitions.

    Raises:
        ValueError: it is invalid.
    """
    return as_count(value, most=MOST_PARTITIONS)


def _events(value: Any) -> int:
    return as_count(value, most=MOST_EVENTS)


def _on_failure(value: Any) -> str:
    if value not in get_args(OnFailure):
        raise ValueError("it must be 'park' or 'stop'.")
    return str(value)


def _rebuild(value: Any) -> Rebuild:
    if not isinstance(value, Rebuild):
        raise TypeError("it must be a pgqueue.Rebuild.")
    return value


def _backoff(value: Any) -> Backoff:
    backoff = as_backoff(value)
    declare(backoff)
    return backoff


_CHECKS: dict[str, Check] = {
    "name": checked_new_name,
    "batch": optional(_events),
    "atomic": as_flag,
    "partitions": as_partitions,
    "start": as_start,
    "max_attempts": as_count,
    "max_lost": as_count,
    "backoff": _backoff,
    "on_failure": _on_failure,
    "rebuild": optional(_rebuild),
}
