"""The log lines of a run: taken from Python's `logging`, bounded and redacted.

One handler of the root logger serves all runs of this process. It looks up the run that is under
way in the record's context, so it also finds the run in threads that `sync_to_async` uses. A
record of another run, or of no run, costs one look-up.
"""

from __future__ import annotations

import atexit
import json
import logging
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from threading import Lock
from typing import Any, Protocol

from pgqueue.calls.stand_ins import stand_in
from pgqueue.engine.errors import describe, storable
from pgqueue.engine.run_logs import RunLogRow
from pgqueue.exceptions import TaskTimeout
from pgqueue.redaction import Hidden
from pgqueue.tasks import encryption, redacting
from pgqueue.tasks.current import running
from pgqueue.tasks.declaration import Declaration
from pgqueue.tasks.log_lines import LOGS, OWN
from pgqueue.tasks.redacting import RedactedRun

FIRST = 200
"""Lines that are kept of the beginning of a run."""
LAST = 800
"""Lines that are kept of its end: more, since an error is there."""
FIRST_BYTES = 64 * 1024
LAST_BYTES = 192 * 1024
"""With the first bytes, a quarter of a MiB: what a page can show, and a statement can write again
every few seconds for each of many runs."""
LONGEST = 8 * 1024
"""Characters of a text that are kept; of a traceback, as many more."""
LONGEST_NAME = 200
PER_LINE = 64
"""Bytes that a line takes beside its texts."""

Line = tuple[float, str, str, str]
"""The time (seconds since the epoch), the level, the name of the logger, and the text."""


class LoggedRun(RedactedRun, Protocol):
    """A run, a `TaskContext`, as far as its log lines are concerned."""

    task: Declaration[Any, Any]
    lines: RunLines | None


class RunLines:
    """The lines of one run so far: the first and the last ones.

    Args:
        context: the run.
        level: the least level that is kept, by name.
    """

    def __init__(self, context: LoggedRun, level: str) -> None:
        self._context = context
        self.level: int = logging.getLevelNamesMapping()[level]
        self._first: list[Line] = []
        self._last: deque[Line] = deque()
        self._bytes = 0
        self._last_bytes = 0
        self._dropped = 0
        self._is_full = False
        self._has_changed = False
        self._adding = Lock()
        self._hidden: tuple[int, Hidden] | None = None

    def add(self, record: logging.LogRecord) -> None:
        """Add a record. Formatting it may raise, since its arguments may be anything."""
        hidden = self._hiding()
        line = (
            record.created,
            storable(str(record.levelname))[:LONGEST_NAME],
            storable(str(record.name))[:LONGEST_NAME],
            _text(record, hidden, self._context),
        )
        with self._adding:
            self._add(line)

    def _add(self, line: Line) -> None:
        self._has_changed = True
        size = _size(line)
        if not self._is_full:
            if len(self._first) < FIRST and self._bytes + size <= FIRST_BYTES:
                self._first.append(line)
                self._bytes += size
                return
            self._is_full = True
        self._last.append(line)
        self._last_bytes += size
        while len(self._last) > LAST or self._last_bytes > LAST_BYTES:
            self._last_bytes -= _size(self._last.popleft())
            self._dropped += 1

    def take(self) -> RunLogRow | None:
        """Return the lines as a row to store; None: there are no new ones since the last call."""
        with self._adding:
            if not self._has_changed:
                return None
            self._has_changed = False
            first, last, dropped = list(self._first), list(self._last), self._dropped
        if dropped:
            at = last[0][0] if last else first[-1][0]
            first.append((at, "INFO", OWN, f"[{dropped} lines are not kept]"))
        claim = self._context.claim
        return RunLogRow(claim.id, claim.attempt, self._encoded(first + last))

    def put_back(self) -> None:
        """Note that the taken lines were not stored."""
        self._has_changed = True

    def _encoded(self, lines: Sequence[Line]) -> str:
        text = json.dumps(lines)
        if not self._is_encrypted:
            return text
        return encryption.enveloped(self._context.task.name, LOGS, text)

    @property
    def _is_encrypted(self) -> bool:
        return self._hiding() is redacting.EVERYTHING

    def _hiding(self) -> Hidden:
        """Return the `Hidden` of the run; a durable run has further values after each step."""
        columns = list(self._context.stored_columns())
        if self._hidden is None or self._hidden[0] != len(columns):
            self._hidden = len(columns), redacting.hiding(self._context.claim, columns)
        return self._hidden[1]


class RunLogHandler(logging.Handler):
    """Gives records to the run that logs them. It never raises because of a record."""

    def handle(self, record: logging.LogRecord) -> bool:
        """Add the record to the lines of the run that is under way; without a lock."""
        run = running.get()
        lines = getattr(run, "lines", None)
        if lines is not None and record.levelno >= lines.level and not _is_own(record.name):
            try:
                lines.add(record)
            except TaskTimeout:
                raise  # the run's time is over: this error was raised in the thread, not here
            except Exception:
                with suppress(Exception):
                    self.handleError(record)
        last = logging.lastResort
        if last is not None and record.levelno >= last.level and not _is_handled(record.name):
            # Without this handler, Python would print the record.
            last.handle(record)
        return True

    def handleError(self, record: logging.LogRecord) -> None:
        """Print nothing: the other handlers tell about a record that has no text."""


HANDLER = RunLogHandler()
# Python clears this module's names as it exits; an object that is deleted later may still log.
atexit.register(logging.getLogger().removeHandler, HANDLER)


def keep(context: LoggedRun, level: str) -> RunLines:
    """Have the lines of a run kept from now on.

    Args:
        level: the least level that is kept, by name.
    """
    root = logging.getLogger()
    if HANDLER not in root.handlers:  # the project may have configured logging again
        root.addHandler(HANDLER)
    context.lines = lines = RunLines(context, level)
    return lines


def _text(record: logging.LogRecord, hidden: Hidden, context: LoggedRun) -> str:
    """Return the redacted text of a record; an encrypted one is kept as it is."""
    said = _message(record)
    is_whole = hidden is redacting.EVERYTHING
    text = storable(said[:LONGEST] if is_whole else hidden.shown(said))[:LONGEST]
    error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
    if error is not None:
        shown = error if is_whole else stand_in(error, hidden)
        worker = str(context.claim.worker_id)
        entry = json.loads(describe(shown, attempt=context.claim.attempt, worker=worker))
        text += "\n" + entry["traceback"][-LONGEST:]
    return text


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except TaskTimeout:
        raise
    except Exception as error:
        return f"{str(record.msg)[:LONGEST]} [its arguments do not fit: {type(error).__name__}]"


def _size(line: Line) -> int:
    return PER_LINE + sum(len(each.encode()) for each in line[1:])


def _is_own(name: str) -> bool:
    return name == OWN or name.startswith(f"{OWN}.")


def _is_handled(name: str) -> bool:
    """Return whether a logger of this name has a handler beside ours."""
    logger: Any = logging.getLogger(name)
    while logger is not None:
        if any(each is not HANDLER for each in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False
