from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from pgqueue.conf import settings
from pgqueue.database.sql_files import load
from pgqueue.engine.culprits import delete, shown
from pgqueue.engine.values import Connection
from pgqueue.values.version import VERSION

SQL = load(__name__)
TOLD = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerInfo:
    """The public data of a worker. `channels` None: all channels, also future ones."""

    host: str
    pid: int
    started_at: datetime
    channels: Sequence[str] | None
    excluded: Sequence[str]
    info: Mapping[str, Any]


def versions() -> dict[str, str]:
    """Return the versions of a process's code: pgqueue's version, and the project's release."""
    release = settings().release
    return {"version": VERSION, **({"release": release} if release else {})}


def register(
    connection: Connection, worker_id: UUID, info: WorkerInfo, *, before: UUID | None
) -> None:
    """Store a worker's row under a new id, and delete its row of the id `before`."""
    connection.execute(
        SQL["register"],
        {
            "id": worker_id,
            "before": before,
            "host": info.host,
            "pid": info.pid,
            "started_at": info.started_at,
            "channels": _listed(info.channels),
            "excluded": list(info.excluded),
            "info": json.dumps(info.info),
        },
    )


def beat(
    connection: Connection,
    worker_id: UUID,
    *,
    notify_for: timedelta | None,
    busy_for: float = 0.0,
    left_out: int = 0,
) -> bool:
    """Renew the worker's heartbeat, and the time for which producers should notify it.

    Args:
        busy_for: seconds for which none of its threads has been free. The row has them from a
            minute on.
        left_out: the number of rows that the process leaves out, since statements fail with them.

    Returns:
        False if the row was deleted: another worker took this one for dead.
    """
    told = {"busy_for": round(busy_for)} if busy_for >= TOLD else {}
    if left_out:
        told["left_out"] = left_out
    row = connection.execute(
        SQL["beat"], {"id": worker_id, "notify_for": notify_for, "told": json.dumps(told)}
    ).fetchone()
    return row is not None


def ask_to_stop(connection: Connection, worker_id: UUID, times: int) -> None:
    """Store in a driver's row that its workers must stop: once gently, twice at once."""
    connection.execute(SQL["ask_to_stop"], {"id": worker_id, "times": times})


def requests_of(connection: Connection, worker_id: UUID) -> tuple[int, timedelta] | None:
    """Return a driver's number of stop requests, and its silence; None: it has no row."""
    row = connection.execute(SQL["requests_of"], {"id": worker_id}).fetchone()
    return (row[0], timedelta(seconds=row[1])) if row else None


def waiting(
    connection: Connection,
    *,
    channels: Sequence[str] | None,
    excluded: Sequence[str],
    limit: int,
) -> int:
    """Return the number of messages in these channels that wait for a worker, up to `limit`.

    Governed messages are not counted singly: each lane and each bell counts as one.
    """
    parameters = {
        "channels": _listed(channels),
        "excluded": list(excluded),
        "takes_raw": False,
        "limit": limit,
        **NOTHING.parameters,
    }
    row = connection.execute(SQL["waiting"], parameters).fetchone()
    return row[0] if row else 0


def workers_of(connection: Connection, worker_id: UUID) -> list[UUID]:
    """Return the ids of the workers that belong to a driver."""
    return [id for (id,) in connection.execute(SQL["workers_of"], {"driver": str(worker_id)})]


def retire(connection: Connection, worker_id: UUID) -> None:
    """Delete the row of a worker that stopped."""
    connection.execute(SQL["retire"], {"id": worker_id})


def bury(connection: Connection, first: UUID, last: UUID) -> None:
    """Delete the row of a dead process, whose ids are in this range."""
    connection.execute(SQL["bury"], {"first": first, "last": last})


def correct(connection: Connection) -> int:
    """Note workers that were seen in the future as seen now; return their number.

    Otherwise a dead worker would count as alive for as long as the clock had been ahead.
    """
    return connection.execute(SQL["correct"]).rowcount


def forget(connection: Connection, *, silent_for: timedelta) -> int:
    """Delete the rows of workers that have been silent for this long; return their number."""
    given = {"silent_for": silent_for}
    return delete(
        connection, "pgqueue_worker", SQL["forget"], SQL["over"], given, what="forget workers"
    )


class LeftOut(NamedTuple):
    """The rows that a process leaves out, since statements fail with them: see `culprits`."""

    messages: Sequence[int] = ()
    lanes: Sequence[tuple[str, str]] = ()
    gates: Sequence[str] = ()
    bells: Sequence[int] = ()

    @property
    def parameters(self) -> dict[str, list[Any]]:
        """The parameters of a statement that leaves these rows out."""
        return {
            "aside": list(self.messages),
            "aside_channels": [channel for channel, _ in self.lanes],
            "aside_keys": [key for _, key in self.lanes],
            "aside_gates": list(self.gates),
            "aside_bells": list(self.bells),
        }

    def __str__(self) -> str:
        """Name the rows for the log."""
        rows = [f"pgqueue_message {id}" for id in self.messages]
        rows += [f"pgqueue_lane {shown(*lane)}" for lane in self.lanes]
        rows += [f"pgqueue_gate {shown(name)}" for name in self.gates]
        rows += [f"pgqueue_bell {id}" for id in self.bells]
        return "; ".join(rows)


NOTHING = LeftOut()


def unfinished(
    connection: Connection,
    *,
    channels: Sequence[str] | None,
    excluded: Sequence[str],
    but_for: LeftOut = NOTHING,
) -> bool:
    """Return whether any message in these channels is ready, running or due for a retry.

    Args:
        but_for: rows that do not count; messages that wait for such rows do not count, either.
    """
    parameters = {
        "channels": _listed(channels),
        "excluded": list(excluded),
        "takes_raw": False,
        **but_for.parameters,
    }
    row = connection.execute(SQL["unfinished"], parameters).fetchone()
    return bool(row and row[0])


def _listed(channels: Sequence[str] | None) -> list[str] | None:
    return None if channels is None else list(channels)
