"""Create subscriptions at run time, and operate them by their names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar, Unpack

from django.db import IntegrityError, connections, transaction

from pgqueue.conf import settings
from pgqueue.database.migration_check import needing_tables
from pgqueue.engine import dispatch as engine
from pgqueue.engine import predicates
from pgqueue.events import groups, subscribing
from pgqueue.events.reading import as_alias
from pgqueue.events.subscribing import check_may_be_open, checked_options
from pgqueue.exceptions import InvalidGroup, InvalidSubscription
from pgqueue.models import Subscription
from pgqueue.models.fields import StatementTimestamp, exactly
from pgqueue.options.records import documents
from pgqueue.options.starts import Start
from pgqueue.options.subscription_options import (
    COLUMNS,
    OPTIONS,
    SubscriptionOptions,
    checked_name,
)
from pgqueue.tasks import Task, scheduling
from pgqueue.values.error_words import checked_option, shown

S = TypeVar("S", bound=Subscription)


@documents(OPTIONS)
def create(
    name: str,
    task: Task[Any, Any] | str = "",
    *,
    database: str | None = None,
    **options: Unpack[SubscriptionOptions],
) -> Subscription:
    """Create a subscription at run time, in the caller's transaction.

    With `start="now"`, it gets no event that was published before. In an open transaction this
    covers only events that already have a position: it gets events that still wait for one.

    Args:
        name: The name, which no other subscription has.
        task: The task that runs with the events, or its name. It takes an event, or a list of
            events with `batch`. An empty name stores raw messages, whose payload is the event.
        {options}
        database: The alias of the queue's database, if not the one of `PGQUEUE`.

    Raises:
        InvalidSubscription, InvalidFilter: an option is invalid, or the name is taken.
        UnknownTask: no task has this name here.
    """
    alias = checked_alias(database)
    columns, begins = described(name, task, checked_options(OPTIONS, options))
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
    name: str, task: Task[Any, Any] | str, options: Mapping[str, Any]
) -> tuple[dict[str, Any], Start]:
    """Return a subscription's columns, and its start.

    Args:
        options: each option of the record, checked.

    Raises:
        InvalidSubscription: the name or the task is invalid, or raw messages have no channel.
        UnknownTask: no task has this name here.
    """
    columns = {each: options[each] for each in COLUMNS if each in options}
    columns["name"] = checked_option(checked_name, "name", name, InvalidSubscription)
    return {**columns, **_of_messages(_task(task), options)}, options["start"]


def _task(given: Task[Any, Any] | str) -> Task[Any, Any] | None:
    """Return the task of a subscription; None: it makes raw messages."""
    own = scheduling.known(given) if isinstance(given, str) and given else given or None
    if own is None:
        return None
    if not isinstance(own, Task):
        raise InvalidSubscription(f"task={shown(given)}: it must be a task, or the name of one.")
    check_may_be_open(own)
    return own


def _of_messages(own: Task[Any, Any] | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns that messages get: from the task, except where an option says more."""
    if own is None:
        if options["channel"] is None:
            raise InvalidSubscription("channel=None: raw messages need one.")
        raw = {"task": "", "priority": 0, "weight": 1, "metadata": {}}
        return {**raw, "max_attempts": settings().max_attempts}
    return {
        "task": own.name,
        "channel": options["channel"] or own.queue_name,
        "ordered": options["ordered"] or own.ordered,
        "max_attempts": own.max_attempts or settings().max_attempts,
        "priority": own.priority,
        "weight": own.weight,
        "metadata": json.loads(own.metadata_json),
    }


def stored(row: S, begins: Start, alias: str) -> S:
    """Store a new subscription, in the caller's transaction, and return it.

    Raises:
        InvalidSubscription: its name is taken, or the log does not have its start position.
    """
    django = connections[alias]
    try:
        with needing_tables(alias), django.wrap_database_errors:
            # Outside of a transaction, this gives positions to the events published before.
            row.position = groups.resolve(django, begins)
            with transaction.atomic(using=alias):
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
            row.update(expires_at=StatementTimestamp() + exactly(found.expires_after))
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
