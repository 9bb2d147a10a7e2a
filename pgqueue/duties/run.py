"""Run one duty once: in a worker, in a consumer, or for a command."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import psycopg

from pgqueue.database.connections import Contact
from pgqueue.database.transactions import in_short
from pgqueue.duties.base import Duty, LongDuty
from pgqueue.engine import duty as engine
from pgqueue.engine.values import Connection

NOTHING = timedelta()
FAILED = timedelta(minutes=1)
"""How long no process tries a long duty again that failed."""


def run_duty(
    connection: Connection, duty: Duty, *, contact: Contact, early: bool = False
) -> timedelta | None:
    """Run a duty if it is due; return when it is due again.

    Args:
        connection: in autocommit. A long duty needs one of its own.
        contact: knows since when the database has answered; some duties ask for it.
        early: run it even if its row says that it isn't due yet.

    Returns:
        None: it was not due, another process is doing it, or this one may not.
    """
    try:
        return _run(connection, duty, contact=contact, early=early)
    except psycopg.errors.LockNotAvailable:
        # Another session reads for long, such as a backup. `pgqueue_health` tells if the duty was
        # not done for hours.
        raise
    except Exception:
        # For `pgqueue_health`: a duty that is put off again and again is never late.
        with suppress(psycopg.Error):
            if not connection.closed:
                engine.failed(connection, duty.name)
        raise


def _run(connection: Connection, duty: Duty, *, contact: Contact, early: bool) -> timedelta | None:
    if isinstance(duty, LongDuty):
        return _run_long(connection, duty, early=early)
    with in_short(connection):
        if not engine.take(connection, duty.name, early=early):
            return None
        # Asked again: BEGIN may have waited for the database to come back.
        if not duty.may_run(NOTHING) and not duty.may_run(contact.lasting(connection)):
            return None
        again_in = duty.run(connection)
        _note(connection, duty, again_in)
    return again_in


def _run_long(connection: Connection, duty: LongDuty, *, early: bool) -> timedelta | None:
    # No lock is held while it runs. If this process dies, another one begins after `soon`.
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
    # If another process is doing it, that one notes that it was done.
    if again_in is not None:
        engine.done(connection, duty.name, again_in=again_in)
