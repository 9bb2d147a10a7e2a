"""Create, list, move and delete groups by their names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from django.db import connections, transaction

from pgqueue.database import guard
from pgqueue.database.migration_check import needing_tables
from pgqueue.engine import groups as engine
from pgqueue.engine import log
from pgqueue.engine.groups import GroupState
from pgqueue.engine.sequence import catch_up_outside
from pgqueue.events.consumers import as_partitions, checked_name, checked_new_name, find_consumer
from pgqueue.events.projections import rebuild_name
from pgqueue.events.reading import as_alias
from pgqueue.exceptions import InvalidGroup
from pgqueue.options.starts import Start, as_start
from pgqueue.values.error_words import shown


def make(
    name: str, *, partitions: int = 1, start: Start = "now", database: str | None = None
) -> int:
    """Create a group unless one of this name exists; return the number of its partitions.

    Args:
        partitions, start: as for `consumer()`; they do not change an existing group.

    Raises:
        InvalidGroup: an argument is invalid.
    """
    try:
        checked_new_name(name), as_partitions(partitions), as_start(start)
    except (TypeError, ValueError) as error:
        raise InvalidGroup(f"The group {shown(name)}: {error}") from error
    with _connected(database) as django:
        found = engine.partitions_of(django, name)
        if found is not None:
            return found
        position = resolve(django, start)
        with transaction.atomic(using=django.alias):
            return engine.make_group(django, name, partitions=partitions, position=position)


def states(*, database: str | None = None) -> list[GroupState]:
    """Return all groups with their positions and lags, sorted by name."""
    with _connected(database) as django:
        return engine.states(django)


def reset(
    name: str, to: Start, *, partition: int | None = None, database: str | None = None
) -> int:
    """Move a group forwards or back; return the position from which its readers continue.

    Args:
        to: "now", the "beginning", a position, or a time.
        partition: move only this one; None: all partitions.

    Raises:
        InvalidGroup: the group, the partition or the position does not exist.
    """
    try:
        as_start(to)
    except (TypeError, ValueError) as error:
        raise InvalidGroup(f"to={shown(to)}: {error}") from error
    _check_name(name)
    with _connected(database) as django:
        position = resolve(django, to)
        if not engine.reset(django, name, position, partition=partition):
            of = "" if partition is None else f" with a partition {shown(partition)}"
            raise InvalidGroup(f"There is no group {shown(name)}{of}.")
        return position


def rebuild(name: str, *, database: str | None = None) -> int:
    """Begin to rebuild a group from the beginning of the log, beside its live readers.

    The processes that read for the group do it. `delete("NAME:rebuild")` ends it early.

    Returns:
        The position after which the rebuild begins.

    Raises:
        InvalidGroup: the group does not exist, its handler is not declared here or has no
            `rebuild`, or a rebuild of the group has begun already.
    """
    _check_name(name)
    consumer = find_consumer(name)
    if consumer is None or consumer.rebuild is None:
        lack = "it is not declared here" if consumer is None else "it has no rebuild=…"
        raise InvalidGroup(f"The group {shown(name)} can't be rebuilt: {lack}.")
    with _connected(database or consumer.database) as django:
        partitions = _check(django, name)
        position, rebuilt = resolve(django, "beginning"), rebuild_name(name)
        with transaction.atomic(using=django.alias):
            if not engine.begin_rebuild(django, rebuilt, partitions=partitions, position=position):
                raise InvalidGroup(
                    f"The group {shown(name)} is being rebuilt: delete {rebuilt!r} to begin anew."
                )
            guard.call(consumer.rebuild.begin)
        return position


def resume(name: str, *, database: str | None = None) -> int:
    """Retry at once in partitions that an event has stopped or delays; return their number.

    Raises:
        InvalidGroup: the group does not exist.
    """
    _check_name(name)
    with _connected(database) as django:
        _check(django, name)
        return engine.resume(django, name)


def delete(name: str, *, database: str | None = None) -> None:
    """Delete a group and its rebuild. A reader that still runs creates it again, at its start.

    Raises:
        InvalidGroup: the group does not exist.
    """
    _check_name(name)
    with _connected(database) as django:
        if not engine.delete(django, name, rebuild_name(name)):
            raise InvalidGroup(f"There is no group {shown(name)}.")


def resolve(connection: Any, start: Start) -> int:
    """Return the position for a start.

    Args:
        connection: a connection of Django's.

    Raises:
        InvalidGroup: the log has no such position.
    """
    catch_up_outside(connection)
    if isinstance(start, datetime):
        return log.position_at(connection, start)
    first, head = log.existing(connection)
    if isinstance(start, str):
        return head if start == "now" else first
    if not first <= start <= head:
        raise InvalidGroup(f"The log is from {first} to {head}: it has no position {start}.")
    return start


def _check_name(name: Any) -> None:
    try:
        checked_name(name)
    except (TypeError, ValueError) as error:
        raise InvalidGroup(f"There is no group {shown(name)}: {error}") from error


def _check(connection: Any, name: str) -> int:
    """Return the number of a group's partitions.

    Raises:
        InvalidGroup: the group does not exist.
    """
    partitions = engine.partitions_of(connection, name)
    if partitions is None:
        raise InvalidGroup(f"There is no group {shown(name)}.")
    return partitions


@contextmanager
def _connected(database: str | None) -> Iterator[Any]:
    try:
        alias = as_alias(database)
    except ValueError as error:
        raise InvalidGroup(str(error)) from error
    with needing_tables(alias), connections[alias].wrap_database_errors:
        yield connections[alias]
