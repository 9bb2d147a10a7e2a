"""Claim one message at a time on the connection of a test."""

from __future__ import annotations

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
"""No heartbeat renews it."""
PAGE = 10
JSON = ("payload", "metadata", "options", "progress")
LIMITS = ("idle_in_transaction_session_timeout", "lock_timeout")


def claim_next(alias: str, worker_id: UUID) -> Claim | None:
    """Claim the ready message with the highest priority, of these the earliest.

    Messages that a worker would not claim now are passed over: their channel is paused, a policy or
    the order of their key keeps them back, or their time is over.
    """
    with _lend(alias) as connection:
        _tidy(connection)
        tried = set()
        for message in _ready(alias):
            # A claim looks at the whole governed channel, or at all that follows in a free lane.
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


def _ready(alias: str) -> Iterator[Message]:
    """Yield ready messages in the order in which they are to run; nearly always the first is it."""
    ready = Message.objects.using(alias).filter(state=State.READY).order_by("rank", "run_at", "id")
    ready = ready.only("channel", "key", "rank", "run_at", "governed")
    for start in count(0, PAGE):
        page = list(ready[start : start + PAGE])
        yield from page
        if len(page) < PAGE:
            return


def _tidy(connection: Connection) -> None:
    """Do what duties and the router do before a worker claims."""
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
    """Claim from the first lane of the channel that has room."""
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
def _lend(alias: str) -> Iterator[Connection]:
    """Lend Django's connection; what the verbs set for a transaction is not left in the test's."""
    is_inside = connections[alias].in_atomic_block
    with borrow(alias) as connection:
        if not is_inside:
            yield connection
            return
        # Without a statement before them, psycopg would take the verbs' savepoints for the whole
        # transaction, and commit.
        [before] = connection.execute(
            "SELECT array[" + ", ".join(f"current_setting('{each}')" for each in LIMITS) + "]"
        ).fetchone() or [[]]
        yield connection
        for name, value in zip(LIMITS, before, strict=True):
            connection.execute("SELECT set_config(%s, %s, true)", [name, value])


def _with_bytes(claim: Claim) -> Claim:
    """Return the claim as a worker's connection would: Django's returns JSON as text."""
    changed: dict[str, Any] = {
        name: value.encode() for name in JSON if isinstance(value := getattr(claim, name), str)
    }
    return claim._replace(**changed)
