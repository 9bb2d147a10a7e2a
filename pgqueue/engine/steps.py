"""The steps of durable tasks: the finished ones, and the step that the message waits for.

A step is stored by the run that did it, fenced by its lease. A message that waits is `scheduled` or
`held`; its end moves its steps into history.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from pgqueue.database.sql_files import load as load_statements
from pgqueue.engine.values import Claim, Connection, Cursors, array, exact, fence, microseconds

SQL = load_statements(__name__)

Kind = Literal["step", "atomic", "value", "sleep", "signal", "event", "call"]
StepState = Literal["done", "failed", "retrying", "waiting"]
Stored = Literal["stored", "lost", "done"]


class StoredStep(NamedTuple):
    """A step of a message.

    Attributes:
        number: its place in the order in which steps began.
        function: the name of its function, or of the class of the signal that it waits for.
        result, error: JSON texts; the error has the form of `errors.describe`.
        tries: the number of its tries.
        until: the time of its next try, or the end of its wait.
        is_over: whether that time has come, by the database's clock.
        unvisited: whether the last run that waited or returned had not called it.
    """

    name: str
    number: int
    kind: str
    function: str = ""
    state: str = "done"
    result: str | None = None
    error: str | None = None
    tries: int = 1
    until: datetime | None = None
    is_over: bool = False
    unvisited: bool = False


class SeenStep(NamedTuple):
    """A step of a message, live or ended, for people.

    Attributes:
        function: as in `StoredStep`; of a wait for a signal, the name of the payload's class.
        signals: the names of the signals that it waits for.
        result: JSON text, or its beginning.
        error: JSON text.
        finished_at: None: it is not over.
        until: when it is tried again, or its wait is over.
        unvisited: whether the last run that waited or returned had not called it.
    """

    name: str
    number: int
    kind: str
    state: str
    function: str
    signals: list[str] | None
    result: str | None
    error: str | None
    tries: int
    started_at: datetime
    finished_at: datetime | None
    until: datetime | None
    unvisited: bool


class SeenSignal(NamedTuple):
    """A signal to a message, live or ended.

    Attributes:
        sender_id: the message whose run has sent it; None: no run has.
        taken_by: the name of the step that has taken it; None: none has.
        payload: JSON text, or its beginning.
    """

    id: int
    name: str
    sent_at: datetime
    dedupe_id: str | None
    sender_id: int | None
    taken_by: str | None
    payload: str | None


class SentSignal(NamedTuple):
    """A signal to a live message, which a run of another one has sent.

    Attributes:
        message_id: the message that it was sent to.
        taken_by: as of `SeenSignal`.
    """

    id: int
    message_id: int
    name: str
    sent_at: datetime
    taken_by: str | None


class StepWaits(NamedTuple):
    """The runs of a task that wait for the same reason.

    Attributes:
        reason: sleep, signal, event, call (other messages) or retry (of a step).
        seconds: the time since the first wait began.
    """

    task: str
    reason: str
    number: int
    seconds: float


class TakenSignal(NamedTuple):
    """The result of taking a signal.

    Attributes:
        came_of: taken, over (the wait has timed out), none, or lost (the lease).
        result: the step's result as JSON text: the signal's id, name and payload.
    """

    came_of: Literal["taken", "over", "none", "lost"]
    result: str | None


def load(connection: Cursors, id: int) -> list[StoredStep]:
    """Return the steps of a message in the order in which they began."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["load"], {"id": id})
        return [StoredStep(*row) for row in cursor.fetchall()]


def load_kept(connection: Cursors, id: int) -> list[StoredStep]:
    """Return the steps of a live or ended message in the order in which they began."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["load_kept"], {"id": id})
        return [StoredStep(*row) for row in cursor.fetchall()]


def find_step(connection: Cursors, id: int, name: str) -> StoredStep | None:
    """Return one step of a message."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["find"], {"id": id, "name": name})
        row = cursor.fetchone()
    return StoredStep(*row) if row else None


def go_on(connection: Cursors, ids: Collection[int]) -> bool:
    """Return whether one of the messages has neither ended nor died."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["go_on"], {"ids": list(ids)})
        return bool(cursor.fetchone()[0])


def again(connection: Connection, id: int, name: str) -> str | None:
    """Have a message do a step again that is done or has failed; return the state that it was in.

    A message that waits begins a run now; a dead one waits for a replay. None: it runs, or it has
    no such step.
    """
    row = connection.execute(SQL["again"], {"id": id, "name": name}).fetchone()
    return row[0] if row else None


def seen(connection: Cursors, id: int, *, limit: int, excerpt: int) -> list[SeenStep]:
    """Return the last steps of a message, live or ended, in their order.

    Args:
        limit: how many, at most.
        excerpt: characters of each result, at most.
    """
    with connection.cursor() as cursor:
        cursor.execute(SQL["seen"], {"id": id, "limit": limit, "excerpt": excerpt})
        return [SeenStep(*row) for row in reversed(cursor.fetchall())]


def signals(connection: Cursors, id: int, *, limit: int, excerpt: int) -> list[SeenSignal]:
    """Return the last signals to a message, live or ended, in their order; else as `seen`."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["signals"], {"id": id, "limit": limit, "excerpt": excerpt})
        return [SeenSignal(*row) for row in reversed(cursor.fetchall())]


def signals_out(connection: Cursors, id: int, *, limit: int) -> list[SentSignal]:
    """Return the last signals that the runs of a message have sent to live messages."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["signals_out"], {"id": id, "limit": limit})
        return [SentSignal(*row) for row in reversed(cursor.fetchall())]


def waits(connection: Connection, *, bound: int, limit: int) -> list[StepWaits]:
    """Return the waits of durable runs by task and reason, the longest ones first.

    Args:
        bound: waits that are counted for each reason, at most: those that have lasted longest.
        limit: pairs of a task and a reason, at most.
    """
    given = {"bound": bound, "limit": limit}
    return [StepWaits(*row) for row in connection.execute(SQL["waits"], given)]


def done(connection: Cursors, id: int) -> dict[str, int]:
    """Return the names of the steps that a live or ended message has done, with their numbers."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["done"], {"id": id})
        return dict(cursor.fetchall())


def copy(connection: Cursors, id: int, to: int, *, upto: int) -> None:
    """Give a new message the steps that another one has finished, up to a number."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["copy"], {"id": id, "to": to, "upto": upto})


def store(
    connection: Cursors,
    claim: Claim,
    step: StoredStep,
    *,
    took: timedelta = timedelta(),
    delay: timedelta | None = None,
    until: datetime | None = None,
    values: str | None = None,
) -> Stored:
    """Store what became of a step.

    Args:
        took: how long its last try took.
        delay: how long from now until its next try, or the end of its wait; None: see `until`.
        until: the time of this; None: there is none.
        values: side values that are not stored yet, as JSON.

    Returns:
        stored; lost, if the lease does not hold any more; done, if the step was done already.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            SQL["store"],
            {
                **_fence(claim),
                "name": step.name,
                "number": step.number,
                "kind": step.kind,
                "function": step.function,
                "state": step.state,
                "result": step.result,
                "error": step.error,
                "tries": step.tries,
                "delay": exact(delay),
                "until": until,
                "took": took,
                "given": values,
            },
        )
        came_of: Stored = cursor.fetchone()[0]
    return came_of


class DoneStep(NamedTuple):
    """A step that is done, as `store_done` takes it.

    Attributes:
        claim: the message, with the lease of the run.
        took: how long its last try took.
    """

    claim: Claim
    step: StoredStep
    took: timedelta


def store_done(connection: Connection, done: Sequence[DoneStep]) -> set[tuple[int, str]]:
    """Store steps that are done, of several messages, in one statement.

    Args:
        done: no step twice.

    Returns:
        The ids of the messages and the names of the steps that are stored. For a missing step,
        `store` tells whether its lease is lost, or waits for the lock of its message.
    """
    steps = [each.step for each in done]
    given = {
        **fence(each.claim for each in done),
        "names": [step.name for step in steps],
        "numbers": array(step.number for step in steps),
        "kinds": [step.kind for step in steps],
        "functions": [step.function for step in steps],
        "results": [step.result for step in steps],
        "tries": array(step.tries for step in steps),
        "took": microseconds(each.took.total_seconds() for each in done),
    }
    return set(connection.execute(SQL["store_done"], given).fetchall())


def watch(connection: Cursors, claim: Claim, flow_id: int, watched_id: int) -> None:
    """Have a run wait for the messages of a call again, of which one was replayed.

    Args:
        flow_id: the flow of the call.
        watched_id: the first of its messages.
    """
    with connection.cursor() as cursor:
        given = {**_fence(claim), "flow_id": flow_id, "watched_id": watched_id}
        cursor.execute(SQL["watch"], given)


def note_unvisited(connection: Cursors, claim: Claim, names: Collection[str]) -> None:
    """Note of each step that is marked as unvisited that it was called, and of others that not."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["note_unvisited"], {**_fence(claim), "names": list(names)})


def take_signal(
    connection: Cursors,
    claim: Claim,
    step: StoredStep,
    names: Sequence[str],
    *,
    values: str | None = None,
) -> TakenSignal:
    """Take the first signal with one of the names; store it as the result of the step.

    Args:
        values: side values that are not stored yet, as JSON.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            SQL["take_signal"],
            {
                **_fence(claim),
                "name": step.name,
                "number": step.number,
                "kind": step.kind,
                "names": list(names),
                "given": values,
            },
        )
        return TakenSignal(*cursor.fetchone())


def _fence(claim: Claim) -> dict[str, object]:
    return {"id": claim.id, "attempt": claim.attempt, "worker_id": claim.worker_id}
