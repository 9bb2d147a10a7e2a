"""The sections about the simulation, changes and the forecast."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pgqueue.spark.page import axes, units
from pgqueue.spark.page.axes import Axis
from pgqueue.spark.page.plots import (
    Mark,
    Plot,
    Point,
    Row,
    Rows,
    Series,
    area,
    band,
    line,
    points,
    readout,
    span,
    upright,
)
from pgqueue.spark.page.rows import Data, highest
from pgqueue.spark.page.rows import Row as Values
from pgqueue.spark.page.sections import Section, counted, empty, shortened
from pgqueue.spark.page.tables import table
from pgqueue.spark.page.timeline import MOST, NO_BACKLOG, lines, merged
from pgqueue.spark.pipeline.forecast import LEAST, WIDEST

PLOTS = 6
"""The most plots of tasks that changed."""
WITHIN = 0.2
"""The highest relative error of the simulation of the past."""


def what_if(data: Data) -> Section:
    """Return the section about the effects of other settings."""
    rows = data.rows("what_if")
    if not rows:
        return empty(
            "what-if", "What if", "Nothing was simulated", "There were too few messages for it."
        )
    axis = axes.of_durations(row[name] for row in rows for name in ("wait_p50_s", "wait_p99_s"))
    return Section(
        "what-if",
        "What if",
        _best(rows) if _fits(data) else "The simulation does not fit the past",
        "Each line replays the real arrivals and run times with one setting changed. The dots show "
        "the times within which half and 99 % of the messages would have begun. "
        f"{_window(data)}{_trust(data)}",
        [
            Rows(
                "Wait",
                axis,
                [_scenario(row, axis) for row in rows],
                [Series("half", "c1"), Series("99 %", "c2")],
            )
        ],
        [table("Scenarios", rows, without=("kind",))],
    )


def _window(data: Data) -> str:
    """Return a sentence with the time of the arrivals, if only the busiest time is replayed."""
    simulation = data.facts.get("simulation") or {}
    since, until = simulation.get("since"), simulation.get("until")
    if since is None or until is None:
        return ""
    return f"The arrivals are those from {units.when(since)} to {units.when(until)}. "


def _fits(data: Data) -> bool:
    error = (data.facts.get("simulation") or {}).get("error")
    return error is None or abs(error) <= WITHIN


def _best(rows: Sequence[Values]) -> str:
    today = next((row for row in rows if row["kind"] == "today" and row["wait_p99_s"]), None)
    others = [
        row
        for row in rows
        if row["kind"] not in ("today", "measured") and row["wait_p99_s"] is not None
    ]
    if today is None or not others:
        return "What other settings would have done"
    best = min(others, key=lambda row: row["wait_p99_s"])
    if best["wait_p99_s"] >= today["wait_p99_s"] * 0.95:
        return "No other setting that was tried would have shortened the wait"
    return (
        f"{shortened(best['scenario'])}: 99 % would have begun within "
        f"{units.seconds(best['wait_p99_s'])}, not {units.seconds(today['wait_p99_s'])}"
    )


def _trust(data: Data) -> str:
    simulation = data.facts.get("simulation") or {}
    measured, error = simulation.get("measured_p99_s"), simulation.get("error")
    if measured is None or error is None:
        return "Whether the simulation is right could not be checked against the past."
    said = (
        f"With today's workers it says {units.seconds(simulation['simulated_p99_s'])} for 99 %, "
        f"and {units.seconds(measured)} was measured"
    )
    off = f"{units.share(abs(error))} {'above' if error > 0 else 'below'}"
    if not _fits(data):
        return f"{said}: it is {off}, too far to be trusted."
    return f"{said}: it is {off}, so the other lines can be compared with each other."


def _scenario(row: Values, axis: Axis) -> Row:
    note = f"{units.number(row['workers'])} slots" if row["workers"] is not None else ""
    if row["utilisation"] is not None:
        note += f"{', ' if note else ''}busy for {units.share(row['utilisation'])} of the time"
    return Row(
        row["scenario"],
        f"{units.seconds(row['wait_p50_s'])} … {units.seconds(row['wait_p99_s'])}",
        span(axis, [row["wait_p50_s"], row["wait_p99_s"]], ["c1", "c2"]),
        note=note,
    )


def changes(data: Data) -> Section:
    """Return the section about tasks whose duration changed."""
    rows = data.rows("change_points")
    if not rows:
        return empty(
            "changes",
            "Changes",
            "No task became slower or faster",
            "A change is a lasting one of a task's median, and not the spread of its runs.",
        )
    slower = [row for row in rows if (row["ratio"] or 0) > 1]
    # A change to a third is as large as a change to three times.
    rows = sorted(rows, key=lambda row: -abs(math.log(row["ratio"] or 1)))
    most = rows[0]
    ratio = most["ratio"] or 1
    change = f"{units.times(ratio)} as long" if ratio > 1 else f"{units.share(ratio)} as long"
    return Section(
        "changes",
        "Changes",
        f"Since {units.when(most['at'])}, {shortened(most['task'])} takes {change} as before",
        "The line is the median of a task's runs; an upright line is where it changed to stay. "
        f"Look at what was deployed, or grew, at that time.{_drawn(rows)}",
        _changes(data, rows),
        [table("Change points", rows)],
        needs_attention=bool(slower),
    )


def _drawn(rows: Sequence[Values]) -> str:
    """Return a sentence that names the drawn tasks, if not every task is drawn."""
    number = len({row["task"] for row in rows})
    return f" The {PLOTS} tasks of {number} that changed most are drawn." if number > PLOTS else ""


def _changes(data: Data, rows: Sequence[Values]) -> list[Plot]:
    plots = []
    for task in list(dict.fromkeys(row["task"] for row in rows))[:PLOTS]:
        durations = [row for row in data.rows("task_durations") if row["task"] == task]
        durations = list(merged(durations, MOST)) if durations else []
        if durations:
            plots.append(_change(task, durations, [row for row in rows if row["task"] == task]))
    return plots


def _change(task: str, durations: Sequence[Values], found: Sequence[Values]) -> Plot:
    at = [row["at"] for row in durations]
    values = [row["p50_s"] for row in durations]
    x = axes.of_time(at[0], at[-1])
    y = axes.from_zero(values, units.seconds)
    plot = lines(
        task,
        x,
        at,
        {"median": values},
        y,
        label=units.seconds,
        at_rest=[
            ", ".join(
                f"{units.seconds(row['before_p50_s'])} → {units.seconds(row['after_p50_s'])}"
                for row in found
            )
        ],
        height="low",
    )
    limits = [
        Mark(upright(x.place(row["at"].timestamp())), "limit", units.when(row["at"]))
        for row in found
    ]
    return plot._replace(marks=[*limits, *plot.marks])


def forecast(data: Data) -> Section:
    """Return the section about the expected backlog."""
    rows = data.rows("forecast")
    coming = [row for row in rows if row["kind"] == "forecast"]
    if not coming:
        return empty(
            "forecast",
            "Forecast",
            "There is no forecast",
            _why_none(data),
        )
    peak = highest(coming, "backlog")
    title = "No backlog is to be expected"
    if peak and peak["backlog"] >= 0.5:
        title = (
            f"At most {counted(round(peak['backlog']), 'message')} will probably wait, around "
            f"{units.when(peak['at'])}"
        )
    return Section(
        "forecast",
        "Forecast",
        title,
        "The line continues the usual course of a day and the trend. Most of the future values "
        "should lie in the band around it. The forecast does not know your plans.",
        [_forecast(rows, coming)],
        [table("Forecast", coming, without=("kind",), shown=0)],
    )


def _why_none(data: Data) -> str:
    """Return the reason for a missing forecast."""
    if data.facts.get("has_live") is False:
        return NO_BACKLOG
    if (data.facts.get("bucket_s") or 0) > WIDEST:
        return (
            f"It needs intervals of {units.seconds(WIDEST)} at most, but this report has longer "
            "ones: choose a later --since."
        )
    return f"It needs more of the past: {LEAST} days at least."


def _forecast(rows: Sequence[Values], coming: Sequence[Values]) -> Plot:
    past = list(merged([row for row in rows if row["kind"] == "past"], MOST))
    shown = [*past, *coming]
    at = [row["at"] for row in shown]
    x = axes.of_time(min(at), max(at))
    y = axes.from_zero([row[name] for row in shown for name in ("backlog", "high")])

    def drawn(rows: Sequence[Values], name: str) -> list[Point | None]:
        return points(x, y, [row["at"] for row in rows], [row[name] for row in rows])

    before = drawn(past, "backlog")
    after, low, high = (drawn(coming, name) for name in ("backlog", "low", "high"))
    # The line of the forecast begins where the past ends.
    joined = [*before[-1:], *after]
    texts = [
        [_backlog(row, "past") for row in shown],
        [_backlog(row, "forecast") for row in shown],
        [_between(row) for row in shown],
    ]
    peak = max((row["backlog"] or 0 for row in coming), default=0)
    return Plot(
        "Backlog: due and not begun",
        f"The forecast is {units.number(peak)} at most, until {units.when(max(at))} UTC.",
        x,
        y,
        [
            Mark(band(low, high), "band c2"),
            Mark(area(before), "area c4"),
            Mark(line(before), "line c4"),
            Mark(line(joined), "line dashed c2"),
        ],
        [
            Series("past", "c4"),
            Series("forecast", "c2 dashed"),
            Series("most likely between", "c2 band"),
        ],
        readout(x, at, texts),
    )


def _backlog(row: Values, kind: str) -> str:
    return units.number(row["backlog"]) if row["kind"] == kind else ""


def _between(row: Values) -> str:
    if row["kind"] == "past" or row["low"] is None:
        return ""
    return f"{units.number(row['low'])} and {units.number(row['high'])}"
