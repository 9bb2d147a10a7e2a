"""Do each duty once, for a command: for cron, where there are only consumers or readers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta

from pgqueue.conf import settings
from pgqueue.database.connections import Contact, connect
from pgqueue.database.transactions import in_short
from pgqueue.duties.base import Duty, LongDuty
from pgqueue.duties.run import run_duty
from pgqueue.engine import duty as engine
from pgqueue.engine import lease
from pgqueue.engine.values import Connection

SOON = timedelta(milliseconds=10)
"""A duty that is due again by then had more to do than one batch."""
NAP = 0.1  # seconds
LOOK_AGAIN_IN = timedelta(seconds=1)


@dataclass(frozen=True, kw_only=True)
class DutyReport:
    """The result of a duty.

    Attributes:
        did: how many of what.
        is_busy: another process was doing it, so that it was left to that one.
        error: why it failed; None: it did not.
    """

    name: str
    did: Mapping[str, int] = field(default_factory=dict)
    is_busy: bool = False
    error: Exception | None = None


def maintain(alias: str, duties: Sequence[Duty]) -> Iterator[DutyReport]:
    """Do each duty until nothing of it is left to do now, and report on it.

    After one that fails the others are done all the same. Beside workers it does no harm.

    Messages of silent workers are rescued as workers do it: only after the database has answered
    for a whole lease. After an outage all leases are over though their workers live, and they need
    that time to renew them. It waits only while there is a lease that is over.

    Args:
        alias: of the queue's database.
        duties: which to do.

    Raises:
        psycopg.OperationalError: the database is not reachable.
    """
    with closing(connect(alias, name="maintain")) as connection:
        contact = Contact(lease=settings().lease)
        contact.lasting(connection)
        engine.due(connection, [duty.name for duty in duties])
        for duty in sorted(duties, key=lambda duty: not duty.may_run(timedelta())):
            yield _try(connection, alias, duty, contact)


def _try(connection: Connection, alias: str, duty: Duty, contact: Contact) -> DutyReport:
    try:
        if not _wait_until_it_may_run(connection, duty, contact):
            return _note(connection, duty)
        if isinstance(duty, LongDuty):
            with closing(connect(alias, name=duty.name)) as own:
                return _do(own, duty, contact)
        return _do(connection, duty, contact)
    except Exception as error:
        return DutyReport(name=duty.name, error=error)


def _wait_until_it_may_run(connection: Connection, duty: Duty, contact: Contact) -> bool:
    """Say whether it is worth doing: a rescue is only where a lease stays over for so long."""
    while not duty.may_run(contact.lasting(connection)):
        # On the same connection: were that lost, it would fail.
        if not lease.are_any_over(connection):
            return False
        time.sleep(NAP)
    return True


def _note(connection: Connection, duty: Duty) -> DutyReport:
    """Note that there was nothing to do: it was looked at."""
    with in_short(connection):
        if engine.take(connection, duty.name, early=True):
            engine.done(connection, duty.name, again_in=LOOK_AGAIN_IN)
    return DutyReport(name=duty.name, did=dict.fromkeys(duty.did, 0))


def _do(connection: Connection, duty: Duty, contact: Contact) -> DutyReport:
    did: dict[str, int] = {}
    while (again_in := run_duty(connection, duty, contact=contact, early=True)) is not None:
        for what, count in duty.did.items():
            did[what] = did.get(what, 0) + count
        if again_in > SOON or not any(duty.did.values()):
            return DutyReport(name=duty.name, did=did)
    return DutyReport(name=duty.name, did=did, is_busy=True)
