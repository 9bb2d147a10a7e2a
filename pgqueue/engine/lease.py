from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

from pgqueue.database.sql_files import load
from pgqueue.database.transactions import waiting_at_most
from pgqueue.engine import cancel as cancelling
from pgqueue.engine import partitions
from pgqueue.engine.culprits import (
    Part,
    apart,
    by_halves,
    tell,
)
from pgqueue.engine.values import Claim, Connection, Cursors, Lease, array, exact, fence

SQL = load(__name__)

BATCH = 500
LETTING_GO = 1.0  # seconds
BEGINNING = 1.0
LOCKING = "500ms"
"""How long a run that begins, or an atomic step, waits for a transaction that has locked its
message. It is longer than a heartbeat, and shorter than the time after which PostgreSQL looks for a
deadlock."""
LOOK = 0.01


class Rescued(NamedTuple):
    """A message whose lease was taken from its worker, and its new state or outcome."""

    id: int
    task: str
    state: str


class Lock(NamedTuple):
    """The lock of a row: the server process that has it, and its transaction."""

    pid: int
    transaction: str


def extend(
    connection: Connection, leases: Collection[Lease | Claim], *, lease: timedelta
) -> dict[int, bool]:
    """Renew `leases`; return the ids whose leases are still valid, each with whether to cancel it.

    A lease that is missing from the answer is lost: its message was rescued, replayed or settled.
    """

    def some(leases: Sequence[Lease | Claim]) -> dict[int, bool]:
        parameters = {**fence(leases), "lease": exact(lease)}
        return dict(connection.execute(SQL["extend"], parameters).fetchall())

    renewed: dict[int, bool] = {}
    for part in by_halves(some, list(leases), _note_refused):
        renewed |= part
    if len(renewed) < len(leases):
        # Some rows were locked, perhaps by their own atomic task: read them before giving up.
        renewed |= valid(connection, leases)
    return renewed


def _note_refused(lease: Lease | Claim, error: Exception) -> None:
    tell("extend", row=f"pgqueue_message {lease.id}", error=error)


def valid(connection: Connection, leases: Iterable[Lease | Claim]) -> dict[int, bool]:
    """Return the ids whose leases are still valid, each with whether to cancel it.

    It waits for no lock.
    """
    return dict(connection.execute(SQL["valid"], fence(leases)).fetchall())


def lock(
    connection: Connection, lease: Lease | Claim, *, patience: str | None = None
) -> Lock | None:
    """Lock the row of `lease` until the transaction ends; return None if the lease is lost.

    Args:
        patience: how long it waits for a transaction that has locked the row; None: to its end.

    Raises:
        psycopg.errors.LockNotAvailable: it has waited for so long.
    """
    row = connection.execute(SQL["lock"], _fence_of(lease)).fetchone()
    if not row:
        with _waiting(connection, patience):
            row = connection.execute(SQL["lock_waiting"], _fence_of(lease)).fetchone()
    return Lock(*row) if row else None


def lock_all(
    connection: Connection, leases: Collection[Lease | Claim], *, patience: str
) -> dict[int, Lock]:
    """Lock the rows of `leases` until the transaction ends.

    Args:
        patience: how long it waits for a transaction that has locked a row.

    Returns:
        The lock of each id. A lost lease has none.

    Raises:
        psycopg.errors.LockNotAvailable: it has waited for so long.
    """
    rows = connection.execute(SQL["lock_all"], fence(leases)).fetchall()
    if len(rows) < len(leases):
        with _waiting(connection, patience):
            rows = connection.execute(SQL["lock_all_waiting"], fence(leases)).fetchall()
    return {id: Lock(pid, transaction) for id, pid, transaction in rows}


def _waiting(connection: Connection, patience: str | None) -> AbstractContextManager[None]:
    return nullcontext() if patience is None else waiting_at_most(connection, patience)


def let_go(connection: Connection, locks: Collection[Lock]) -> None:
    """End the transactions that have these locks, and wait a second at most for their ends.

    A transaction that has ended already is left alone, and so is the next one on its connection.
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
    """Store the progress of a run; return its max_attempts, or None if the lease is lost.

    It waits while another session has the row locked, for example an operator who cancels it.

    Args:
        progress, payload: JSON texts; None: unchanged.
        body: None: unchanged.
        extend: the lease ends this long from now at the earliest.
    """
    parameters = {
        "progress": progress,
        "payload": payload,
        "body": body,
        "extend": exact(extend),
        "extra_attempts": extra_attempts,
    }
    with connection.cursor() as cursor:
        cursor.execute(SQL["checkpoint"], {**_fence_of(lease), **parameters})
        row = cursor.fetchone()
    return int(row[0]) if row else None


def prolong(connection: Cursors, lease: Lease | Claim, extend: timedelta) -> bool:
    """Let one lease end `extend` from now at the earliest; return whether it is still valid."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["prolong"], {**_fence_of(lease), "extend": exact(extend)})
        return cursor.fetchone() is not None


def begin(connection: Connection, leases: Iterable[Lease | Claim]) -> set[int]:
    """Store that runs begin now; return the ids whose leases are still valid.

    It is needed only for messages that have lost a lease before: if the next lease is lost, too,
    only a run that had begun is counted. It waits a moment for a short lock, such as a heartbeat's,
    but not for a longer one, such as a transaction that cancels the message.
    """
    begun: set[int] = set()
    left = list(leases)
    until = time.monotonic() + BEGINNING
    while True:
        begun |= {id for (id,) in connection.execute(SQL["begin"], fence(left))}
        left = [each for each in left if each.id not in begun]
        still = valid(connection, left) if left else {}
        left = [each for each in left if each.id in still]
        if not left or time.monotonic() >= until:
            return begun | still.keys()
        time.sleep(LOOK)


def rescue(connection: Connection, *, max_lost: int, limit: int = BATCH) -> list[Rescued]:
    """Take messages away from workers that were silent for a whole lease.

    If the rest of a lease is longer than its length, the clock was ahead when the lease was given.
    The lease is then cut to its length from now.

    The caller must itself have been connected for a whole lease: after an outage of the database
    all leases have run out although all workers are alive. It checks this in the same transaction,
    whose beginning is also the time at which leases are compared.
    """
    return _rescue(connection, "rescue", {"max_lost": max_lost, "limit": limit})


def release(connection: Connection, ids: Collection[int]) -> set[int]:
    """Take running messages away from their workers, and make them ready; return their ids.

    The runs are not counted. A worker that still runs such a message has lost the lease, and
    changes the message no more. A message with a cancel request ends as cancelled.
    """
    with connection.transaction():
        freed = connection.execute(SQL["release"], {"ids": list(ids)}).fetchall()
        if asked := [id for id, is_asked, _ in freed if is_asked]:
            cancelling.cancel(connection, asked)
    return {id for id, *_ in freed}


def rescue_from(
    connection: Connection, first: UUID, last: UUID, *, max_lost: int, limit: int = BATCH
) -> list[Rescued]:
    """Take messages away from a dead process, although their leases have not run out.

    Args:
        first, last: the range of the process's worker_ids.
    """
    bounds = {"first_worker": first, "last_worker": last}
    return _rescue(connection, "rescue_from", {**bounds, "max_lost": max_lost, "limit": limit})


def give_back(
    connection: Connection, first: UUID, last: UUID, *, known: Iterable[int]
) -> list[Rescued]:
    """Make messages ready again that a worker claimed without getting the answer.

    The claims are not counted as runs.

    Args:
        first, last: the range of the worker's earlier ids.
        known: the messages whose claims the worker knows.
    """
    return _rescue(
        connection,
        "give_back",
        {
            "first_worker": first,
            "last_worker": last,
            "known": array(known),
            "max_lost": 1,
            "limit": BATCH,
        },
    )


def _rescue(connection: Connection, statement: str, parameters: dict[str, Any]) -> list[Rescued]:
    def some(part: Part) -> list[Any]:
        given = {**parameters, **part._asdict()}
        return partitions.repeat_if_missing(connection, SQL[statement], given)

    parts = apart(connection, "pgqueue_message", some, what=statement)
    return [Rescued(*row[:3]) for rows in parts for row in rows]


def are_any_over(connection: Connection) -> bool:
    """Return whether a lease has ended, or is too long.

    A lease is too long if its rest is longer than its length.
    """
    row = connection.execute(SQL["are_any_over"]).fetchone()
    return bool(row and row[0])


def are_any_of(connection: Connection, first: UUID, last: UUID) -> bool:
    """Return whether a process still has any messages, locked ones included.

    Args:
        first, last: the range of the process's worker_ids.
    """
    row = connection.execute(SQL["are_any_of"], {"first": first, "last": last}).fetchone()
    return bool(row and row[0])


def _fence_of(lease: Lease | Claim) -> dict[str, object]:
    return {"id": lease.id, "attempt": lease.attempt, "worker_id": lease.worker_id}
