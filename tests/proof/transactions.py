"""Transactions of producers and publishers, with what is known of their outcomes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import DatabaseError, InterfaceError, connection

from pgqueue.events.conditions import PositionConflict
from pgqueue.exceptions import PositionAhead
from tests.proof.operations import Written, invoked, now


class Undone(Exception):
    """A producer rolls back its transaction."""


@contextmanager
def transacting(do: str, **value: Any) -> Iterator[Written]:
    """The block is a transaction; write down what is known of its outcome.

    The block sets `is_committing` right before the statement that commits.
    """
    operation = invoked(do, **value)
    try:
        yield operation
    except Undone:
        operation.say("fail", why="undone")
    except PositionConflict as error:
        operation.say("fail", why="conflict", found=error.found)
    except PositionAhead as error:
        operation.say("fail", why=str(error))
    except (DatabaseError, InterfaceError) as error:
        # An error before the commit rolls back; an error of the commit tells nothing.
        kind = "unknown" if operation.is_committing else "fail"
        operation.say(kind, why=f"{type(error).__name__}: {error}"[:300])
    else:
        operation.say("ok")


def see(operation: Written) -> None:
    """Write the number of the open transaction and the database's time, right before its commit."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_current_xact_id()::text, extract(epoch FROM clock_timestamp())::float8"
        )
        xid, db = cursor.fetchone()
    operation.say("saw", xid=xid, db=db, commits=now())
