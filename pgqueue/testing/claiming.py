"""Claim one message at a time on the connection of a test."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from typing import Any
from uuid import UUID

from django.db import connections

from pgqueue.database.connections import borrow
from pgqueue.engine import claim as free
from pgqueue.engine import claim_governed as governed
from pgqueue.engine import expire, promote, route
from pgqueue.engine.claim import Known
from pgqueue.engine.values import Claim, Connection
from pgqueue.models import Message
from pgqueue.states import State

LEASE = timedelta(hours=1)
"""Long, because no heartbeat renews the lease."""
PAGE = 10
JSON = ("payload", "metadata", "options", "progress")
LIMITS = ("idle_in_transaction_session_timeout", "lock_timeout")


def claim_next(
    alias: str,
    worker_id: UUID,
    *,
    options: str | None = None,
    **columns: Any,
) -> Claim | None:
    """Claim the ready message with the highest priority, and the earliest due time among them.

    It passes over messages that a worker would not claim now. Their channel is paused, a policy or
    the order of their key keeps them back, or they have expired.

    Args:
        options, columns: of the messages to look at; without columns, all of them. In a channel
            with policies another message may be claimed instead.
    """
    with lend(alias) as connection:
        _tidy(connection)
        tried = set()
        for message in _ready(alias, options, columns):
            # One claim covers a whole governed channel, or all later messages of a free lane.
            place = (message.channel, None if message.governed else message.key)
            if place in tried:
                continue
            tried.add(place)
            if message.governed:
                claims = _claim_governed(connection, message.channel, worker_id)
            else:
                claims = _claim_free(connection, message, worker_id)
            if claims:
                return _with_bytes(claims[0])
    return None


def _ready(alias: str, options: str | None, columns: dict[str, Any]) -> Iterator[Message]:
    """Yield ready messages in the order of their runs. Nearly always the first is claimed."""
    ready = Message.objects.using(alias).filter(state=State.READY).order_by("rank", "run_at", "id")
    if columns:
        same = {"options": json.loads(options)} if options else {"options__isnull": True}
        ready = ready.filter(**columns, **same)
    ready = ready.only("channel", "key", "rank", "run_at", "governed")
    for start in count(0, PAGE):
        page = list(ready[start : start + PAGE])
        yield from page
        if len(page) < PAGE:
            return


def _tidy(connection: Connection) -> None:
    """Do the work of the duties and of the router that precedes a claim."""
    promote.promote(connection)
    expire.expire(connection)
    expire.forget(connection)
    look = route.look(connection, after=0)
    if look.has_policies:
        route.adopt(connection)
    if look.has_policies or look.has_rung or look.wake_in is not None:
        route.route(connection, after=0)


def _claim_free(connection: Connection, message: Message, worker_id: UUID) -> list[Claim]:
    before = Known(
        message.channel, message.key, message.rank, message.run_at, message.pk - 1, quota=1
    )
    claimed = free.claim(
        connection,
        known=[before],
        searched=[],
        limit=1,
        worker_id=worker_id,
        lease=LEASE,
        takes_raw=False,
    )
    return claimed.claims


def _claim_governed(connection: Connection, channel: str, worker_id: UUID) -> list[Claim]:
    """Claim from the channel's first lane with a free place."""
    after, until = governed.EVERY_TURN, None
    while True:
        served = governed.claim(
            connection,
            channel,
            after,
            1,
            until=until,
            worker_id=worker_id,
            lease=LEASE,
            takes_raw=False,
        )
        if served.claims or served.turn_at is None:
            return served.claims
        after, until = served.turn_at, until or served.looked_at


@contextmanager
def lend(alias: str) -> Iterator[Connection]:
    """Lend Django's connection, and restore the transaction's settings afterwards."""
    is_inside = connections[alias].in_atomic_block
    with borrow(alias) as connection:
        if not is_inside:
            yield connection
            return
        # Without a statement before the verbs, psycopg would take their first savepoint for the
        # whole transaction, and commit it.
        [before] = connection.execute(
            "SELECT array[" + ", ".join(f"current_setting('{each}')" for each in LIMITS) + "]"
        ).fetchone() or [[]]
        yield connection
        for name, value in zip(LIMITS, before, strict=True):
            connection.execute("SELECT set_config(%s, %s, true)", [name, value])


def _with_bytes(claim: Claim) -> Claim:
    """Return a claim with JSON as bytes, as in a worker. Django's connection returns text."""
    changed: dict[str, Any] = {
        name: value.encode() for name in JSON if isinstance(value := getattr(claim, name), str)
    }
    return claim._replace(**changed)
