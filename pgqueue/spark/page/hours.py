"""The section about the busy hours of the days."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from pgqueue.spark.page import axes, units
from pgqueue.spark.page.axes import Axis
from pgqueue.spark.page.groups import DETAILS
from pgqueue.spark.page.plots import Cell, Grid, Mark, Plot, box
from pgqueue.spark.page.rows import Data, Row, highest
from pgqueue.spark.page.sections import Section, empty
from pgqueue.spark.page.tables import table

HOUR = 3_600
MOST = 35
"""The most days of the heat map: the last ones."""
GAP = 0.08
"""The space between two bars, as a part of an hour."""

Hours = dict[tuple[datetime, int], float]
"""Arrivals by the beginning of a day and the hour."""


def hours(data: Data) -> Section:
    """Return the section about the hours of the days."""
    rows = data.rows("by_hour")
    busiest = highest(rows, "messages")
    if busiest is None or not busiest["messages"]:
        return empty("hours", "Hours", "No hour was busy", "No message ended in this period.")
    # Longer buckets have no figures of single hours.
    arrived = _arrivals(data) if (data.facts.get("bucket_s") or 0) <= HOUR else {}
    if len({day for day, _ in arrived}) > 1 and max(arrived.values()):
        (day, hour), most = max(arrived.items(), key=lambda each: each[1])
        title = (
            f"The busiest hour began on {units.day(day)} at {_clock(hour)} UTC, "
            f"with {units.number(most)} arrivals"
        )
        how = "Each field is an hour (UTC); the stronger its colour, the more messages arrived."
        figure: Plot | Grid = _heat(arrived, most)
    else:
        title = f"Most messages ended in the hour that begins at {_clock(busiest['hour'])} UTC"
        how = "Each bar is an hour of the day (UTC)."
        figure = _bars(rows)
    return Section(
        "hours", "Hours", title, how, [figure], [table("By hour", rows, shown=0, without=DETAILS)]
    )


def _arrivals(data: Data) -> Hours:
    """Return the arrivals of each hour. A bucket counts for the hour that its middle is in."""
    half = timedelta(seconds=(data.facts.get("bucket_s") or 0) / 2)
    found: Hours = {}
    for row in data.rows("over_time"):
        at = row["at"].astimezone(UTC) + half
        field = at.replace(hour=0, minute=0, second=0, microsecond=0), at.hour
        found[field] = found.get(field, 0) + (row["arrived"] or 0)
    return found


def _heat(arrived: Hours, most: float) -> Grid:
    days = sorted({day for day, _ in arrived})[-MOST:]
    return Grid(
        "Arrivals by day and hour",
        f"A field for each hour of {len(days)} days; the table below has the numbers.",
        [f"{hour:02}" for hour in range(24)],
        [
            (units.weekday(day), [_field(day, hour, arrived, most) for hour in range(24)])
            for day in days
        ],
    )


def _field(day: datetime, hour: int, arrived: Hours, most: float) -> Cell | None:
    if (day, hour) not in arrived:
        return None
    count = arrived[day, hour]
    title = f"{units.day(day)} {_clock(hour)}: {units.number(count)} arrived"
    return Cell(title, round(count / most, 3))


def _bars(rows: Sequence[Row]) -> Plot:
    x = Axis(0, 24).with_ticks(range(0, 25, 3), _clock)
    y = axes.from_zero(row["messages"] for row in rows)
    marks = [
        Mark(
            box(
                x.place(row["hour"] + GAP),
                1 - y.place(row["messages"] or 0),
                x.place(row["hour"] + 1 - GAP),
                1,
            ),
            "bar c1",
            f"{_clock(row['hour'])}: {units.number(row['messages'])}",
        )
        for row in rows
    ]
    return Plot(
        "Messages that ended, by hour of the day",
        "The table below has the numbers.",
        x,
        y,
        marks,
        height="low",
    )


def _clock(hour: float) -> str:
    return f"{int(hour):02}:00"
