"""Recurring work that whichever worker finds it due does, one file each."""

from __future__ import annotations

from datetime import timedelta
from typing import Protocol

from pgqueue.engine.values import Connection


class Duty(Protocol):
    """One kind of it. Runs in a transaction that holds the lock of its row."""

    name: str

    def may_run(self, connected_for: timedelta) -> bool:
        """Whether one who has been connected for so long may do it."""

    def run(self, connection: Connection) -> timedelta:
        """Do it; return when it is due again."""
