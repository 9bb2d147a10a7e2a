"""Make messages of events, for subscriptions.

The dispatch reads the log as a group of the name "". It moves its cursor in the transaction that
stores the messages. So each event is matched exactly once with each subscription. A subscription
that was paused, or is new and starts further back, has its own position until it has caught up.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import timedelta
from typing import Any, NamedTuple

from pgqueue.database.sql_files import load
from pgqueue.database.transactions import wait_at_most
from pgqueue.engine import event_waits
from pgqueue.engine.matching import Matching, MatchStretch
from pgqueue.engine.values import Connection, Cursors

SQL = load(__name__)

EVENTS = 2000
"""Events that one step matches, at most."""
BYTES = 32 * 1024 * 1024
"""Bytes of payloads that one step matches, or slightly more."""
DECLARE_PATIENCE = "500ms"
"""The lock_timeout of a declaration: an operator may have locked a row."""


class DeclaredSubscription(NamedTuple):
    """A subscription, as code declares it; JSON columns are texts, arrays are lists.

    Attributes:
        start: the position after which it begins, if it is new; None: the end of the log.
        definition: a digest of the other columns.
    """

    name: str
    task: str
    topics: list[str]
    where: str
    channel: str
    key: str
    ordered: bool
    batch: int | None
    split_by: str
    priority: int
    weight: int
    max_attempts: int
    metadata: str
    expires_after: timedelta | None
    exact: list[str]
    regex: str
    eq_path: str
    eq_value: str | None
    path: str
    vars: str
    key_path: str
    split_path: str
    predicate: str
    params: str
    definition: str
    start: int | None = None


class DispatchPosition(NamedTuple):
    """The position of the dispatch, and the log's last position."""

    cursor: int
    head: int


class DispatchStep(NamedTuple):
    """The result of a step: the events read, the messages stored, and whether no event is left."""

    events: int
    messages: int
    is_last: bool


def has_work(connection: Connection) -> bool | None:
    """Return whether events wait for subscriptions; None: there are no subscriptions."""
    row = connection.execute(SQL["has_work"]).fetchone()
    if not row or not row[0]:
        return None
    return bool(row[1])


def place(connection: Cursors) -> DispatchPosition:
    """Return the position of the dispatch."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["place"])
        return DispatchPosition(*cursor.fetchone())


def step(connection: Connection, *, limit: int = EVENTS) -> DispatchStep:
    """Match the next events with the subscriptions that follow; help another one to catch up.

    Args:
        connection: in a transaction, with the isolation READ COMMITTED.
    """
    connection.execute(SQL["forget_expired"])
    row = connection.execute(SQL["lock"]).fetchone()
    if row is None:
        connection.execute(SQL["begin"])
        row = connection.execute(SQL["lock"]).fetchone()
    cursor: int = row[0] if row else 0
    connection.execute(SQL["part"], {"cursor": cursor})
    connection.execute(SQL["join"], {"cursor": cursor})
    if skipped := connection.execute(SQL["skip"]).fetchone():
        cursor = skipped[0]
        connection.execute(SQL["join"], {"cursor": cursor})
    gone_on = _go_on(connection, cursor, limit)
    # The lagging subscription may be a million events behind: the others do not wait for it.
    caught_up = _catch_up(connection, cursor + gone_on.events, limit)
    return DispatchStep(
        gone_on.events + caught_up.events,
        gone_on.messages + caught_up.messages,
        is_last=gone_on.is_last and caught_up.is_last,
    )


def _go_on(connection: Connection, cursor: int, limit: int) -> DispatchStep:
    """Match the next events with all subscriptions that follow the dispatch."""
    stretch = _stretch(connection, None, cursor, None, limit)
    if stretch.upto <= cursor:
        return DispatchStep(0, 0, is_last=True)
    stored = Matching(connection, None, stretch).run()
    event_waits.match(connection, range(stretch.after + 1, stretch.upto + 1))
    connection.execute(SQL["move"], {"upto": stretch.upto})
    return DispatchStep(stretch.upto - cursor, stored, is_last=stretch.upto >= stretch.head)


def _catch_up(connection: Connection, cursor: int, limit: int) -> DispatchStep:
    """Match the next events with the subscription that is furthest behind."""
    row = connection.execute(SQL["lagging"], {"cursor": cursor}).fetchone()
    if row is None:
        return DispatchStep(0, 0, is_last=True)
    name, position = row
    stretch = _stretch(connection, name, position, cursor, limit)
    stored = Matching(connection, [name], stretch).run()
    given = {"name": name, "upto": stretch.upto, "cursor": cursor}
    connection.execute(SQL["move_one"], given)
    return DispatchStep(stretch.upto - position, stored, is_last=stretch.upto <= position)


def _stretch(
    connection: Connection, name: str | None, after: int, most: int | None, limit: int
) -> MatchStretch:
    """Return the events that a step matches; note a gap if events in front of them were removed."""
    given = {"after": after, "most": most, "limit": limit, "bytes": BYTES}
    upto, head, floor = connection.execute(SQL["upto"], given).fetchone() or (after, after, 0)
    if after < floor:
        error = f"Retention removed unread events: after position {after}, up to {floor}."
        connection.execute(SQL["note_gap"], {"name": name, "error": error})
    return MatchStretch(max(after, floor), max(upto, floor), head)


def declare(connection: Connection, declared: Collection[DeclaredSubscription]) -> list[str]:
    """Store the declared subscriptions; delete the ones that no code has declared for 30 days.

    Returns:
        The names of subscriptions that were made without a declaration: their rows stay unchanged.

    Raises:
        psycopg.errors.LockNotAvailable: another session has locked a row for too long.
    """
    columns: Any = (
        zip(*declared, strict=True) if declared else [[] for _ in DeclaredSubscription._fields]
    )
    given: dict[str, Any] = dict(zip(DeclaredSubscription._fields, map(list, columns), strict=True))
    # PostgreSQL requires the arrays within an array to have one length.
    for name in ("topics", "exact"):
        given[name] = [json.dumps(each) for each in given[name]]
    with connection.transaction():
        wait_at_most(connection, DECLARE_PATIENCE)
        connection.execute(SQL["declare"], given)
        connection.execute(SQL["forget"])
        return [name for (name,) in connection.execute(SQL["taken"], {"names": given["name"]})]


def known(connection: Connection, names: Collection[str]) -> set[str]:
    """Return the names among these that belong to subscriptions."""
    rows = connection.execute(SQL["known"], {"names": list(names)})
    return {name for (name,) in rows}
