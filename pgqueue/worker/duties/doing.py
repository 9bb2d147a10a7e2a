"""One duty, done once, whoever does it."""

from __future__ import annotations

from datetime import timedelta

from pgqueue.connections import Contact, in_short
from pgqueue.engine import duty as engine
from pgqueue.engine.values import Connection
from pgqueue.worker.duties import Duty, LongDuty

NOTHING = timedelta()
FAILED = timedelta(minutes=1)
"""Until a long duty that failed is tried again, whoever does it."""


def do(
    connection: Connection, duty: Duty, *, contact: Contact, early: bool = False
) -> timedelta | None:
    """Do a duty if it is due; return when it is again, or None where it is not for us to do.

    Args:
        connection: in autocommit. A long duty needs one of its own.
        contact: says for how long the database has answered, where not everybody may do it.
        early: do it even if it isn't due yet.
    """
    if isinstance(duty, LongDuty):
        return _do_long(connection, duty, early=early)
    with in_short(connection):
        if not engine.take(connection, duty.name, early=early):
            return None
        # Asked anew: to begin may have waited for the database to come back.
        if not duty.may_run(NOTHING) and not duty.may_run(contact.lasting(connection)):
            return None
        again_in = duty.run(connection)
        _note(connection, duty, again_in)
    return again_in


def _do_long(connection: Connection, duty: LongDuty, *, early: bool) -> timedelta | None:
    # No lock is held while it runs. Who dies at it leaves it to the next soon.
    with in_short(connection):
        if not engine.take(connection, duty.name, early=early):
            return None
        engine.postpone(connection, duty.name, by=duty.soon)
    try:
        again_in = duty.run(connection)
    except Exception:
        if not connection.closed:
            engine.postpone(connection, duty.name, by=FAILED)
        raise
    _note(connection, duty, again_in)
    return again_in


def _note(connection: Connection, duty: Duty, again_in: timedelta | None) -> None:
    # Where somebody else is at it, that it was done is his to say.
    if again_in is not None:
        engine.done(connection, duty.name, again_in=again_in)
