"""Store the log lines of this worker's runs: every few seconds, and with their endings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from threading import Lock
from time import monotonic

from pgqueue.engine import run_logs as engine
from pgqueue.engine.culprits import may_be_own
from pgqueue.engine.run_logs import RunLogRow
from pgqueue.engine.values import Connection
from pgqueue.tasks import TaskContext
from pgqueue.tasks.run_logs import RunLines, keep
from pgqueue.values.escaping import logger_of

logger = logger_of(__name__)

EVERY = 2.0
"""Seconds between two writes of the lines of a run that is under way."""
BATCH = 50
"""Runs of a statement: it has 25 MB at most."""


class RunLogs:
    """The lines of the runs that keep them. Any thread may call `begin` and `end`.

    Args:
        wake: ends the nap of the service that calls `store`.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._changing = Lock()
        self._live: set[RunLines] = set()
        self._ended: list[RunLines] = []
        self.next_at = inf
        """The time of the next write of live lines, by the monotonic clock."""

    def begin(self, context: TaskContext, level: str) -> None:
        """Keep the lines of a run."""
        lines = keep(context, level)
        with self._changing:
            self._live.add(lines)
            is_first = self.next_at == inf
            if is_first:
                self.next_at = monotonic() + EVERY
        if is_first:
            self._wake()

    def end(self, lines: RunLines) -> None:
        """Have the last lines of a run stored. Call this before its ending is handed over."""
        with self._changing:
            if lines not in self._live:
                return
            self._live.discard(lines)
            self._ended.append(lines)
        self._wake()

    @property
    def is_done(self) -> bool:
        """Whether the lines of all runs that have ended are stored."""
        return not self._ended

    def store(self, connection: Connection) -> None:
        """Store the lines of runs that have ended, and, if they are due, of the others."""
        if not self._ended and self.next_at == inf:
            return
        with self._changing:
            ended, live = list(self._ended), []
            if monotonic() >= self.next_at:
                live = list(self._live)
                self.next_at = monotonic() + EVERY if live else inf
        for number in range(0, len(ended) + len(live), BATCH):
            _store(connection, [*ended, *live][number : number + BATCH])
        with self._changing:
            del self._ended[: len(ended)]


def _store(connection: Connection, lines: Sequence[RunLines]) -> None:
    rows: dict[tuple[int, int], RunLogRow] = {}
    for each in lines:
        try:
            row = each.take()
        except Exception:  # such as a key that is missing
            logger.exception("The log lines of a run are not kept")
            continue
        if row is not None:
            rows[row.id, row.attempt] = row
    try:
        if rows:
            engine.store(connection, list(rows.values()))
    except Exception as error:
        if may_be_own(error):
            logger.exception("The log lines of %s runs are not kept", len(rows))
            return
        for each in lines:
            each.put_back()
        raise
