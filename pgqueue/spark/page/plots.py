"""Plots as values: paths for the templates to draw, and their texts.

Plots are SVG paths in a square of 1 000 by 1 000 that is stretched to the width of the page.
Strokes keep their width, and all text is HTML beside the square. So one page fits a phone and a
desktop, follows dark mode by CSS, and prints sharply. Matplotlib writes fixed colours and widths
into its SVG. Pygal loads its script from another host, and scales its text with the picture.
Altair needs a browser's engine of 60 MB to make SVG.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from pgqueue.spark.page import units
from pgqueue.spark.page.axes import Axis

SIZE = 1_000
"""Width and height of the drawing, before it is stretched."""

Point = tuple[float, float]


class Mark(NamedTuple):
    """One path, its look (classes of CSS), and its text under the pointer."""

    path: str
    look: str
    title: str = ""
    strength: float = 1.0
    """Opacity, 0 to 1."""


class Series(NamedTuple):
    """An entry of the legend."""

    name: str
    look: str
    text: str = ""
    """The text beside the name until the pointer chooses a place."""


class Readout(NamedTuple):
    """The texts of the legend at each place."""

    at: Sequence[float]
    times: Sequence[str]
    texts: Sequence[Sequence[str]]
    """The texts of each series, one for each place."""


class Plot(NamedTuple):
    """A plot with two axes."""

    title: str
    description: str
    """A description of the plot for screen readers."""
    x: Axis
    y: Axis
    marks: Sequence[Mark]
    legend: Sequence[Series] = ()
    readout: Readout | None = None
    height: str = "normal"
    kind: str = "plot"


class Row(NamedTuple):
    """One line of `Rows`."""

    name: str
    value: str
    marks: Sequence[Mark]
    more: Sequence[tuple[str, str]] = ()
    """The details, which are shown on demand: pairs of a label and a text."""
    note: str = ""


class Rows(NamedTuple):
    """A plot with a line for each name, and one common axis."""

    title: str
    axis: Axis
    rows: Sequence[Row]
    legend: Sequence[Series] = ()
    kind: str = "rows"


class Cell(NamedTuple):
    """A field of a `Grid`."""

    title: str
    strength: float


class Grid(NamedTuple):
    """A heat map: lines with a name, and fields of different strength."""

    title: str
    description: str
    columns: Sequence[str]
    lines: Sequence[tuple[str, Sequence[Cell | None]]]
    kind: str = "grid"


def points(
    x: Axis, y: Axis, at: Iterable[datetime], values: Iterable[float | None]
) -> list[Point | None]:
    """Return the points of values in the drawing; None for a missing value."""
    return [
        None if value is None else (x.place(each.timestamp()) * SIZE, (1 - y.place(value)) * SIZE)
        for each, value in zip(at, values, strict=True)
    ]


def line(found: Sequence[Point | None]) -> str:
    """Return a path from point to point, with gaps at missing points."""
    return " ".join(
        # A single point between two gaps would be invisible as a line.
        dot(*run[0]) if len(run) == 1 else f"M{'L'.join(map(_xy, run))}"
        for run in _runs(found)
    )


def steps(found: Sequence[Point | None]) -> str:
    """Return a path that keeps each value until the next one."""
    return " ".join(
        f"M{_xy(run[0])}"
        + "".join(f"H{_n(right[0])}V{_n(right[1])}" for _, right in pairwise(run))
        + (f"H{_n(min(run[-1][0] + _width(run), SIZE))}")
        for run in _runs(found)
    )


def area(found: Sequence[Point | None]) -> str:
    """Return the area between a line and the bottom."""
    return " ".join(
        f"M{_n(run[0][0])} {SIZE}L{'L'.join(map(_xy, run))}L{_n(run[-1][0])} {SIZE}Z"
        for run in _runs(found)
    )


def band(lower: Sequence[Point | None], upper: Sequence[Point | None]) -> str:
    """Return the area between two lines."""
    around = [*(each for each in upper if each), *(each for each in reversed(lower) if each)]
    return f"M{'L'.join(map(_xy, around))}Z" if around else ""


def box(left: float, top: float, right: float, bottom: float) -> str:
    """Return a rectangle; its sides are between 0 and 1 of the drawing."""
    x, width, height = left * SIZE, (right - left) * SIZE, (bottom - top) * SIZE
    return f"M{_n(x)} {_n(top * SIZE)}h{_n(width)}v{_n(height)}h{_n(-width)}Z"


def upright(at: float) -> str:
    """Return a line from the bottom to the top, at a place between 0 and 1."""
    return f"M{_n(at * SIZE)} 0V{SIZE}"


def level(at: float) -> str:
    """Return a line from the left to the right, at a height between 0 and 1."""
    return f"M0 {_n((1 - at) * SIZE)}H{SIZE}"


def dot(x: float, y: float) -> str:
    """Return a point: a line without length, whose round ends are not stretched."""
    return f"M{_n(x)} {_n(y)}h0"


def span(axis: Axis, values: Sequence[float | None], looks: Sequence[str]) -> list[Mark]:
    """Return a line from the first to the last value in the middle of a row, with dots on it."""
    known = [
        (axis.place(value) * SIZE, look)
        for value, look in zip(values, looks, strict=True)
        if value is not None
    ]
    if not known:
        return []
    middle = SIZE / 2
    between = Mark(f"M{_n(known[0][0])} {middle:g}H{_n(known[-1][0])}", "link")
    return [between, *(Mark(dot(x, middle), f"dot {look}") for x, look in known)]


def readout(x: Axis, at: Sequence[datetime], texts: Sequence[Sequence[str]]) -> Readout:
    """Return the texts of the legend at some times."""
    places = [round(x.place(each.timestamp()), 4) for each in at]
    return Readout(places, [units.when(each) for each in at], texts)


def _runs(found: Sequence[Point | None]) -> list[list[Point]]:
    """Return the points between gaps."""
    runs: list[list[Point]] = [[]]
    for each in found:
        if each is None:
            runs.append([])
        else:
            runs[-1].append(each)
    return [run for run in runs if run]


def _width(run: Sequence[Point]) -> float:
    """Return the width of the last value: the distance from the value before it."""
    return run[-1][0] - run[-2][0] if len(run) > 1 else 0


def _xy(point: Point) -> str:
    return f"{_n(point[0])} {_n(point[1])}"


def _n(value: float) -> str:
    return f"{round(value, 1):g}"
