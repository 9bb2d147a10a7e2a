"""End a run whose message waits: what the worker has to store of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NoReturn, Protocol

from pgqueue.calls.outcomes import Suspended
from pgqueue.durable.records import Records
from pgqueue.engine.values import Claim
from pgqueue.exceptions import InvalidStep, Suspend
from pgqueue.tasks.declaration import Declaration
from pgqueue.values.instants import as_instant
from pgqueue.values.number_checks import LONGEST, as_timedelta

Times = float | timedelta | datetime


class SuspendableRun(Protocol):
    """A run that may wait: a `DurableContext`."""

    task: Declaration[Any, Any]
    claim: Claim
    database: str
    records: Records


@dataclass(frozen=True)
class Until:
    """When a wait ends by itself: after a delay, at a time, or never."""

    delay: timedelta | None = None
    time: datetime | None = None

    @classmethod
    def checked(cls, what: str, given: Times | None, *, is_required: bool = False) -> Until:
        """Return when a wait ends.

        Args:
            given: seconds, a timedelta or an aware datetime; None: never.
            is_required: whether the wait must end.

        Raises:
            InvalidStep: it has another type, or is invalid; `what` names it.
        """
        try:
            if given is None and not is_required:
                return cls()
            if isinstance(given, datetime):
                return cls(time=as_instant(given))
            delay = as_timedelta(given)
            return cls(max(min(delay, LONGEST), timedelta()))
        except (TypeError, ValueError) as error:
            raise InvalidStep(f"{what}{given!r:.99}: {error}") from error


NEVER = Until()


def suspend(
    run: SuspendableRun, until: Until = NEVER, *rows: Mapping[str, Any], is_woken: bool = False
) -> NoReturn:
    """End this run: the message goes on at a time, or when it is woken.

    Args:
        rows: the step that waits, if it is not stored yet.
        is_woken: whether a signal may wake it.
    """
    run.records.note_unvisited()
    raise Suspend(
        Suspended(
            steps=run.records.take_unstored(*rows) or "[]",
            delay=until.delay,
            until=until.time,
            is_woken=is_woken,
            has_progressed=run.records.has_progressed,
            leaves_lane=not run.task.keeps_lane,
        )
    )
