"""What operators do to messages: the verbs, on many ids, without waiting for open transactions."""

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
"""Ids that a verb is given at a time."""
# Shorter than PostgreSQL's deadlock_timeout: where an operator and a task wait for each
# other, it is the operator who gives way.
PATIENCE = "500ms"


class Operated(NamedTuple):
    """What came of an operation, by ids; a message in none of the sets was left as it was."""

    done: frozenset[int] = frozenset()
    asked: frozenset[int] = frozenset()
    """They run, and were asked to stop: their end decides."""
    busy: frozenset[int] = frozenset()
    """Another open transaction has them locked, for example that of an atomic task; or something in
    the database refuses the change, as the log says."""

    def __or__(self, other: Operated) -> Operated:
        return Operated(*(mine | theirs for mine, theirs in zip(self, other, strict=True)))


Verb = Callable[[Connection, Collection[int]], Operated]


def run_now(connection: Connection, ids: Collection[int]) -> Operated:
    """Make delayed messages ready, whatever their time."""
    return Operated(frozenset(promote.run_now(connection, ids)))


def cancel(connection: Connection, ids: Collection[int]) -> Operated:
    """End messages that wait; ask running ones to end. Dead letters are left as they are."""
    ended, asked = cancelling.cancel(connection, ids)
    return Operated(frozenset(ended), frozenset(asked))


def replay(connection: Connection, ids: Collection[int]) -> Operated:
    """Make dead letters ready, with all attempts before them."""
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
    # Begins the transaction where none is open: psycopg would take the savepoint for the whole.
    row = connection.execute("SELECT current_setting('lock_timeout')").fetchone()
    before = (row or ("0",))[0]
    wait_at_most(connection, PATIENCE)
    try:
        operated = _by_halves(connection, verb, ids)
    except LockNotAvailable:
        # The rest is locked before the verb can wait for any.
        given = {"ids": list(ids)}
        free = frozenset(id for (id,) in connection.execute(SQL["lock_free"], given))
        found = frozenset(id for (id,) in connection.execute(SQL["found"], given))
        operated = _by_halves(connection, verb, sorted(free)) | Operated(busy=found - free)
    # The transaction may be the caller's: what follows is not ours.
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
