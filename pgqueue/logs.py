"""Fields of the run that logs: on every record that a task writes while it runs.

`RunFilter` adds them, `JSONFormatter` writes them; the guide has the settings.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

from pgqueue.signals import fields_of
from pgqueue.tasks.current import running
from pgqueue.values.escaping import on_one_line

FIELDS = ("message_id", "task", "attempt", "channel", "key", "flow_id", "trace_id")
OF_QUERIES = ("query", "batch", "rows", "position", "lag_rows", "lag_seconds")
"""The fields of a record about a batch of a streaming query (`pgqueue.spark.QueryMetrics`)."""


class RunFilter(logging.Filter):
    """Adds `FIELDS` to each record: the values of the run that logs it, or empty ones.

    It belongs to a handler: a logger's filters do not see the records of its children. A
    record that has such an attribute keeps it: pgqueue's own lines name the run that they describe.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the fields; keep the record."""
        context = running.get()
        found = {} if context is None else fields_of(context.task, context)
        for name in FIELDS:
            if not hasattr(record, name):
                value = _trace_id() if name == "trace_id" else found.get(name, "")
                setattr(record, name, on_one_line(value) if isinstance(value, str) else value)
        return True


class JSONFormatter(logging.Formatter):
    """Formats a record as one line of JSON, with the fields of its run, or of its query."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: found for name in FIELDS if (found := getattr(record, name, ""))}
        line |= {
            name: found for name in OF_QUERIES if (found := getattr(record, name, None)) is not None
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = self.formatStack(record.stack_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def _trace_id() -> str:
    # Where nothing has imported it, nothing traces.
    trace = sys.modules.get("opentelemetry.trace")
    context = trace.get_current_span().get_span_context() if trace else None
    return f"{context.trace_id:032x}" if context and context.is_valid else ""
