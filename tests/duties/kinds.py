"""Duties for tests: some fail, lack a table or last, and one only counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from threading import Event
from typing import Any

from tests.factories import Connection
from tests.stepping import WITHIN

MINUTE = timedelta(minutes=1)
NONE = timedelta()


class Fails:
    """A duty that can't be done: its role may not create tables, for example."""

    name = "fails"

    did: Mapping[str, int] = {}

    def __init__(self) -> None:
        self.tried = 0

    def may_run(self, connected_for: timedelta) -> bool:
        return True

    def run(self, connection: Connection) -> timedelta:
        self.tried += 1
        connection.execute("SELECT 1 / 0")
        return MINUTE


class Lacks(Fails):
    """A duty whose table may be missing."""

    name = "lacks"
    is_there = False

    def run(self, connection: Connection) -> timedelta:
        self.tried += 1
        if not self.is_there:
            connection.execute("SELECT 1 FROM pgqueue_nothing")
        return NONE


class Notes:
    """A duty that only notes that it was done."""

    def __init__(self, name: str, then: Callable[[], Any] = lambda: None) -> None:
        self.name = name
        self.did: dict[str, int] = {}
        self.done = 0
        self._then = then

    def may_run(self, connected_for: timedelta) -> bool:
        return True

    def run(self, connection: Connection) -> timedelta:
        self.done += 1
        self._then()
        return NONE


class Lasting(Notes):
    """A long duty that waits until it may end."""

    soon = MINUTE

    def __init__(self, then: Callable[[], Any] = lambda: None) -> None:
        super().__init__("lasting", then)
        self.may_end = Event()

    def run(self, connection: Connection) -> timedelta:
        super().run(connection)
        self.may_end.wait(WITHIN)
        return timedelta(hours=1)
