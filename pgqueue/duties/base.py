"""Duties: recurring work that is done by one process at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Protocol, runtime_checkable

from pgqueue.engine.values import Connection


class Duty(Protocol):
    """One kind of recurring work. It runs in a transaction that holds the lock of its row."""

    name: str

    @property
    def did(self) -> Mapping[str, int]:
        """The changes of its last run: a count of each kind."""

    def may_run(self, answered_for: timedelta) -> bool:
        """Return whether a process may do it that has had answers for so long."""

    def run(self, connection: Connection) -> timedelta | None:
        """Do it; return when it is due again. None: another process is doing it."""


@runtime_checkable
class LongDuty(Duty, Protocol):
    """A duty that PostgreSQL allows in no transaction, or that may take minutes.

    It runs on a connection of its own, beside the others, and commits as it goes. No lock keeps two
    processes from running it at once: it must do no harm then.
    """

    soon: timedelta
    """How long no other process begins it: after that its runner may be dead, or still running."""


@runtime_checkable
class Hears(Protocol):
    """A duty that has something to do when something is notified."""

    def hear(self, wake: Callable[[], None]) -> None:
        """Have `wake` called, from any thread, when there may be something to do."""

    def close(self) -> None:
        """Hear no more."""


@runtime_checkable
class Looks(Protocol):
    """A duty of which each worker knows something else, so that each looks, whichever does it."""

    def look(self, connection: Connection) -> bool:
        """Declare what this worker knows; return whether something of that is due."""
