"""Create subscriptions at run time, and operate them by their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, TypeVar

from django.db import IntegrityError, connections, transaction
from django.utils import timezone

from pgqueue.conf import settings
from pgqueue.database.migration_check import needing_tables
from pgqueue.engine import dispatch as engine
from pgqueue.engine import predicates
from pgqueue.events import groups, subscribing
from pgqueue.events.consumers import Start
from pgqueue.events.reading import as_alias
from pgqueue.exceptions import InvalidGroup, InvalidSubscription
from pgqueue.models import Subscription
from pgqueue.options.filters import as_filter
from pgqueue.tasks import Task, scheduling
from pgqueue.values.error_words import shown
from pgqueue.values.names import as_channel

S = TypeVar("S", bound=Subscription)


def create(
    name: str,
    task: Task[Any, Any] | str = "",
    *,
    topics: str | Iterable[str] | None = None,
    where: Mapping[str, Any] | None = None,
    predicate: str = "",
    params: Mapping[str, Any] | None = None,
    channel: str | None = None,
    key: str = "",
    ordered: bool = False,
    batch: int | None = None,
    split_by: str = "",
    start: Start = "now",
    expires_after: float | timedelta | None = None,
    database: str | None = None,
) -> Subscription:
    """Create a subscription at run time, in the caller's transaction.

    Args:
        name: the name, which no other subscription has.
        task: the task that runs with the events, or its name. It takes an event, or a list of
            events with `batch`. "": raw messages on the channel, whose payload is the event.
        channel: the channel of the messages; None: the task's channel. Raw messages need a channel.
        expires_after: seconds or a timedelta after which it ends, unless `renew()` is called.
        topics, where, predicate, params, key, ordered, batch, split_by, start: as for
            `subscribe()`.

    Raises:
        InvalidSubscription, InvalidFilter: an option is invalid, or the name is taken.
        UnknownTask: no task has this name here.
    """
    alias = checked_alias(database)
    columns, begins = described(
        name=name,
        task=task,
        topics=topics,
        where=where,
        predicate=predicate,
        params=params,
        channel=channel,
        key=key,
        ordered=ordered,
        batch=batch,
        split_by=split_by,
        start=start,
        expires_after=expires_after,
    )
    return stored(Subscription(**columns), begins, alias)


def checked_alias(database: str | None) -> str:
    """Return the alias of a subscription's database; for None, the alias of `PGQUEUE`.

    Raises:
        InvalidSubscription: the alias is unknown.
    """
    try:
        return as_alias(database)
    except ValueError as error:
        raise InvalidSubscription(str(error)) from error


def described(
    *,
    task: Task[Any, Any] | str,
    topics: str | Iterable[str] | None,
    where: Mapping[str, Any] | None,
    channel: str | None,
    ordered: bool,
    **options: Any,
) -> tuple[dict[str, Any], Start]:
    """Return a subscription's checked columns, and its start.

    Raises:
        InvalidSubscription, InvalidFilter: an option is invalid.
        UnknownTask: no task has this name here.
    """
    own = scheduling.known(task) if isinstance(task, str) and task else task or None
    wanted = as_filter(topics, where)
    given = subscribing.checked_options(**options)
    if own is not None and not isinstance(own, Task):
        raise InvalidSubscription(f"task={shown(task)}: it must be a task, or the name of one.")
    if own is not None:
        subscribing.check_may_be_open(own)
    if not isinstance(ordered, bool):
        raise InvalidSubscription(f"ordered={shown(ordered)}: it must be True or False.")
    if own is None and channel is None:
        raise InvalidSubscription("channel=None: raw messages need one.")
    try:
        channel = as_channel(own.queue_name if own and channel is None else channel)
    except (TypeError, ValueError) as error:
        raise InvalidSubscription(f"channel={shown(channel)}: {error}") from error
    begins = given.pop("start")
    columns = {
        "task": own.name if own else "",
        "topics": list(wanted.topics),
        "where": dict(wanted.where),
        "channel": channel,
        "ordered": ordered or bool(own and own.ordered),
        "max_attempts": (own and own.max_attempts) or settings().max_attempts,
        "priority": own.priority if own else 0,
        "metadata": dict(own.metadata) if own else {},
        **given,
    }
    return columns, begins


def stored(row: S, begins: Start, alias: str) -> S:
    """Store a new subscription, in the caller's transaction, and return it.

    Raises:
        InvalidSubscription: its name is taken, or the log does not have its start position.
    """
    try:
        with needing_tables(alias), transaction.atomic(using=alias):
            row.position = groups.resolve(connections[alias], begins)
            row.save(using=alias, force_insert=True)
    except InvalidGroup as error:
        raise InvalidSubscription(f"start={shown(begins)}: {error}") from error
    except IntegrityError as error:
        raise InvalidSubscription(f"There is a subscription {shown(row.name)} already.") from error
    return row


def checked_predicate(predicate: str, *, database: str | None = None) -> str:
    """Return a predicate if it is valid; "": no predicate.

    Raises:
        InvalidSubscription: the predicate is invalid, or the database cannot evaluate predicates.
    """
    alias = database or settings().database
    if predicate:
        with needing_tables(alias):
            connections[alias].ensure_connection()
            predicates.check(connections[alias].connection, predicate)
    return predicate


def renew(name: str, *, database: str | None = None) -> bool:
    """Restart the `expires_after` of a subscription; return whether the subscription exists."""
    alias = database or settings().database
    with needing_tables(alias), transaction.atomic(using=alias):
        row = Subscription.objects.using(alias).select_for_update(no_key=True).filter(pk=name)
        found = row.first()
        if found is None:
            return False
        if found.expires_after:
            row.update(expires_at=timezone.now() + found.expires_after)
        return True


def delete(name: str, *, database: str | None = None) -> bool:
    """Delete a subscription; return whether it existed. Its messages stay."""
    alias = database or settings().database
    with needing_tables(alias):
        count, _ = Subscription.objects.using(alias).filter(pk=name).delete()
    return bool(count)


def synchronize(*, database: str | None = None) -> list[str]:
    """Store the subscriptions that the code declares, as workers do; return their names.

    Raises:
        InvalidSubscription: a predicate is invalid.
        InvalidGroup: the log does not have the start position of a new subscription.
    """
    alias = database or settings().database
    declared = subscribing.declared(alias)
    with needing_tables(alias):
        django = connections[alias]
        django.ensure_connection()
        names = [each.name for each in declared]
        for each in declared:
            if each.predicate:
                predicates.check(django.connection, each.predicate)
        new = set(names) - engine.known(django.connection, names)
        starts = {name: subscribing.start_of(name, alias) for name in new}
        with django.wrap_database_errors:
            engine.declare(
                django.connection, [each._replace(start=starts.get(each.name)) for each in declared]
            )
    return names
