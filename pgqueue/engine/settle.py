"""Store the ends of runs. Each verb is one statement on a batch, and a transaction of its own.

Each verb returns the ids that it settled. For a missing id, either the lease is lost (the fence did
not match), or another transaction has the row locked now: `lease.valid` tells which.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from operator import attrgetter
from typing import NamedTuple

from pgqueue.database.sql_files import load
from pgqueue.engine import partitions
from pgqueue.engine.values import Claim, Connection, Lease, exact_array, fence, microseconds

SQL = load(__name__)


class Done(NamedTuple):
    """A run that succeeded; the times are seconds from the claim."""

    lease: Lease | Claim
    result: str | None
    started: float
    finished: float


class DoneDurably(NamedTuple):
    """A durable run that succeeded, with the steps that are not stored yet, as JSON."""

    done: Done
    steps: str | None


class Suspension(NamedTuple):
    """A durable run that waits: see `outcomes.Suspended`."""

    lease: Lease | Claim
    steps: str
    delay: timedelta | None
    until: datetime | None
    is_woken: bool
    has_progressed: bool
    leaves_lane: bool


class Restart(NamedTuple):
    """A durable run that goes on from its top, with other arguments as JSON."""

    lease: Lease | Claim
    payload: str


class Failure(NamedTuple):
    """A run that failed, and the delay before the next attempt."""

    lease: Lease | Claim
    error: str
    started: float
    delay: timedelta = timedelta()
    anew: bool = False
    """Whether failures are counted from here: a durable run has finished a step."""


class Pause(NamedTuple):
    """A channel, one lane of it, or a task that is paused."""

    channel: str = ""
    """The channel; "": a task is paused, in all channels."""
    key: str | None = None
    """The lane's key; None: the channel as a whole is paused."""
    task: str = ""


class Deferral(NamedTuple):
    """A message that was handed back, and the delay before its next run."""

    lease: Lease | Claim
    delay: timedelta
    progress: str | None = None
    """JSON for the next run; None: unchanged."""
    counted: str | None = None
    """JSON for `handed_back` in the metadata; "null" removes it, None leaves it unchanged."""
    pauses: Pause | None = None
    """The channel, the lane or the task that is paused for the same time."""


class Finish(NamedTuple):
    """A run that ended its message with the outcome that its task asked for, and the reason."""

    lease: Lease | Claim
    outcome: str
    error: str | None
    started: float


def complete(connection: Connection, done: Collection[Done]) -> set[int]:
    """Move the messages of successful runs into history."""
    return _ids(connection, "complete", _of_done(done))


def complete_durable(connection: Connection, ends: Collection[DoneDurably]) -> set[int]:
    """Move the messages of successful durable runs, and their steps, into history."""
    given = {**_of_done([end.done for end in ends]), "steps": [end.steps for end in ends]}
    return _ids(connection, "complete_durable", given)


def _of_done(done: Collection[Done]) -> dict[str, object]:
    return {
        **fence(end.lease for end in done),
        # unnest() fills a shorter array up with NULL.
        "results": [end.result for end in done] if any(end.result for end in done) else [],
        "started": microseconds(end.started for end in done),
        "finished": microseconds(end.finished for end in done),
    }


def suspend(connection: Connection, suspended: Collection[Suspension]) -> set[int]:
    """Store what durable runs wait for, and take the messages from this worker."""
    return _ids(
        connection,
        "suspend",
        {
            **fence(each.lease for each in suspended),
            "steps": [each.steps for each in suspended],
            "delays": exact_array(each.delay for each in suspended),
            "untils": [each.until for each in suspended],
            "woken": [each.is_woken for each in suspended],
            "progressed": [each.has_progressed for each in suspended],
            "leaving": [each.leaves_lane for each in suspended],
        },
    )


def restart(connection: Connection, restarts: Collection[Restart]) -> set[int]:
    """Have durable messages run from their top with other arguments; forget their steps."""
    return _ids(
        connection,
        "restart",
        {
            **fence(each.lease for each in restarts),
            "payloads": [each.payload for each in restarts],
        },
    )


def retry(connection: Connection, failures: Collection[Failure]) -> set[int]:
    """Count a failure, and make each message ready again after its delay."""
    return _ids(
        connection,
        "retry",
        {
            **fence(failure.lease for failure in failures),
            "errors": [failure.error for failure in failures],
            "delays": exact_array(failure.delay for failure in failures),
            "started": microseconds(failure.started for failure in failures),
            "anew": [failure.anew for failure in failures],
        },
    )


def bury(connection: Connection, failures: Collection[Failure]) -> set[int]:
    """Count a failure, and keep each message as a dead letter."""
    return _ids(
        connection,
        "bury",
        {
            **fence(failure.lease for failure in failures),
            "errors": [failure.error for failure in failures],
            "started": microseconds(failure.started for failure in failures),
            "anew": [failure.anew for failure in failures],
        },
    )


def bury_unreadable(connection: Connection, failures: Collection[Failure]) -> set[int]:
    """Count a failure, and keep each message as a dead letter with readable times.

    A request to cancel the message is dropped.
    """
    return _ids(
        connection,
        "bury_unreadable",
        {
            **fence(failure.lease for failure in failures),
            "errors": [failure.error for failure in failures],
        },
    )


def defer(connection: Connection, deferrals: Collection[Deferral]) -> set[int]:
    """Make each message ready again after its delay, or at once, and count no failure.

    The scope that a deferral pauses is paused in the same transaction. A deferral whose lease was
    lost, or whose message another transaction has locked, pauses nothing.
    """
    if all(each.pauses is None for each in deferrals):
        return _deferred(connection, deferrals)
    with connection.transaction():
        settled = _deferred(connection, deferrals)
        pauses: dict[Pause, timedelta] = {}
        for each in deferrals:
            if each.pauses is not None and each.lease.id in settled:
                pauses[each.pauses] = max(each.delay, pauses.get(each.pauses, each.delay))
        pause(connection, pauses)
    return settled


def pause(connection: Connection, pauses: Mapping[Pause, timedelta]) -> None:
    """Pause channels, lanes and tasks, each for its time from now."""
    # In the order of the names, as other sessions lock them: otherwise two might wait for each
    # other.
    channels = sorted(each for each in pauses if each.channel and each.key is None)
    if channels:
        delays = exact_array(pauses[each] for each in channels)
        given = {"names": [each.channel for each in channels], "delays": delays}
        connection.execute(SQL["pause"], given)
    lanes = sorted(each for each in pauses if each.key is not None)
    if lanes:
        connection.execute(
            SQL["pause_lanes"],
            {
                "channels": [each.channel for each in lanes],
                "keys": [each.key for each in lanes],
                "delays": exact_array(pauses[each] for each in lanes),
            },
        )
    tasks = sorted((each for each in pauses if each.task), key=attrgetter("task"))
    if tasks:
        delays = exact_array(pauses[each] for each in tasks)
        names = [each.task for each in tasks]
        connection.execute(SQL["pause_tasks"], {"tasks": names, "delays": delays})


def _deferred(connection: Connection, deferrals: Collection[Deferral]) -> set[int]:
    return _ids(
        connection,
        "defer",
        {
            **fence(deferral.lease for deferral in deferrals),
            "delays": exact_array(deferral.delay for deferral in deferrals),
            "progress": [deferral.progress for deferral in deferrals],
            "counted": [deferral.counted for deferral in deferrals],
        },
    )


def finish(connection: Connection, ends: Collection[Finish]) -> set[int]:
    """Move messages into history that their own tasks discarded or cancelled."""
    return _ids(
        connection,
        "finish",
        {
            **fence(end.lease for end in ends),
            "errors": [end.error for end in ends],
            "outcomes": [end.outcome for end in ends],
            "started": microseconds(end.started for end in ends),
        },
    )


def release(connection: Connection, leases: Collection[Lease | Claim]) -> set[int]:
    """Make messages that were not run ready again at once, for any worker."""
    return defer(connection, [Deferral(lease, timedelta()) for lease in leases])


def _ids(connection: Connection, verb: str, parameters: dict[str, object]) -> set[int]:
    rows = partitions.repeat_if_missing(connection, SQL[verb], parameters)
    return {row[0] for row in rows}
