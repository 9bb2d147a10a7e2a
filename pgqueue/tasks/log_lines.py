"""The log lines of a message's runs, as they are read again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Protocol

from asgiref.sync import sync_to_async
from django.db import connections

from pgqueue.codec.envelope import is_envelope, token_in
from pgqueue.engine import run_logs as engine
from pgqueue.engine.run_logs import StoredLog
from pgqueue.exceptions import DecryptionFailed, MissingEncryptionKey
from pgqueue.redaction import Hidden
from pgqueue.tasks import encryption
from pgqueue.tasks.declaration import Declaration
from pgqueue.values.instants import of_project

LOGS = "logs"
"""The name of its part of a message, for encryption."""
OWN = "pgqueue"
UNREADABLE = "[encrypted: no key decrypts it]"
ENCRYPTED = "[encrypted]"


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line that a run has logged.

    Attributes:
        time: the time by the clock of the worker.
        level: the name of the level, such as "INFO".
        logger: the name of the logger; "pgqueue" for a note about lines that are not kept.
        text: the message, and the traceback of its error if there is one.
        attempt: the number of the run, as in `TaskContext.attempt`.
    """

    time: datetime
    level: str
    logger: str
    text: str
    attempt: int


class _Result(Protocol):
    """A result, as far as its lines are concerned."""

    @property
    def task(self) -> Declaration[Any, Any]:
        """Its task."""

    @property
    def _number(self) -> int: ...


class LoggedResult:
    """The part of a result that reads the log lines of its message."""

    __slots__ = ()

    def logs(self: _Result) -> list[LogLine]:
        """Return the log lines of its runs that are stored now: see `@task(logs=…)`.

        Of each run, the first and the last lines are kept; of the message, the last 100 runs. A run
        that is under way stores its lines every two seconds.

        Returns:
            The lines in their order. Where no key decrypts the lines of a run, a note stands for
            them.

        Raises:
            TaskResultDoesNotExist: the message is not stored.
        """
        stored = engine.load(connections[self.task.alias], self._number)
        return lines_of(self.task.name, stored)

    async def alogs(self: _Result) -> list[LogLine]:
        """Return the log lines of its runs, from async code."""
        return await sync_to_async(LoggedResult.logs)(self)


def lines_of(task: str, stored: Sequence[StoredLog]) -> list[LogLine]:
    """Return the stored lines of a message. Never raises: a note stands for unreadable lines.

    Args:
        task: the name of the message's task.
    """
    return [line for each in stored for line in _lines_of(task, each)]


def shown_lines(stored: Sequence[StoredLog], hidden: Hidden) -> list[LogLine]:
    """Return the stored lines of a message for people: nothing is decrypted.

    Args:
        hidden: hides the redacted values of the message, by the rules of today.
    """
    return [
        replace(line, text=hidden(line.text))
        for each in stored
        for line in (
            [_note(ENCRYPTED, each.attempt)]
            if is_envelope(each.lines)
            else _parsed(json.loads(each.lines), each.attempt)
        )
    ]


def _lines_of(task: str, stored: StoredLog) -> Iterator[LogLine]:
    try:
        found = json.loads(stored.lines)
        if token := token_in(found):
            found = json.loads(encryption.unseal(task, LOGS, token))
    except (DecryptionFailed, MissingEncryptionKey, ImportError):
        yield _note(UNREADABLE, stored.attempt)
    else:
        yield from _parsed(found, stored.attempt)


def _parsed(lines: Any, attempt: int) -> Iterator[LogLine]:
    for line in lines if isinstance(lines, list) else []:
        with suppress(TypeError, ValueError, OverflowError, OSError):
            at, level, logger, text = line
            moment = of_project(datetime.fromtimestamp(at, UTC))
            yield LogLine(moment, str(level), str(logger), str(text), attempt)


def _note(text: str, attempt: int) -> LogLine:
    return LogLine(of_project(datetime.fromtimestamp(0, UTC)), "INFO", OWN, text, attempt)
