"""Objectives of channels, and the burn rates of their error budgets."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from pgqueue.spark.page import axes, units
from pgqueue.spark.page.axes import Axis, Tick
from pgqueue.spark.page.groups import ROWS, of_all
from pgqueue.spark.page.plots import (
    SIZE,
    Mark,
    Plot,
    Row,
    Rows,
    Series,
    box,
    level,
    points,
    readout,
    steps,
)
from pgqueue.spark.page.rows import Data
from pgqueue.spark.page.rows import Row as Values
from pgqueue.spark.page.sections import Section, counted, empty, listed, shortened
from pgqueue.spark.page.tables import table

LINES = 5
"""The most channels in one plot: more lines are hard to distinguish."""


def missed(data: Data) -> list[str]:
    """Return the channels that missed their objective, the worst first."""
    late = [
        row
        for row in data.rows("slo")
        if row["attained"] is not None and row["attained"] < row["target"]
    ]
    late.sort(key=lambda row: row["budget_left"] or 0)
    return list(dict.fromkeys(row["channel"] for row in late))


def objectives(data: Data) -> Section:
    """Return the section about objectives."""
    rows = data.rows("slo")
    if not rows:
        return empty(
            "objectives",
            "Objectives",
            "No objective was set",
            "No channel that has one was used: --objective sets them.",
        )
    late = missed(data)
    if late:
        names = listed([shortened(each, 30) for each in late])
        title = f"{len(late)} of {counted(len(rows), 'channel')} missed the objective: {names}"
        if len(rows) == 1:
            title = f"{names} missed its objective"
    else:
        title = "Every channel that has an objective met it"
    burn = _burn(data)
    return Section(
        "objectives",
        "Objectives",
        title,
        "An objective says which share of a channel's messages must succeed within its time, once "
        "they are due. The rest is the error budget. A bar is the part of the budget that was "
        "spent; beyond the line, the objective was missed."
        + (
            " A burn rate of 1 spends exactly the budget, 2 spends it twice as fast."
            if burn
            else ""
        ),
        [_budgets(rows), *burn],
        [table("Objectives", rows)],
        needs_attention=bool(late),
    )


def _budgets(rows: Sequence[Values]) -> Rows:
    """Return the bars of the channels that spent the largest part of their budgets."""
    worst = sorted(rows, key=lambda row: 2.0 if row["budget_left"] is None else row["budget_left"])
    drawn = worst[:ROWS]
    spent = [1 - row["budget_left"] if row["budget_left"] is not None else None for row in drawn]
    high = min(max([1.25, *(each for each in spent if each is not None)]), 5.0)
    axis = Axis(0, high).with_ticks(
        [0, 1] if high < 2 else range(int(high) + 1), lambda at: units.share(at)
    )
    return Rows(
        f"Error budget that was spent{of_all(rows)}",
        axis,
        [_budget(row, used, axis) for row, used in zip(drawn, spent, strict=True)],
    )


def _budget(row: Values, used: float | None, axis: Axis) -> Row:
    goal = f"{units.share(row['target'])} within {units.seconds(row['objective_s'])}"
    if used is None:
        return Row(row["channel"], "no message", [], note=goal)
    is_late = row["attained"] is not None and row["attained"] < row["target"]
    marks = [
        Mark(box(0, 0.3, axis.place(used), 0.7), f"bar {'bad' if is_late else 'good'}"),
        Mark(f"M{axis.place(1) * SIZE:g} 0V{SIZE}", "limit"),
    ]
    verdict = "missed" if is_late else "met"
    return Row(row["channel"], f"{verdict}: {units.share(row['attained'])}", marks, note=goal)


def _burn(data: Data) -> list[Plot]:
    """Return the plot of the worst channels' burn rates, if the report has at least two hours."""
    names = _worst(data)
    title = f"Burn rate by hour{of_all(names, drawn=LINES, word='worst')}"
    burns: dict[str, dict[Any, float]] = {name: {} for name in names[:LINES]}
    for row in data.rows("slo_burn"):
        if row["channel"] in burns:
            burns[row["channel"]][row["at"]] = row["burn"]
    hours = sorted({hour for by_hour in burns.values() for hour in by_hour})
    if len(hours) < 2:
        return []
    x = axes.of_time(hours[0], hours[-1])
    y = axes.from_zero([*chain(*(each.values() for each in burns.values())), 1.2], units.times)
    y = y._replace(ticks=[*y.ticks, Tick(y.place(1), "")])
    marks = [Mark(level(y.place(1)), "limit")]
    legend, texts = [], []
    for colour, (name, by_hour) in enumerate(burns.items(), 1):
        values = [by_hour.get(hour) for hour in hours]
        marks.append(Mark(steps(points(x, y, hours, values)), f"line c{colour}"))
        most = max((each for each in values if each is not None), default=None)
        legend.append(Series(name, f"c{colour}", f"{units.times(most)} at most"))
        texts.append([units.times(value) for value in values])
    description = "; ".join(f"{each.name}: {each.text}" for each in legend)
    return [
        Plot(
            title,
            f"{description}.",
            x,
            y,
            marks,
            legend,
            readout(x, hours, texts),
        )
    ]


def _worst(data: Data) -> list[str]:
    """Return the channels with burn rates, the highest first."""
    rows = sorted(data.rows("slo"), key=lambda row: -(row["worst_burn"] or 0))
    known = {row["channel"] for row in data.rows("slo_burn")}
    return [name for name in dict.fromkeys(row["channel"] for row in rows) if name in known]
