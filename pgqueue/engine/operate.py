"""The verbs of operators: they change many messages without waiting for open transactions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import reduce
from operator import or_
from typing import NamedTuple

from psycopg.errors import LockNotAvailable

from pgqueue.database.sql_files import load
from pgqueue.database.transactions import wait_at_most
from pgqueue.engine import cancel as cancelling
from pgqueue.engine import dead, promote
from pgqueue.engine import lease as leases
from pgqueue.engine.culprits import by_halves, tell
from pgqueue.engine.values import Connection

SQL = load(__name__)

BATCH = 1000
"""Ids that a verb takes at a time."""
# It is shorter than PostgreSQL's deadlock_timeout: where an operator and a task wait for each
# other, the operator gives way.
PATIENCE = "500ms"


class Operated(NamedTuple):
    """The result of an operation, as sets of ids; a message in no set stays as it was."""

    done: frozenset[int] = frozenset()
    asked: frozenset[int] = frozenset()
    """Running messages that were asked to stop: the end of their run decides."""
    busy: frozenset[int] = frozenset()
    """Messages that another open transaction has locked, for example an atomic task's, or whose
    change the database refuses. The log names the refusals."""

    def __or__(self, other: Operated) -> Operated:
        return Operated(*(mine | theirs for mine, theirs in zip(self, other, strict=True)))


Verb = Callable[[Connection, Collection[int]], Operated]


def run_now(connection: Connection, ids: Collection[int]) -> Operated:
    """Make delayed messages ready before their time."""
    return Operated(frozenset(promote.run_now(connection, ids)))


def cancel(connection: Connection, ids: Collection[int]) -> Operated:
    """Cancel waiting messages; ask running ones to end. Dead letters stay as they are."""
    ended, asked = cancelling.cancel(connection, ids)
    return Operated(frozenset(ended), frozenset(asked))


def replay(connection: Connection, ids: Collection[int]) -> Operated:
    """Make dead letters ready, with all their attempts again."""
    return Operated(frozenset(dead.replay(connection, ids)))


def discard(connection: Connection, ids: Collection[int]) -> Operated:
    """End dead letters for good."""
    return Operated(frozenset(dead.discard(connection, ids)))


def release(connection: Connection, ids: Collection[int]) -> Operated:
    """Take running messages from their workers, and make them ready for others."""
    return Operated(frozenset(leases.release(connection, ids)))


VERBS = {verb.__name__: verb for verb in (replay, discard, cancel, run_now, release)}


def unless_locked(connection: Connection, verb: Verb, ids: Sequence[int]) -> Operated:
    """Run a verb; leave out the messages that others have locked for longer than `PATIENCE`.

    A message that makes the verb raise is named in the log, and left out, too.

    Args:
        connection: in a transaction, or about to begin one: not in autocommit.
    """
    # The query begins a transaction where none is open: psycopg would make one of the savepoint.
    row = connection.execute("SELECT current_setting('lock_timeout')").fetchone()
    before = (row or ("0",))[0]
    wait_at_most(connection, PATIENCE)
    try:
        operated = _by_halves(connection, verb, ids)
    except LockNotAvailable:
        # Lock the free messages first, so that the verb waits for no lock.
        given = {"ids": list(ids)}
        free = frozenset(id for (id,) in connection.execute(SQL["lock_free"], given))
        found = frozenset(id for (id,) in connection.execute(SQL["found"], given))
        operated = _by_halves(connection, verb, sorted(free)) | Operated(busy=found - free)
    # The transaction may be the caller's, who needs the old setting.
    wait_at_most(connection, before)
    return operated


def _by_halves(connection: Connection, verb: Verb, ids: Sequence[int]) -> Operated:
    def some(ids: Sequence[int]) -> Operated:
        with connection.transaction():
            return verb(connection, ids)

    def set_aside(id: int, error: Exception) -> Operated:
        tell(verb.__name__, row=f"pgqueue_message {id}", error=error)
        return Operated(busy=frozenset([id]))

    return reduce(or_, by_halves(some, ids, set_aside))
