"""The log lines of one message, for commands."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from django.db import connections

from pgqueue.database.migration_check import needing_tables
from pgqueue.engine import run_logs as engine
from pgqueue.models import History, Message
from pgqueue.states import State
from pgqueue.tasks import redacting
from pgqueue.tasks.log_lines import LogLine, shown_lines
from pgqueue.values.escaping import in_lines, on_one_line

INDENT = "    "


class LogLines:
    """The lines of a message, each of which is returned once.

    Args:
        alias: the database that the message is in.
    """

    def __init__(self, alias: str, id: int) -> None:
        self._alias = alias
        self._id = id
        self._told: Counter[LogLine] = Counter()
        self.is_over = False
        """Whether the message had ended, or was dead, before the last look."""

    def look(self) -> list[LogLine] | None:
        """Return the lines that the last look has not returned; None: there is no such message."""
        with needing_tables(self._alias):
            live = Message.objects.using(self._alias).filter(pk=self._id).first()
            row = live or History.objects.using(self._alias).filter(pk=self._id).first()
            if row is None:
                return None
            self.is_over = live is None or live.state == State.DEAD
            columns = {"payload": row.payload, "metadata": row.metadata, "progress": row.progress}
            _, hidden = redacting.redacted_values(row.task, columns)
            found = shown_lines(engine.load(connections[self._alias], self._id), hidden)
        told, self._told = self._told, Counter(found)
        return list(_without(told, found))


def _without(told: Counter[LogLine], found: list[LogLine]) -> Iterator[LogLine]:
    for line in found:
        if told[line]:
            told[line] -= 1
        else:
            yield line


def as_text(line: LogLine) -> str:
    """Return a line for people: further lines of its text are indented."""
    first, *more = line.text.splitlines() or [""]
    at = line.time.isoformat(timespec="milliseconds")
    head = on_one_line(f"{at} {line.attempt} {line.level} {line.logger}: {first}")
    return "\n".join([head, *(f"{INDENT}{in_lines(each)}" for each in more)])


def as_json(line: LogLine) -> str:
    """Return a line as a JSON document."""
    return json.dumps(
        {
            "time": line.time.isoformat(),
            "attempt": line.attempt,
            "level": line.level,
            "logger": line.logger,
            "text": line.text,
        }
    )
