"""Make subscriptions at run time, and operate them by their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from django.db import connections, transaction
from django.utils import timezone

from pgqueue.conf import settings
from pgqueue.engine import dispatch as engine
from pgqueue.events import groups, subscribing
from pgqueue.events.consumers import Start, as_start
from pgqueue.events.subscribing import checked_name
from pgqueue.exceptions import InvalidSubscription
from pgqueue.filters import as_filter, as_place
from pgqueue.models import Subscription
from pgqueue.names import KEY_LIMIT, as_channel
from pgqueue.quantities import as_count, as_duration
from pgqueue.spelling import shown
from pgqueue.tables import needing_tables
from pgqueue.tasks import Task, scheduling


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
    """Make a subscription, in the caller's transaction: for one that code can't know beforehand.

    Args:
        name: no other one has it.
        task: what is run with the events: a task that takes an event (or a list of them, with
            `batch`), or its name. "": raw messages on the channel, whose payload is the event.
        channel: of the messages; None: the task's.
        expires_after: seconds or a timedelta after which it ends, unless `renew()` is called.
        topics, where, predicate, params, key, ordered, batch, split_by, start: as for
            `subscribe()`.

    Raises:
        InvalidSubscription, InvalidFilter: an option can't be, or the name is taken.
        UnknownTask: no task has this name here.
    """
    alias = database or settings().database
    own = scheduling.known(task) if isinstance(task, str) and task else task or None
    wanted = as_filter(topics, where)
    try:
        checked_name(name), as_place(key, KEY_LIMIT), as_place(split_by, KEY_LIMIT)
        as_start(start)
        channel = as_channel(channel or (own.queue_name if isinstance(own, Task) else None))
        given = subscribing.checked_params(params or {})
        lasting = None if expires_after is None else as_duration(expires_after)
        count = None if batch is None else as_count(batch, most=subscribing.MOST_EVENTS)
    except (TypeError, ValueError) as error:
        raise InvalidSubscription(f"The subscription {shown(name)}: {error}") from error
    row = Subscription(
        name=name,
        task=own.name if isinstance(own, Task) else "",
        topics=list(wanted.topics),
        where=dict(wanted.where),
        predicate=predicate,
        params=given,
        channel=channel,
        key=key,
        ordered=ordered,
        batch=count,
        split_by=split_by,
        expires_after=lasting,
    )
    if isinstance(own, Task):
        row.priority, row.metadata = own.priority, dict(own.metadata)
        row.max_attempts = own.max_attempts or settings().max_attempts
    with needing_tables(alias), transaction.atomic(using=alias):
        if Subscription.objects.using(alias).filter(pk=name).exists():
            raise InvalidSubscription(f"There is a subscription {shown(name)} already.")
        row.position = groups.resolve(connections[alias], start)
        row.save(using=alias, force_insert=True)
    return row


def renew(name: str, *, database: str | None = None) -> bool:
    """Have a subscription expire only `expires_after` from now; return whether it exists."""
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
    """Delete a subscription; return whether there was one. Its messages are left."""
    alias = database or settings().database
    with needing_tables(alias):
        count, _ = Subscription.objects.using(alias).filter(pk=name).delete()
    return bool(count)


def synchronize(*, database: str | None = None) -> list[str]:
    """Store the subscriptions that the code declares, as workers do; return their names.

    Raises:
        InvalidSubscription: two have one name.
    """
    alias = database or settings().database
    declared = subscribing.declared(alias)
    with needing_tables(alias):
        django = connections[alias]
        django.ensure_connection()
        names = [each.name for each in declared]
        new = set(names) - engine.known(django.connection, names)
        engine.declare(
            django.connection,
            [
                each._replace(start=subscribing.start_of(each.name, alias))
                if each.name in new
                else each
                for each in declared
            ],
        )
    return names
