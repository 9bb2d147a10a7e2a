"""How a run can end, as values: `worker.failures` decides it, `worker.settler` writes it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The task returned; `result` is what, as JSON."""

    result: str | None
    word: ClassVar[str] = "succeeded"
    error: ClassVar[None] = None


@dataclass(frozen=True, slots=True)
class Retried:
    """It raised, and is tried again after `delay`."""

    error: BaseException
    entry: str
    delay: timedelta
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
    word: ClassVar[str] = "died"
    consequence: ClassVar[str] = "dead letter"


@dataclass(frozen=True, slots=True)
class Deferred:
    """It runs again after `delay`, as it asked. Nothing is charged."""

    delay: timedelta
    progress: str | None
    """What it noted for the next run, as JSON; None: nothing new."""
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
    word: ClassVar[str] = "closed"
    error: ClassVar[None] = None


Ending = Succeeded | Retried | Died | Deferred | Discarded | Cancelled | HandedBack | Closed
