"""Recurring work that whichever worker finds it due does, one file each."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Protocol, runtime_checkable

from pgqueue.engine.values import Connection


class Duty(Protocol):
    """One kind of it. Runs in a transaction that holds the lock of its row."""

    name: str

    @property
    def did(self) -> Mapping[str, int]:
        """What came of it when it was last done: how many of what."""

    def may_run(self, answered_for: timedelta) -> bool:
        """Whether one who has had answers for so long may do it."""

    def run(self, connection: Connection) -> timedelta | None:
        """Do it; return when it is due again. None: somebody else is at it."""


@runtime_checkable
class LongDuty(Duty, Protocol):
    """One that PostgreSQL allows in no transaction, or that may take its time.

    It runs on a connection of its own, beside the others, and commits as it goes. Nothing keeps two
    from being at it: they must do no harm.
    """

    soon: timedelta
    """How long nobody else begins with it: then its holder may be dead, or still be at it."""


@runtime_checkable
class Looks(Protocol):
    """A duty of which each worker knows something else, so that each looks, whoever does it."""

    def look(self, connection: Connection) -> bool:
        """Say what this worker knows; return whether something of that is due."""
