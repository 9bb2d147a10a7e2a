"""Check the queue's health for probes and monitors, at little cost: they ask every few seconds."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import psycopg
from django.db import Error
from psycopg.errors import InsufficientPrivilege

from pgqueue.database.connections import borrow
from pgqueue.database.migration_check import lack_of
from pgqueue.database.transactions import answer_within
from pgqueue.operating.health import log, server, work
from pgqueue.operating.health.judging import (
    Check,
    ExaminedQueue,
    HealthLimits,
    QueueCheck,
    Status,
    worse,
)

__all__ = ["CHECKS", "EXIT", "Check", "HealthLimits", "Status", "examine", "worst"]

PATIENCE = "10s"
EXIT = {Status.OK: 0, Status.UNKNOWN: 0, Status.WARNING: 1, Status.FAILING: 2}


def examine(
    alias: str, limits: HealthLimits | None = None, names: Collection[str] | None = None
) -> list[Check]:
    """Return the results of all checks, or of the named ones.

    A check is unknown if the role lacks a right for it. It fails if its query fails for any other
    reason.

    Args:
        alias: the alias of the queue's database.
    """
    asked = {name: check for name, check in CHECKS.items() if names is None or name in names}
    try:
        with borrow(alias) as connection:
            queue = ExaminedQueue(alias, connection, limits or HealthLimits())
            return [_made(queue, name, check) for name, check in asked.items()]
    except (Error, psycopg.Error) as error:
        return [Check("database", Status.FAILING, f"can't be reached: {error}".strip())]


def worst(checks: Collection[Check]) -> Status:
    """Return the worst status of the checks."""
    return worse(*(check.status for check in checks))


def _made(queue: ExaminedQueue, name: str, check: QueueCheck) -> Check:
    connection = queue.connection
    try:
        with connection.transaction(force_rollback=True):
            answer_within(connection, PATIENCE)
            return Check(name, *check(queue))
    except psycopg.Error as error:
        if connection.closed:
            raise
        reason = lack_of(error, queue.alias) or error.diag.message_primary or error
        said = f"the query failed: {reason}"
        is_hidden = isinstance(error, InsufficientPrivilege)
        return Check(name, Status.UNKNOWN if is_hidden else Status.FAILING, said)


CHECKS: Mapping[str, QueueCheck] = {
    "workers": work.workers,
    "age": work.age,
    "dead": work.dead,
    "breakers": work.breakers,
    "duties": work.duties,
    "partitions": server.partitions,
    "bloat": server.bloat,
    "horizon": server.horizon,
    "connections": server.connections,
    "export": log.export,
    "groups": log.groups,
    "feed": log.feed,
    "webhooks": log.webhooks,
    "locks": server.locks,
    "rows": work.rows,
    "notifications": server.notifications,
}
