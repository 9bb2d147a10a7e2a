"""Sessions of the database that tests have left behind, each with the name of its test."""

from __future__ import annotations

import time
from bisect import bisect
from contextlib import suppress
from typing import Any, NamedTuple

from asgiref.sync import SyncToAsync
from django.db import OperationalError, connections

from tests.eventually import eventually

PATIENCE = 20.0
"""Seconds: a process that was ended as its test ended may still close its session."""
LEFT = """
SELECT pid, application_name, state, left(query, 200), extract(epoch FROM query_start)::float8
FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""

_began: list[tuple[float, str]] = []


class LeftSession(NamedTuple):
    """A session that somebody else has in the database of a connection."""

    pid: int
    name: str
    state: str
    query: str
    asked_at: float | None

    def __str__(self) -> str:
        return f"{test_at(self.asked_at)}: {self.name!r} is {self.state} after {self.query!r}"


def note(test: str) -> None:
    """Note that a test of this process begins."""
    _began.append((time.time(), test))


def test_at(moment: float | None) -> str:
    """Return the test of this process that ran at a time."""
    index = bisect(_began, moment or 0.0, key=lambda each: each[0])
    return _began[index - 1][1] if index else "before the first test"


def sessions(django: Any) -> list[LeftSession]:
    """Return the sessions of the database, without the session of the connection itself."""
    with django.cursor() as cursor:
        cursor.execute(LEFT)
        return [LeftSession(*row) for row in cursor.fetchall()]


def end() -> list[LeftSession]:
    """End the sessions that are left in the databases of tests, and return them."""
    # The thread of `sync_to_async` lives as long as the process, and keeps its connections.
    SyncToAsync.single_thread_executor.submit(connections.close_all).result(PATIENCE)
    found = []
    for each in connections.all():
        if each.settings_dict["NAME"].startswith("test_"):
            with suppress(OperationalError):
                found += _end(each)
    return found


def _end(django: Any) -> list[LeftSession]:
    with suppress(AssertionError):
        eventually(lambda: not sessions(django), within=PATIENCE)
    left = sessions(django)
    with django.cursor() as cursor:
        for each in left:
            cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [each.pid])
    return left
