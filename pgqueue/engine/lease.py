from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import NamedTuple

from pgqueue.engine import partitions
from pgqueue.engine.values import Claim, Connection, Lease, fence
from pgqueue.statements import load

SQL = load(__name__)

BATCH = 500


class Rescued(NamedTuple):
    """A message that lost its worker, and its state since."""

    id: int
    task: str
    state: str


def extend(
    connection: Connection, leases: Collection[Lease | Claim], *, lease: timedelta
) -> dict[int, bool]:
    """Renew `leases`; return the ids still held, each with whether to cancel it.

    What is missing from the answer is lost: it was rescued, replayed or settled.
    """
    fenced = fence(leases)
    rows = connection.execute(SQL["extend"], {**fenced, "lease": lease}).fetchall()
    if len(rows) < len(leases):
        # Some were locked, perhaps by their own atomic task: read them before giving up.
        rows += connection.execute(SQL["held"], fenced).fetchall()
    return dict(rows)


def hold(connection: Connection, lease: Lease | Claim) -> bool:
    """Lock the row of `lease` until the transaction ends; say whether it is still held."""
    row = connection.execute(
        SQL["hold"], {"id": lease.id, "attempt": lease.attempt, "worker_id": lease.worker_id}
    ).fetchone()
    return row is not None


def rescue(connection: Connection, *, max_lost: int, limit: int = BATCH) -> list[Rescued]:
    """Take messages away from workers that were silent for a whole lease.

    Only for one who was connected for that long himself: after an outage of the database
    every lease is over, and every worker alive.
    """
    rows = partitions.repeat_if_missing(
        connection, SQL["rescue"], {"max_lost": max_lost, "limit": limit}
    )
    return [Rescued(*row[:3]) for row in rows]
