"""Sessions that are stepped by hand: one waits for a lock, another goes on, none ever sleeps."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import psycopg

from tests.eventually import eventually

WITHIN = 20.0
"""Seconds: longer than anything here takes, shorter than a test may."""


@dataclass(frozen=True)
class Step:
    """A verb under way in another thread."""

    pid: int
    future: Future[Any]
    observer: psycopg.Connection[Any]

    def waits(self) -> None:
        """Return once it waits for a lock that another session holds; fail if it ends instead."""
        eventually(self._is_blocked, within=WITHIN, what="it does not wait for a lock")

    def result(self) -> Any:
        """Wait for it to end; return, or raise, what it did."""
        return self.future.result(WITHIN)

    def _is_blocked(self) -> bool:
        if self.future.done():
            raise AssertionError(f"it did not wait, and came to {self.future}")
        row = self.observer.execute(
            "SELECT wait_event_type = 'Lock' AND cardinality(pg_blocking_pids(pid)) > 0 "
            "FROM pg_stat_activity WHERE pid = %s",
            [self.pid],
        ).fetchone()
        return bool(row and row[0])


def is_waited_for(observer: psycopg.Connection[Any], holder: psycopg.Connection[Any]) -> bool:
    """Return whether some session waits for a lock of `holder`."""
    row = observer.execute(
        "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid)))",
        [holder.info.backend_pid],
    ).fetchone()
    return bool(row and row[0])


class Stepper:
    """Starts verbs in threads, and sees from a session of its own whether they wait."""

    def __init__(self, observer: psycopg.Connection[Any]) -> None:
        self._observer = observer
        self._threads = ThreadPoolExecutor(thread_name_prefix="step")

    def __enter__(self) -> Stepper:
        return self

    def __exit__(self, *raised: object) -> None:
        # A test that failed may have left one waiting: it ends with its connection.
        self._threads.shutdown(wait=False, cancel_futures=True)

    def start(
        self,
        verb: Callable[..., Any],
        connection: psycopg.Connection[Any],
        *arguments: Any,
        **options: Any,
    ) -> Step:
        """Call `verb(connection, …)` in a thread."""
        future = self._threads.submit(verb, connection, *arguments, **options)
        return Step(connection.info.backend_pid, future, self._observer)
