"""Flows: their durations, and the waits on their critical paths."""

from __future__ import annotations

from collections.abc import Sequence

from pgqueue.spark.page import axes, units
from pgqueue.spark.page.axes import Axis
from pgqueue.spark.page.groups import LOOKS, ROWS, of_all
from pgqueue.spark.page.plots import Mark, Row, Rows, Series, box, span
from pgqueue.spark.page.rows import Data
from pgqueue.spark.page.rows import Row as Values
from pgqueue.spark.page.sections import NO_NAME, Section, counted, empty, shortened
from pgqueue.spark.page.tables import table
from pgqueue.spark.pipeline.flows import NAMES, STEPS

DURATIONS = ("duration_p50_s", "duration_p95_s", "duration_max_s")
TIMES = {"waited_total_s": "for others", "ready_total_s": "ready", "run_total_s": "running"}


def flows(data: Data) -> Section:
    """Return the section about flows."""
    rows, tasks, paths = (data.rows(name) for name in ("flows", "flow_tasks", "flow_paths"))
    if not rows:
        return empty(
            "flows", "Flows", "No flow ended", "A flow stores messages that wait for each other."
        )
    first = rows[0]
    title = (
        f"{shortened(first['flow'])} took most time: half of {counted(first['flows'], 'flow')} "
        f"ended within {units.seconds(first['duration_p50_s'])}, the longest took "
        f"{units.seconds(first['duration_max_s'])}"
    )
    some = f" (the {NAMES} names that took longest in total)" if len(rows) >= NAMES else ""
    figures = [_durations(rows)]
    if tasks:
        figures.append(_tasks(tasks))
    return Section(
        "flows",
        "Flows",
        title,
        "The dots show the times within which half, 95 % and all of the flows of a name ended. The "
        "critical path decides the duration of a flow: each message on it was the last parent of "
        "the next one to end. The bars show how long these messages waited for parents, were "
        "ready, and ran.",
        figures,
        [
            table(f"By flow{some}", rows),
            table("Tasks on critical paths", tasks),
            table(f"The longest flow of each name, its last {STEPS} steps at most", paths, shown=0),
        ],
    )


def _durations(rows: Sequence[Values]) -> Rows:
    drawn = rows[:ROWS]
    axis = axes.of_durations(row[column] for row in drawn for column in DURATIONS)
    return Rows(
        f"Duration by flow{of_all(rows, most=NAMES)}",
        axis,
        [_duration(row, axis) for row in drawn],
        [Series(label, look) for label, look in zip(("half", "95 %", "all"), LOOKS, strict=True)],
    )


def _duration(row: Values, axis: Axis) -> Row:
    values = [row[column] for column in DURATIONS]
    said = f"{units.seconds(values[0])} … {units.seconds(values[-1])}"
    return Row(row["flow"] or NO_NAME, said, span(axis, values, LOOKS))


def _tasks(rows: Sequence[Values]) -> Rows:
    drawn = rows[:ROWS]
    axis = axes.from_zero([row[name] for row in drawn for name in TIMES], units.seconds)
    return Rows(
        f"Time on critical paths, by task{of_all(rows)}",
        axis,
        [_task(row, axis) for row in drawn],
        [Series(label, look) for label, look in zip(TIMES.values(), LOOKS, strict=True)],
    )


def _task(row: Values, axis: Axis) -> Row:
    bars = [
        Mark(box(0, top, axis.place(row[name] or 0), top + 0.25), f"bar {look}")
        for top, name, look in zip((0.1, 0.4, 0.7), TIMES, LOOKS, strict=True)
    ]
    said = f"{units.share(row['share'])} · {counted(row['messages'], 'message')}"
    return Row(row["task"] or NO_NAME, said, bars, note=row["flow"] or "")
