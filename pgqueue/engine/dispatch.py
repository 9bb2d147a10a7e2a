"""Make messages of events, for subscriptions.

The dispatch is a group behind the log, of the name "": it moves its cursor in the transaction that
stores the messages, so each event is matched exactly once with each subscription. A subscription
that was paused, or is new and starts further back, has a position of its own until it caught up.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NamedTuple

import psycopg

from pgqueue.engine import predicates
from pgqueue.engine.values import Connection
from pgqueue.statements import load

SQL = load(__name__)

EVENTS = 2000
"""Events that one step matches, at most."""
BYTES = 32 * 1024 * 1024
"""Bytes of payloads that one step matches, or slightly more."""
PATIENCE = "10s"
"""The statement_timeout for matching: a subscription that takes longer is paused."""
CULPRITS = (
    psycopg.DataError,
    psycopg.InternalError,
    psycopg.ProgrammingError,
    psycopg.errors.ProgramLimitExceeded,
    psycopg.errors.QueryCanceled,
    psycopg.IntegrityError,
)
"""Errors that a subscription's own conditions may raise."""


class Declared(NamedTuple):
    """A subscription, as code declares it; JSON columns are texts, arrays are lists.

    Attributes:
        start: the position after which it begins, if it is new; None: the end of the log.
        definition: a digest of the rest.
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


class Step(NamedTuple):
    """What a step did: events looked at, messages stored, and whether nothing is left now."""

    events: int
    messages: int
    is_last: bool


class Stretch(NamedTuple):
    """Events that a step matches: those after a position, up to another; and the log's last."""

    after: int
    upto: int
    head: int


def has_work(connection: Connection) -> bool | None:
    """Return whether events wait for subscriptions; None: there are no subscriptions."""
    row = connection.execute(SQL["has_work"]).fetchone()
    if not row or not row[0]:
        return None
    return bool(row[1])


def step(connection: Connection, *, limit: int = EVENTS) -> Step:
    """Match the next events with all subscriptions that are as far; let another one catch up.

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
    gone_on = _go_on(connection, cursor, limit)
    # The others go on meanwhile: it may be a million events behind.
    caught_up = _catch_up(connection, cursor + gone_on.events, limit)
    return Step(
        gone_on.events + caught_up.events,
        gone_on.messages + caught_up.messages,
        is_last=gone_on.is_last and caught_up.is_last,
    )


def _go_on(connection: Connection, cursor: int, limit: int) -> Step:
    """Match the next events with all that follow."""
    stretch = _stretch(connection, None, cursor, None, limit)
    if stretch.upto <= cursor:
        return Step(0, 0, is_last=True)
    stored = _match(connection, None, stretch)
    connection.execute(SQL["move"], {"upto": stretch.upto})
    return Step(stretch.upto - cursor, stored, is_last=stretch.upto >= stretch.head)


def _catch_up(connection: Connection, cursor: int, limit: int) -> Step:
    """Match the next events with the subscription that is furthest behind."""
    row = connection.execute(SQL["lagging"], {"cursor": cursor}).fetchone()
    if row is None:
        return Step(0, 0, is_last=True)
    name, position = row
    stretch = _stretch(connection, name, position, cursor, limit)
    stored = _match(connection, [name], stretch)
    given = {"name": name, "upto": stretch.upto, "cursor": cursor}
    connection.execute(SQL["move_one"], given)
    return Step(stretch.upto - position, stored, is_last=False)


def _stretch(
    connection: Connection, name: str | None, after: int, most: int | None, limit: int
) -> Stretch:
    """Return which events a step matches; note where retention has removed some before it."""
    given = {"after": after, "most": most, "limit": limit, "bytes": BYTES}
    upto, head, floor = connection.execute(SQL["upto"], given).fetchone() or (after, after, 0)
    if after < floor:
        error = f"Events after position {after} were removed, up to {floor}, before it saw them."
        connection.execute(SQL["note_gap"], {"name": name, "error": error})
    return Stretch(max(after, floor), max(upto, floor), head)


def _match(connection: Connection, names: list[str] | None, stretch: Stretch) -> int:
    """Store the messages of a stretch; pause the subscriptions that can't be matched.

    Which of many it is that fails is found by halves.

    Args:
        names: of the subscriptions; None: all that follow.
    """
    given = {"after": stretch.after, "upto": stretch.upto, "names": names}
    met = _meet(connection, given)
    try:
        with _in_time(connection):
            row = connection.execute(SQL["match"], {**given, **met}).fetchone()
            return row[0] if row else 0
    except CULPRITS as error:
        if names is None:
            names = [name for (name,) in connection.execute(SQL["followers"])]
        if len(names) == 1:
            _pause(connection, names[0], stretch.after, error)
        if len(names) <= 1:
            return 0
    half = len(names) // 2
    return _match(connection, names[:half], stretch) + _match(connection, names[half:], stretch)


def _meet(connection: Connection, given: dict[str, Any]) -> dict[str, Any]:
    """Evaluate the predicates in SQL, each once; pause the subscriptions of one that fails."""
    met: list[tuple[int, str]] = []
    for (predicate,) in connection.execute(SQL["predicates"], given).fetchall():
        own = {**given, "predicate": predicate}
        try:
            with _in_time(connection):
                row = connection.execute(SQL["to_evaluate"], own).fetchone()
                met += predicates.evaluate(connection, predicate, *(row or ("[]", "[]")))
        except CULPRITS as error:
            said = {"position": given["after"], "error": _said(error)}
            connection.execute(SQL["pause_all"], {**own, **said})
    positions, names = [position for position, _ in met], [name for _, name in met]
    return {"met_positions": positions, "met_names": names}


@contextmanager
def _in_time(connection: Connection) -> Iterator[None]:
    """Open a savepoint in which a statement may take so long, and no longer."""
    with connection.transaction():
        connection.execute(SQL["set_up"], {"patience": PATIENCE})
        yield
        connection.execute(SQL["set_back"])


def _pause(connection: Connection, name: str, position: int, error: Exception) -> None:
    connection.execute(SQL["pause"], {"name": name, "position": position, "error": _said(error)})


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".replace("\x00", "")[:1000]


def declare(connection: Connection, declared: Collection[Declared]) -> None:
    """Store what code declares; a new subscription begins at the end of the log."""
    if not declared:
        return
    columns = zip(*declared, strict=True)
    given: dict[str, Any] = dict(zip(Declared._fields, map(list, columns), strict=True))
    # Arrays of arrays would have to be of one length.
    for name in ("topics", "exact"):
        given[name] = [json.dumps(each) for each in given[name]]
    connection.execute(SQL["declare"], given)


def known(connection: Connection, names: Collection[str]) -> set[str]:
    """Return those of the names that subscriptions have."""
    rows = connection.execute(SQL["known"], {"names": list(names)})
    return {name for (name,) in rows}


def taken(connection: Connection, names: Collection[str]) -> list[str]:
    """Return those of the names that subscriptions have which no code has declared."""
    rows = connection.execute(SQL["taken"], {"names": list(names)})
    return [name for (name,) in rows]


def forget(connection: Connection) -> int:
    """Delete subscriptions that no code has declared for 30 days; return how many."""
    return connection.execute(SQL["forget"]).rowcount
