from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

from pgqueue.engine import partitions
from pgqueue.engine.values import Claim, Connection, Cursors, Lease, array, fence
from pgqueue.statements import load

SQL = load(__name__)

BATCH = 500
LETTING_GO = 1.0  # seconds
BEGINNING = 1.0
LOOK = 0.01


class Rescued(NamedTuple):
    """A message that lost its worker, and its state since."""

    id: int
    task: str
    state: str


class Lock(NamedTuple):
    """Where a row is locked: the server's process, and its transaction."""

    pid: int
    transaction: str


def extend(
    connection: Connection, leases: Collection[Lease | Claim], *, lease: timedelta
) -> dict[int, bool]:
    """Renew `leases`; return the ids still held, each with whether to cancel it.

    What is missing from the answer is lost: it was rescued, replayed or settled.
    """
    parameters = {**fence(leases), "lease": lease}
    renewed = dict(connection.execute(SQL["extend"], parameters).fetchall())
    if len(renewed) < len(leases):
        # Some were locked, perhaps by their own atomic task: read them before giving up.
        renewed |= held(connection, leases)
    return renewed


def held(connection: Connection, leases: Iterable[Lease | Claim]) -> dict[int, bool]:
    """Return the ids that are still held, each with whether to cancel it. Waits for no lock."""
    return dict(connection.execute(SQL["held"], fence(leases)).fetchall())


def hold(connection: Connection, lease: Lease | Claim) -> Lock | None:
    """Lock the row of `lease` until the transaction ends; return None if it is held no longer."""
    row = connection.execute(SQL["hold"], _fence_of(lease)).fetchone()
    return Lock(*row) if row else None


def let_go(connection: Connection, locks: Collection[Lock]) -> None:
    """End the transactions that hold these locks, and wait for it, for a second at most.

    Those that have ended by themselves leave whoever uses their connections now alone.
    """
    parameters = {
        "pids": [each.pid for each in locks],
        "transactions": [each.transaction for each in locks],
    }
    until = time.monotonic() + LETTING_GO
    while connection.execute(SQL["let_go"], parameters).fetchone() and time.monotonic() < until:
        time.sleep(LOOK)


def checkpoint(
    connection: Cursors,
    lease: Lease | Claim,
    *,
    progress: str | None,
    payload: str | None = None,
    body: bytes | None = None,
    extend: timedelta | None = None,
    extra_attempts: int = 0,
) -> int | None:
    """Note how far a run has come; return how many attempts its message has, or None if lost.

    Waits where another session has the row locked: an operator who asks for it to be cancelled.

    Args:
        progress, payload: JSON texts; None: as it was.
        body: None: as it was.
        extend: how long from now the lease lasts, at least.
    """
    parameters = {
        "progress": progress,
        "payload": payload,
        "body": body,
        "extend": extend,
        "extra_attempts": extra_attempts,
    }
    with connection.cursor() as cursor:
        cursor.execute(SQL["checkpoint"], {**_fence_of(lease), **parameters})
        row = cursor.fetchone()
    return int(row[0]) if row else None


def prolong(connection: Cursors, lease: Lease | Claim, extend: timedelta) -> bool:
    """Let one lease end so long from now at the earliest; say whether it is still held."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["prolong"], {**_fence_of(lease), "extend": extend})
        return cursor.fetchone() is not None


def begin(connection: Connection, leases: Iterable[Lease | Claim]) -> set[int]:
    """Note that their runs begin now; return the ids that are still held.

    Needed of what has lost a worker before, and only of that: of those, only what had begun is
    charged with losing the next one, too. Waits a moment for who has them locked, a heartbeat
    perhaps; not for who takes longer, such as somebody who cancels them.
    """
    begun: set[int] = set()
    left = list(leases)
    until = time.monotonic() + BEGINNING
    while True:
        begun |= {id for (id,) in connection.execute(SQL["begin"], fence(left))}
        left = [each for each in left if each.id not in begun]
        still = held(connection, left) if left else {}
        left = [each for each in left if each.id in still]
        if not left or time.monotonic() >= until:
            return begun | still.keys()
        time.sleep(LOOK)


def rescue(connection: Connection, *, max_lost: int, limit: int = BATCH) -> list[Rescued]:
    """Take messages away from workers that were silent for a whole lease.

    Only for one who was connected for that long himself: after an outage of the database
    every lease is over, and every worker alive. He makes sure of that in the same transaction, of
    whose beginning the leases are judged.
    """
    return _rescue(connection, "rescue", {"max_lost": max_lost, "limit": limit})


def rescue_from(
    connection: Connection, first: UUID, last: UUID, *, max_lost: int, limit: int = BATCH
) -> list[Rescued]:
    """Take messages away from a process that is dead, whatever their leases say.

    Args:
        first, last: what its worker_ids lie between.
    """
    bounds = {"first": first, "last": last}
    return _rescue(connection, "rescue_from", {**bounds, "max_lost": max_lost, "limit": limit})


def give_back(
    connection: Connection, first: UUID, last: UUID, *, held: Iterable[int]
) -> list[Rescued]:
    """Make ready again what a worker was given, and was not told of; nothing is charged.

    Args:
        first, last: what the ids lie between that it had before.
        held: the messages that it was told of.
    """
    return _rescue(
        connection,
        "give_back",
        {"first": first, "last": last, "held": array(held), "max_lost": 1, "limit": BATCH},
    )


def _rescue(connection: Connection, statement: str, parameters: dict[str, Any]) -> list[Rescued]:
    rows = partitions.repeat_if_missing(connection, SQL[statement], parameters)
    return [Rescued(*row[:3]) for row in rows]


def are_any_over(connection: Connection) -> bool:
    """Say whether a worker seems to have been silent for a whole lease."""
    row = connection.execute(SQL["are_any_over"]).fetchone()
    return bool(row and row[0])


def are_any_of(connection: Connection, first: UUID, last: UUID) -> bool:
    """Say whether a process has any messages, also such as somebody has locked.

    Args:
        first, last: what its worker_ids lie between.
    """
    row = connection.execute(SQL["are_any_of"], {"first": first, "last": last}).fetchone()
    return bool(row and row[0])


def _fence_of(lease: Lease | Claim) -> dict[str, object]:
    return {"id": lease.id, "attempt": lease.attempt, "worker_id": lease.worker_id}
