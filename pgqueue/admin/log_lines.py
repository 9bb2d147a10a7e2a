"""The log lines of a message's runs on its page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import connections
from django.template.loader import render_to_string

from pgqueue.admin.live import words
from pgqueue.admin.steps import known_task
from pgqueue.conf import settings
from pgqueue.engine import run_logs as engine
from pgqueue.redaction import Hidden
from pgqueue.states import State
from pgqueue.tasks.log_lines import LogLine, shown_lines

LIMIT = 2000
"""Lines that a page shows: the last ones."""


def log_lines_of(message: Any, hidden: Hidden) -> Sequence[LogLine]:
    """Return the log lines of the runs of a message, redacted.

    Args:
        hidden: hides the redacted values of its columns.
    """
    return shown_lines(engine.load(connections[settings().database], message.pk), hidden)


def section(lines: Sequence[LogLine]) -> str:
    """Return the section of the page as HTML; empty without lines."""
    context = {"lines": lines[-LIMIT:], "is_all": len(lines) <= LIMIT, "limit": LIMIT}
    return render_to_string("admin/pgqueue/message/logs.html", context)


def live(message: Any) -> dict[str, Any] | None:
    """Return the data of the page's script, which asks for what is new; None: nothing will be."""
    if getattr(message, "state", State.DEAD) == State.DEAD:
        return None
    task = known_task(message.task)
    has_some = message.log_lines or message.excerpts["progress_text"]
    may_have = task is not None and (task.log_level is not None or task.takes_context)
    return {"url": "?json=1", "words": words()} if has_some or may_have else None
