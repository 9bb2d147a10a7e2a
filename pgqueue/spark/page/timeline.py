"""The course of time: arrivals, backlog, concurrency and waiting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from statistics import fmean, median
from typing import Any

from pgqueue.spark.page import axes, units
from pgqueue.spark.page.axes import Axis
from pgqueue.spark.page.plots import (
    Mark,
    Plot,
    Series,
    area,
    line,
    points,
    readout,
)
from pgqueue.spark.page.rows import Data, Row, highest, total
from pgqueue.spark.page.sections import Section, counted, empty
from pgqueue.spark.page.tables import table

MOST = 400
"""The most points of a line: a screen would not show more."""
PERIODS = ((1, "second"), (60, "minute"), (3_600, "hour"), (86_400, "day"))
NO_BACKLOG = (
    "An export lacks the messages that still wait, and so does the past of a queue: their number "
    "is unknown. For the backlog and its forecast, make the report of the queue itself, up to now."
)
MERGED: dict[str, Callable[[list[Any]], Any]] = {
    "at": min,
    "backlog": max,
    "wait_p50_s": median,
    "wait_p99_s": max,
}
"""The functions that merge neighbouring buckets; other numbers take the mean, texts the first."""


def timeline(data: Data) -> Section:
    """Return the section about the course of time."""
    rows = merged(data.rows("over_time"), MOST)
    if not rows:
        return empty(
            "time", "Over time", "Nothing happened", "No message arrived or ended in this period."
        )
    peak = highest(rows, "backlog")
    has_live = data.facts.get("has_live") is not False
    title = "No message ever waited for a free worker at the end of an interval"
    if not has_live:
        title = f"{counted(total(rows, 'ended'), 'message')} ended"
    elif peak and peak["backlog"]:
        title = (
            f"At its peak, {units.when(peak['at'])}, "
            f"{counted(peak['backlog'], 'message was', 'messages were')} due and not begun"
        )
    bucket = _bucket(rows, data.facts.get("bucket_s"))
    until = rows[-1]["at"] + timedelta(seconds=bucket)
    x = axes.of_time(rows[0]["at"], until)
    how = (
        f"Each point is an interval of {units.seconds(bucket)}, times are in UTC. While more "
        "messages arrive than end, the backlog and the wait grow."
    )
    if not has_live:
        how += f" {NO_BACKLOG}"
    if len(rows) < len(data.rows("over_time")):
        how += " Of the backlog and the 99th percentile, it shows the interval's highest value."
    return Section(
        "time",
        "Over time",
        title,
        how,
        [
            _flow(x, rows, data),
            *([_backlog(x, rows)] if has_live else []),
            _running(x, rows),
            _wait(x, rows),
        ],
        [table("By interval", data.rows("over_time"), shown=0)],
    )


def _flow(x: Axis, rows: Sequence[Row], data: Data) -> Plot:
    names = {"arrived": "arrived", "ended": "ended", "failed_attempts": "failed attempts"}
    size = data.facts.get("bucket_s") or 1.0
    busiest = max((row[name] or 0 for row in rows for name in names), default=0) / size
    length, period = next((each for each in PERIODS if busiest * each[0] >= 1), PERIODS[-1])
    rates = {name: _rates(rows, name, length, size) for name in names}
    sums = [units.number(total(data.rows("over_time"), name)) for name in names]
    return lines(
        f"Messages per {period}",
        x,
        [row["at"] for row in rows],
        {names[name]: values for name, values in rates.items()},
        axes.from_zero([each for values in rates.values() for each in values]),
        at_rest=[f"{each} in all" for each in sums],
        filled=1,
    )


def _rates(rows: Sequence[Row], name: str, length: float, size: float) -> list[float | None]:
    return [None if row[name] is None else row[name] * length / size for row in rows]


def _backlog(x: Axis, rows: Sequence[Row]) -> Plot:
    values = [row["backlog"] for row in rows]
    peak = f"{units.number(max((each or 0 for each in values), default=0))} at most"
    return lines(
        "Backlog: due and not begun",
        x,
        [row["at"] for row in rows],
        {"backlog": values},
        axes.from_zero(values),
        at_rest=[peak],
        filled=1,
        height="low",
        colours=[4],
    )


def _running(x: Axis, rows: Sequence[Row]) -> Plot:
    values = [row["running"] for row in rows]
    known = [each for each in values if each is not None]
    return lines(
        "Runs at the same time",
        x,
        [row["at"] for row in rows],
        {"running": values},
        axes.from_zero(values),
        at_rest=[f"{units.number(fmean(known))} on average" if known else ""],
        filled=1,
        height="low",
        colours=[3],
    )


def _wait(x: Axis, rows: Sequence[Row]) -> Plot:
    series = {"half": "wait_p50_s", "99 %": "wait_p99_s"}
    values = {label: [row[name] for row in rows] for label, name in series.items()}
    every = [each for found in values.values() for each in found]
    return lines(
        "Wait until a message begins (logarithmic)",
        x,
        [row["at"] for row in rows],
        values,
        axes.of_durations(every),
        label=units.seconds,
        at_rest=["began sooner than this", "began sooner than this"],
        colours=[1, 2],
    )


def lines(
    title: str,
    x: Axis,
    at: Sequence[datetime],
    series: dict[str, list[float | None]],
    y: Axis,
    *,
    label: Callable[[float | None], str] = units.number,
    at_rest: Sequence[str] = (),
    filled: int = 0,
    height: str = "normal",
    colours: Sequence[int] = (1, 2, 5),
    shape: Callable[[Any], str] = line,
) -> Plot:
    """Return a plot of some series over the same times.

    Args:
        label: the function that formats a value.
        at_rest: the texts beside the names until the pointer chooses a time.
        filled: the number of series, from the first, with a filled area.
    """
    places = {name: points(x, y, at, values) for name, values in series.items()}
    looks = [f"c{colour}" for colour in colours]
    marks = [
        Mark(area(found), f"area {look}")
        for found, look in list(zip(places.values(), looks, strict=False))[:filled]
    ]
    marks += [
        Mark(shape(found), f"line {look}")
        for found, look in zip(places.values(), looks, strict=False)
    ]
    at_rest = at_rest or [""] * len(series)
    legend = [
        Series(name, look, text) for name, look, text in zip(series, looks, at_rest, strict=False)
    ]
    texts = [[label(value) for value in values] for values in series.values()]
    highest = [
        f"{name}: {label(min(known))} to {label(max(known))}"
        for name, values in series.items()
        if (known := [each for each in values if each is not None])
    ]
    first, last = (f"{units.when(each)}" for each in (at[0], at[-1]))
    description = f"From {first} to {last} UTC. {'; '.join(highest)}."
    return Plot(title, description, x, y, marks, legend, readout(x, at, texts), height)


def merged(rows: Sequence[Row], most: int) -> Sequence[Row]:
    """Return at most `most` rows; each merges some neighbouring rows."""
    size = -(-len(rows) // most)
    if size <= 1:
        return rows
    return [_merge(rows[begin : begin + size]) for begin in range(0, len(rows), size)]


def _merge(rows: Sequence[Row]) -> Row:
    known = {name: [row[name] for row in rows if row[name] is not None] for name in rows[0]}
    return {name: _merge_values(name, values) for name, values in known.items()}


def _merge_values(name: str, values: list[Any]) -> Any:
    if not values or isinstance(values[0], str):
        return values[0] if values else None
    return MERGED.get(name, fmean)(values)


def _bucket(rows: Sequence[Row], size: float | None) -> float:
    """Return the seconds between two rows."""
    if len(rows) > 1:
        return float((rows[1]["at"] - rows[0]["at"]).total_seconds())
    return size or 1.0
