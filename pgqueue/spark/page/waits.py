"""Durable tasks: what their runs waited for."""

from __future__ import annotations

from collections.abc import Sequence

from pgqueue.spark.page import axes, units
from pgqueue.spark.page.axes import Axis
from pgqueue.spark.page.groups import LOOKS, ROWS, of_all
from pgqueue.spark.page.plots import Row, Rows, Series, span
from pgqueue.spark.page.rows import Data
from pgqueue.spark.page.rows import Row as Values
from pgqueue.spark.page.sections import NO_NAME, Section, counted, empty, shortened
from pgqueue.spark.page.tables import table
from pgqueue.spark.pipeline.waits import ROWS as MOST

DURATIONS = ("wait_p50_s", "wait_p95_s", "wait_max_s")
FOR = {
    "sleep": "slept",
    "signal": "waited for a signal",
    "event": "waited for an event",
    "call": "waited for other messages",
}


def waits(data: Data) -> Section:
    """Return the section about the waits of durable tasks."""
    rows = data.rows("waits")
    if not rows:
        return empty(
            "waits",
            "Durable tasks",
            "No durable task waited",
            "A durable task waits for a time, a signal, an event or other messages.",
        )
    first = rows[0]
    title = (
        f"{shortened(first['task'])} {FOR.get(first['kind'], 'waited')} longest, "
        f"at {shortened(first['step'])}: half of {counted(first['waits'], 'wait')} took "
        f"{units.seconds(first['wait_p50_s'])} at most"
    )
    return Section(
        "waits",
        "Durable tasks",
        title,
        "The dots show the times within which half, 95 % and all of the waits of a step were over. "
        "A run that waits takes no worker. Only messages that have ended are counted.",
        [_durations(rows)],
        [table(f"By step{of_all(rows, most=MOST)}", rows)],
    )


def _durations(rows: Sequence[Values]) -> Rows:
    drawn = rows[:ROWS]
    axis = axes.of_durations(row[column] for row in drawn for column in DURATIONS)
    return Rows(
        f"Wait by step{of_all(rows, most=MOST)}",
        axis,
        [_duration(row, axis) for row in drawn],
        [Series(label, look) for label, look in zip(("half", "95 %", "all"), LOOKS, strict=True)],
    )


def _duration(row: Values, axis: Axis) -> Row:
    values = [row[column] for column in DURATIONS]
    said = f"{units.seconds(values[0])} … {units.seconds(values[-1])}"
    return Row(row["step"] or NO_NAME, said, span(axis, values, LOOKS), note=row["task"] or "")
