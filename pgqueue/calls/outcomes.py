"""How a run can end, as values: `worker.failures` decides it, `worker.settler` writes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The task returned; `result` is what, as JSON."""

    result: str | None
    word: ClassVar[str] = "succeeded"
    error: ClassVar[None] = None


@dataclass(frozen=True, slots=True)
class Completed:
    """A durable task returned `result`, as JSON. Its steps move into history.

    Attributes:
        steps: its steps that are not stored yet, as JSON; None: there are none.
    """

    result: str | None
    steps: str | None
    word: ClassVar[str] = "succeeded"
    error: ClassVar[None] = None


@dataclass(frozen=True, slots=True)
class Suspended:
    """A durable task waits: for a time, or for a signal. Nothing is charged.

    Attributes:
        steps: the steps that are not stored yet, as JSON. The last one is what it waits for.
        delay: how long it waits at most; None: until it is woken, or as `until` says.
        until: when it goes on; None: see `delay`.
        is_woken: whether a signal may wake it.
        has_progressed: whether it has finished a step.
        leaves_lane: whether its ordered lane goes on meanwhile.
    """

    steps: str
    delay: timedelta | None = None
    until: datetime | None = None
    is_woken: bool = False
    has_progressed: bool = False
    leaves_lane: bool = False
    word: ClassVar[str] = "deferred"
    error: ClassVar[None] = None


@dataclass(frozen=True, slots=True)
class Continued:
    """A durable task goes on from its top with other arguments: as the same message, without steps.

    Attributes:
        payload: its arguments, as JSON.
    """

    payload: str
    word: ClassVar[str] = "deferred"
    error: ClassVar[None] = None


@dataclass(frozen=True, slots=True)
class Retried:
    """It raised, and is tried again after `delay`."""

    error: BaseException
    entry: str
    delay: timedelta
    anew: bool = False
    """Whether failures are counted from here: a durable run has finished a step."""
    word: ClassVar[str] = "failed"

    @property
    def consequence(self) -> str:
        """The consequence for the message, in words for the log."""
        seconds = self.delay.total_seconds()
        if not seconds:
            return "retried at once"
        return f"retried in {seconds:.0f} s" if seconds >= 10 else f"retried in {seconds:.2g} s"


@dataclass(frozen=True, slots=True)
class Died:
    """It raised, and is not to be tried again."""

    error: BaseException
    entry: str
    anew: bool = False
    """As of `Retried`."""
    word: ClassVar[str] = "died"
    consequence: ClassVar[str] = "dead letter"


@dataclass(frozen=True, slots=True)
class Deferred:
    """It runs again after `delay`, as it asked. Nothing is charged."""

    delay: timedelta
    progress: str | None
    """What it noted for the next run, as JSON; None: nothing new."""
    pauses: str = ""
    """The scope that is paused for the same time: channel, key or task; "": none."""
    word: ClassVar[str] = "deferred"
    error: ClassVar[None] = None


@dataclass(frozen=True, slots=True)
class Discarded:
    """It found its message not worth running."""

    entry: str
    word: ClassVar[str] = "discarded"
    error: ClassVar[None] = None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """It gave up: by itself, or since it was asked to. `entry` says why, where there is more."""

    entry: str | None
    word: ClassVar[str] = "cancelled"
    error: ClassVar[None] = None


@dataclass(frozen=True, slots=True)
class HandedBack:
    """It was not run; others may take it after `delay`. Nothing is charged.

    Attributes:
        counted: JSON that the message's metadata keep as `handed_back`: the reason, and how often
            in a row. None: they stay as they are.
    """

    delay: timedelta = timedelta()
    counted: str | None = None
    word: ClassVar[str] = "handed back"
    error: ClassVar[None] = None


@dataclass(frozen=True, slots=True)
class Closed:
    """Nothing is left to write: it was settled with its effects, or was no longer ours."""

    delay: timedelta = timedelta()
    """After which it is due again, if it was settled so."""
    written: Ending | None = field(default=None, compare=False)
    """The ending that was written with the effects of the run; None: there is none."""
    word: ClassVar[str] = "closed"
    error: ClassVar[None] = None


Ending = (
    Succeeded
    | Completed
    | Suspended
    | Continued
    | Retried
    | Died
    | Deferred
    | Discarded
    | Cancelled
    | HandedBack
    | Closed
)
