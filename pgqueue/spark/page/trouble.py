"""The sections about errors and storms of retries."""

from __future__ import annotations

from collections.abc import Sequence

from pgqueue.spark.page import axes, units
from pgqueue.spark.page.axes import Axis
from pgqueue.spark.page.groups import ROWS, of_all
from pgqueue.spark.page.plots import Mark, Row, Rows, box
from pgqueue.spark.page.rows import Data, total
from pgqueue.spark.page.rows import Row as Values
from pgqueue.spark.page.sections import NO_NAME, Section, counted, empty, shortened
from pgqueue.spark.page.tables import table
from pgqueue.spark.pipeline.errors import CLUSTERS

NARROWEST = 0.006
"""The least width of a storm, so that a short one is visible."""


def errors(data: Data) -> Section:
    """Return the section about errors."""
    rows = data.rows("errors")
    if not rows:
        return empty("errors", "Errors", "Nothing failed", "No attempt ended with an error.")
    first, every = rows[0], total(rows, "attempts")
    part = units.share((first["attempts"] or 0) / every if every else None)
    some = f" of the {CLUSTERS} most frequent errors" if len(rows) >= CLUSTERS else ""
    return Section(
        "errors",
        "Errors",
        f"{shortened(first['error_class'])} was {part} of {counted(every, 'failed attempt')}{some}",
        "Errors of one class, from one place and with the same text are one line; numbers and "
        "ids in the text are left out. Open a line to see an example.",
        [_errors(rows)],
        [table("Errors", rows, without=("pattern", "example"))],
        needs_attention=bool(data.summary.get("dead")),
    )


def _errors(rows: Sequence[Values]) -> Rows:
    drawn = rows[:ROWS]
    axis = axes.from_zero([row["attempts"] for row in drawn])
    return Rows(
        f"Failed attempts{of_all(rows, most=CLUSTERS)}", axis, [_error(row, axis) for row in drawn]
    )


def _error(row: Values, axis: Axis) -> Row:
    more = {
        "Text": row["pattern"],
        "Place": row["place"],
        "Tasks": row["tasks"],
        "Messages": units.number(row["messages"]),
        "Seen": f"{units.when(row['first_at'])} to {units.when(row['last_at'])}",
        "Example": row["example"],
    }
    return Row(
        row["error_class"] or NO_NAME,
        units.number(row["attempts"]),
        [Mark(box(0, 0.25, axis.place(row["attempts"] or 0), 0.75), "bar c2")],
        more=[(label, text) for label, text in more.items() if text],
        note=row["pattern"] or "",
    )


def storms(data: Data) -> Section:
    """Return the section about retry storms."""
    rows = data.rows("retry_storms")
    if not rows:
        return empty(
            "storms",
            "Retry storms",
            "There was no retry storm",
            "No task retried far more often than it usually does.",
        )
    worst = max(rows, key=lambda row: row["retries"] or 0)
    which = f"The worst of {len(rows)} storms: " if len(rows) > 1 else ""
    return Section(
        "storms",
        "Retry storms",
        f"{which}{shortened(worst['task'])} retried "
        f"{units.number(worst['retries'])} times from {units.when(worst['began_at'])}",
        "A storm is a time in which a task retried far more often than it usually does. A bar "
        "says when.",
        [_storms(data, rows)],
        [table("Retry storms", rows)],
        needs_attention=True,
    )


def _storms(data: Data, rows: Sequence[Values]) -> Rows:
    begin = data.facts.get("since") or min(row["began_at"] for row in rows)
    end = data.facts.get("until") or max(row["ended_at"] for row in rows)
    axis = axes.of_time(begin, end)
    return Rows(f"When{of_all(rows)}", axis, [_storm(row, axis) for row in rows[:ROWS]])


def _storm(row: Values, axis: Axis) -> Row:
    left, right = (axis.place(row[name].timestamp()) for name in ("began_at", "ended_at"))
    left = min(left, 1 - NARROWEST)
    usual = units.number(row["usual_retries_per_message"])
    return Row(
        row["task"],
        f"{units.number(row['retries'])} retries",
        [Mark(box(left, 0.2, max(right, left + NARROWEST), 0.8), "bar bad")],
        note=f"{units.number(row['retries_per_message'])} a message, usually {usual}",
    )
