"""Read the log from a position."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import psycopg
from asgiref.sync import sync_to_async
from django.db import connections

from pgqueue.conf import settings
from pgqueue.database.migration_check import needing_tables
from pgqueue.engine import log, predicates
from pgqueue.engine.culprits import by_halves, in_words, may_be_own
from pgqueue.engine.log import Bounds, LogStretch, StoredEvent
from pgqueue.engine.sequence import catch_up
from pgqueue.engine.values import Connection, Cursors
from pgqueue.events.recorded import RecordedEvent
from pgqueue.exceptions import (
    EventsRemoved,
    InvalidFilter,
    InvalidMessage,
    InvalidSubscription,
    PositionAhead,
    UnreadableEvent,
)
from pgqueue.options.filters import Filter, as_filter
from pgqueue.options.sql_conditions import SQLCondition
from pgqueue.tasks.options import checked_message
from pgqueue.values.error_words import checked_option, shown
from pgqueue.values.number_checks import as_count

EventT = TypeVar("EventT", StoredEvent, RecordedEvent)

MOST = 2**63 - 1 - log.REACH
LIMIT = 1000


def read(
    *,
    after: int = 0,
    topics: str | Iterable[str] | None = None,
    where: Mapping[str, Any] | None = None,
    key: str | None = None,
    limit: int = LIMIT,
    database: str | None = None,
) -> list[RecordedEvent]:
    """Return the next events after a position, in the order of the log.

    To read on, pass the position of the last event. In an open transaction, this reads in the
    transaction's snapshot, and does not assign positions to new events.

    Args:
        after: a position; 0: from the beginning.
        topics: patterns such as "order.paid", "order.*" or "**"; None: all topics.
        where: conditions on payloads: `{"total__gte": 100, "customer__country": "DE"}`.
        key: the key of the events; "": events without a key. None: any key. The indexes of
            `pgqueue.operations.IndexKeys` find the events of a key.
        limit: the maximum number of events.
        database: the alias of the queue's database, if not the one of `PGQUEUE`.

    Raises:
        EventsRemoved: retention has removed events after the position.
        PositionAhead: the position is after the end of the log.
        InvalidFilter: the topics, the conditions or the key are invalid.
        ValueError: another argument is invalid.
    """
    wanted = as_filter(topics, where, key)
    after, limit, alias = as_position(after), _limit(limit), as_alias(database)
    with needing_tables(alias), connections[alias].wrap_database_errors:
        django = connections[alias]
        django.ensure_connection()
        if not django.in_atomic_block and django.get_autocommit():
            catch_up(django.connection)
        return _read(django, wanted, after, limit)


async def aread(
    *,
    after: int = 0,
    topics: str | Iterable[str] | None = None,
    where: Mapping[str, Any] | None = None,
    key: str | None = None,
    limit: int = LIMIT,
    database: str | None = None,
) -> list[RecordedEvent]:
    """Return events in async code, as `read` does."""
    return await sync_to_async(read)(
        after=after, topics=topics, where=where, key=key, limit=limit, database=database
    )


def _read(connection: Cursors, wanted: Filter, after: int, limit: int) -> list[RecordedEvent]:
    events: list[RecordedEvent] = []
    # The events of a key are far apart, and an index may find them.
    reach = log.REACH_OF_A_KEY if wanted.key else log.REACH
    while True:
        room = limit - len(events)
        stretch = read_stretch(connection, wanted, after=after, limit=room, reach=reach)
        events += map(RecordedEvent.of, stretch.events)
        after = stretch.upto
        if len(events) >= limit or after >= stretch.head:
            return events


def read_stretch(
    connection: Cursors | Connection,
    wanted: Filter,
    *,
    after: int,
    limit: int,
    reach: int = log.REACH,
) -> LogStretch:
    """Read the next events that a filter matches, within a bounded stretch of the log.

    Raises:
        EventsRemoved: retention has removed events after the position.
        PositionAhead: the position is after the end of the log.
    """
    stretch = log.read(
        connection,
        after=after,
        limit=limit,
        condition=wanted.sql,
        parameters=wanted.parameters,
        reach=reach,
    )
    check_bounds(after, stretch)
    return stretch


def check_condition(alias: str, condition: SQLCondition) -> None:
    """Check the predicate of a reader, unless this process has checked it before.

    Raises:
        InvalidFilter: the predicate is invalid, or the database cannot evaluate it.
    """
    django = connections[alias]
    try:
        with needing_tables(alias), django.wrap_database_errors:
            django.ensure_connection()
            predicates.check_once(django.connection, condition.predicate)
    except InvalidSubscription as error:
        raise InvalidFilter(str(error)) from error


class ConditionFailed(Exception):
    """The condition in SQL fails with the next event.

    Attributes:
        event: the event.
        error: the error of the condition.
    """

    def __init__(self, event: StoredEvent, error: Exception) -> None:
        super().__init__(event.position)
        self.event = event
        self.error = error


def in_condition(connection: Connection, wanted: Filter, stretch: LogStretch) -> LogStretch:
    """Return a stretch with only the events that meet the filter's condition in SQL.

    If the condition fails with an event, the stretch ends before this event.

    Raises:
        ConditionFailed: the condition fails with the first event.
        InvalidFilter: the condition is invalid, or the database cannot evaluate it.
    """
    condition = wanted.condition
    if condition is None or not stretch.events:
        return stretch

    def some(events: Sequence[StoredEvent]) -> list[StoredEvent]:
        return meeting(connection, condition, events)

    def stop(event: StoredEvent, error: Exception) -> None:
        raise ConditionFailed(event, error)

    events: list[StoredEvent] = []
    try:
        for each in by_halves(some, stretch.events, stop, is_own=is_own):
            events += each
    except InvalidSubscription as error:
        raise InvalidFilter(str(error)) from error
    except psycopg.Error as error:
        if not is_own(error):
            raise
        # It fails without any event, too.
        text = f"predicate={shown(condition.predicate)}: {in_words(error)}"
        raise InvalidFilter(text) from error
    except ConditionFailed as failed:
        if failed.event.position == stretch.events[0].position:
            raise
        return stretch._replace(events=events, upto=failed.event.position - 1)
    return stretch._replace(events=events)


def meeting(
    connection: Connection, condition: SQLCondition, events: Sequence[EventT]
) -> list[EventT]:
    """Return the events that meet a condition in SQL; `predicates.met` tells what it raises."""
    met = predicates.met(connection, condition, [each.position for each in events])
    return [each for each in events if each.position in met]


def is_own(error: BaseException) -> bool:
    """Return whether an event or a condition may be at fault for an error; a time-out counts."""
    return may_be_own(error) or isinstance(error, psycopg.errors.QueryCanceled)


def read_or_name(connection: Connection, wanted: Filter, *, after: int, limit: int) -> LogStretch:
    """Read as `read_stretch` does, with the condition in SQL, up to an unreadable event.

    Raises:
        UnreadableEvent: the next event is unreadable, or the condition in SQL fails with it.
        InvalidFilter: the condition in SQL is invalid, or the database cannot evaluate it.
    """
    stretch = _read_or_name(connection, wanted, after=after, limit=limit)
    try:
        return in_condition(connection, wanted, stretch)
    except ConditionFailed as failed:
        position = failed.event.position
        raise UnreadableEvent(
            f"The condition in SQL fails with the event at position {position}: "
            f"{in_words(failed.error)}. Read from after={position} to continue without the event."
        ) from failed.error


def _read_or_name(connection: Connection, wanted: Filter, *, after: int, limit: int) -> LogStretch:
    try:
        return read_stretch(connection, wanted, after=after, limit=limit)
    except psycopg.Error as error:
        position = first_unreadable(
            connection, error, after=after, condition=wanted.sql, parameters=wanted.parameters
        )
        if position == after + 1:
            raise UnreadableEvent(
                f"The event at position {position} can't be read from the log: {in_words(error)}. "
                f"Read from after={position} to continue without it."
            ) from error
    return read_stretch(connection, wanted, after=after, limit=limit, reach=position - 1 - after)


class _Found(Exception):
    """The position of the first unreadable event."""


def first_unreadable(
    connection: Connection,
    error: Exception,
    *,
    after: int,
    condition: str,
    parameters: Mapping[str, Any],
) -> int:
    """Return the position of the first unreadable event behind `after`.

    Args:
        error: the error that `log.read` raised with the other arguments.

    Raises:
        psycopg.Error: `error`, if no event is at fault.
    """

    def some(positions: Sequence[int]) -> None:
        log.read(
            connection,
            after=positions[0] - 1 if positions else after,
            limit=max(len(positions), 1),
            condition=condition,
            parameters=parameters,
            reach=len(positions),
        )

    def stop(position: int, error: Exception) -> None:
        raise _Found(position)

    head = min(log.bounds(connection).head, after + log.REACH)
    try:
        list(by_halves(some, range(after + 1, head + 1), stop, error=error))
    except _Found as found:
        return int(found.args[0])
    raise error


def check_bounds(after: int, bounds: Bounds | LogStretch) -> None:
    """Check that a position is in the log.

    Raises:
        EventsRemoved: retention has removed events after the position.
        PositionAhead: the position is after the end of the log.
    """
    if after < bounds.floor:
        raise EventsRemoved(after, bounds.floor)
    if after > bounds.head:
        raise PositionAhead(after, bounds.head)


def as_position(value: Any) -> int:
    """Return `value` if it is a valid position.

    Raises:
        ValueError: it is invalid.
    """
    return checked_option(position_in_log, "after", value, caught=(ValueError,))


def position_in_log(value: Any) -> int:
    """Return `value` if it may be a position; 0 is before the first event.

    Raises:
        TypeError, ValueError: it is invalid.
    """
    return as_count(value, least=0, most=MOST)


def as_alias(value: Any) -> str:
    """Return `value` if it is the alias of a database; for None, the alias of `PGQUEUE`.

    Raises:
        ValueError: it is invalid.
    """
    try:
        checked_message({"database": value})
    except InvalidMessage as error:
        raise ValueError(str(error)) from error
    return value or settings().database


def _limit(value: Any) -> int:
    return checked_option(as_count, "limit", value, caught=(ValueError,))
