"""Draw boxes on a grid, and the arrows between them, as SVG: no program, font or network is needed.

    producer  inbox
    reader    log

    producer (user): Your code
    inbox (table): `pgqueue_event_inbox`
    log (table): `pgqueue_event`
    reader (thread): GroupReader | `events/consuming.py`
    producer -> inbox: publish()
    inbox --> reader: NOTIFY
    log -> reader: read

The first paragraph is the grid. A name that stands in several cells side by side is one wide box; a
dot is an empty cell. Then each box has a line with its text, and each arrow has one; `|` begins a
new line of the text. A dashed arrow (`-->`) only wakes somebody.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

KINDS = ("user", "thread", "table", "note", "")
BOX = re.compile(r"^(\w+)(?: \((\w+)\))?: (.+)$")
ARROW = re.compile(r"^(\w+) (--?>) (\w+)(?:: (.+))?$")
EMPTY = "."

SANS, CODE = 6.9, 7.25
"""Pixels that a character takes, at most on average."""
LINE = 17
PADDING = 10
COLUMN_GAP, ROW_GAP, CLOSE = 26, 24, 10
TIP = 7
WIDEST = 800
"""Pixels: what is wider is smaller than the text around it."""

STYLE = """
.drawing { display: block; margin: 1.2em 0; overflow-x: auto }
.drawing svg { width: 100%; min-width: 480px; height: auto }
.drawing text { fill: var(--color-foreground-primary); font-size: 13.5px }
.drawing .code { font-family: var(--font-stack--monospace); font-size: 12px }
.drawing .label { font-size: 12.5px; fill: var(--color-foreground-secondary);
  paint-order: stroke; stroke: var(--color-background-primary); stroke-width: 5px }
.drawing .label.code { font-size: 11px }
.drawing .box { fill: var(--color-background-secondary); stroke: var(--color-foreground-border) }
.drawing .user { stroke-dasharray: 4 3 }
.drawing .table { stroke: var(--color-brand-primary) }
.drawing .note { fill: none; stroke: none }
.drawing .rule { stroke: var(--color-brand-primary) }
.drawing .arrow { fill: none; stroke: var(--color-foreground-muted); stroke-width: 1.3px }
.drawing .wakes { stroke-dasharray: 4 3 }
.drawing .tip { fill: var(--color-foreground-muted) }
"""


class InvalidDrawing(ValueError):
    """A line of a drawing is unreadable, or names a box that is not there."""


@dataclass(frozen=True)
class Box:
    """A box, its text, and the cells that it covers: the last row and column are its own."""

    kind: str
    lines: Sequence[str]
    top: int
    left: int
    bottom: int
    right: int


@dataclass(frozen=True)
class Arrow:
    """An arrow from one box to another, by their names."""

    start: str
    end: str
    lines: Sequence[str]
    wakes: bool


@dataclass(frozen=True)
class Drawing:
    """Boxes by their names, and arrows."""

    boxes: dict[str, Box]
    arrows: list[Arrow]


class Place(NamedTuple):
    """Where a box is drawn."""

    x: float
    y: float
    x_end: float
    y_end: float


def parse(text: str) -> Drawing:
    """Read a drawing.

    Raises:
        InvalidDrawing: a line is unreadable, a box has no text, or a name has no box.
    """
    grid, _, rest = text.strip().partition("\n\n")
    cells: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for row, line in enumerate(grid.splitlines()):
        for column, name in enumerate(line.split()):
            if name != EMPTY:
                cells[name].append((row, column))
    texts: dict[str, tuple[str, list[str]]] = {}
    arrows = []
    for line in filter(None, map(str.strip, rest.splitlines())):
        if found := ARROW.match(line):
            start, arrow, end, said = found.groups()
            arrows.append(Arrow(start, end, _lines(said or ""), arrow == "-->"))
        elif found := BOX.match(line):
            name, kind, said = found.groups()
            if (kind or "") not in KINDS:
                raise InvalidDrawing(f"{line!r}: the kind must be one of {', '.join(KINDS)}.")
            texts[name] = (kind or "", _lines(said))
        else:
            raise InvalidDrawing(f"{line!r} is neither a box nor an arrow.")
    for name in {*cells, *texts, *(each for arrow in arrows for each in (arrow.start, arrow.end))}:
        if name not in cells or name not in texts:
            raise InvalidDrawing(f"{name!r} needs a cell of the grid, and a line with its text.")
    boxes = {name: _box(*texts[name], each) for name, each in cells.items()}
    return Drawing(boxes, arrows)


def _lines(text: str) -> list[str]:
    return [each.strip() for each in text.split("|")] if text else []


def _box(kind: str, lines: Sequence[str], cells: Iterable[tuple[int, int]]) -> Box:
    rows, columns = map(sorted, zip(*cells, strict=True))
    return Box(kind, lines, rows[0], columns[0], rows[-1], columns[-1])


def _is_code(line: str) -> bool:
    return line.startswith("`") and line.endswith("`")


def _width(lines: Iterable[str]) -> float:
    return max(
        (len(each.replace("`", "")) * (CODE if _is_code(each) else SANS) for each in lines),
        default=0,
    )


def svg(drawing: Drawing, *, about: str) -> str:
    """Return a drawing as an element of SVG.

    Args:
        about: a description, for readers who do not see it.
    """
    places = _places(drawing)
    width = max(each.x_end for each in places.values()) + 2
    height = max(each.y_end for each in places.values()) + 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'role="img" aria-label="{escape(about)}" style="max-width: {width:.0f}px">'
    ]
    for name, box in drawing.boxes.items():
        parts += _drawn(box, places[name])
    labels: list[str] = []
    for arrow, share in _shares(drawing.arrows):
        line, label = _arrow(arrow, places[arrow.start], places[arrow.end], share)
        parts += line
        labels += label
    return "\n".join([*parts, *labels, "</svg>"])


def width(drawing: Drawing) -> float:
    """Return how many pixels wide a drawing is."""
    return max(each.x_end for each in _places(drawing).values()) + 2


def _places(drawing: Drawing) -> dict[str, Place]:
    boxes = drawing.boxes.values()
    columns = [0.0] * (max(each.right for each in boxes) + 1)
    rows = [0.0] * (max(each.bottom for each in boxes) + 1)
    gaps = [float(COLUMN_GAP)] * len(columns)
    steps = [float(CLOSE)] * len(rows)
    for arrow in drawing.arrows:
        start, end = drawing.boxes[arrow.start], drawing.boxes[arrow.end]
        if start.top <= end.bottom and end.top <= start.bottom:
            before = min(start.right, end.right)
            gaps[before] = max(gaps[before], _width(arrow.lines) * 0.93 + 2 * TIP + 12)
        else:
            upper = start if start.top < end.top else end
            needs = ROW_GAP + 14 * len(arrow.lines)
            steps[upper.bottom] = max(steps[upper.bottom], needs)
    for box in sorted(boxes, key=lambda box: box.right - box.left):
        span = slice(box.left, box.right + 1)
        has = sum(columns[span]) + sum(gaps[box.left : box.right])
        columns[box.right] += max(0, _width(box.lines) + 2 * PADDING - has)
    for box in sorted(boxes, key=lambda box: box.bottom - box.top):
        has = sum(rows[box.top : box.bottom + 1]) + sum(steps[box.top : box.bottom])
        rows[box.bottom] += max(0, LINE * len(box.lines) + 2 * PADDING - 4 - has)
    xs = [1 + sum(columns[:n]) + sum(gaps[:n]) for n in range(len(columns))]
    ys = [1 + sum(rows[:n]) + sum(steps[:n]) for n in range(len(rows))]
    return {
        name: Place(
            xs[box.left],
            ys[box.top],
            xs[box.right] + columns[box.right],
            ys[box.bottom] + rows[box.bottom],
        )
        for name, box in drawing.boxes.items()
    }


def _drawn(box: Box, place: Place) -> list[str]:
    x, y, x_end, y_end = place
    radius = {"thread": 14, "table": 2}.get(box.kind, 5)
    parts = [
        f'<rect class="box {box.kind}" x="{x:.1f}" y="{y:.1f}" width="{x_end - x:.1f}" '
        f'height="{y_end - y:.1f}" rx="{radius}"/>'
    ]
    if box.kind == "table":
        parts.append(f'<path class="rule" d="M{x:.1f} {y + 4:.1f}H{x_end:.1f}"/>')
    middle = (x + x_end) / 2
    first = (y + y_end) / 2 - LINE * (len(box.lines) - 1) / 2 + 4.5
    for number, line in enumerate(box.lines):
        parts.append(_text(line, middle, first + number * LINE, "middle"))
    return parts


def _text(line: str, x: float, y: float, anchor: str, kind: str = "") -> str:
    classes = " ".join(filter(None, [kind, "code" if _is_code(line) else ""]))
    return (
        f'<text class="{classes}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
        f"{escape(line.replace('`', ''))}</text>"
    )


def _shares(arrows: Sequence[Arrow]) -> Iterable[tuple[Arrow, float]]:
    """Yield each arrow, and its place along the sides of its boxes that face each other: 0 to 1."""
    pairs: defaultdict[frozenset[str], list[Arrow]] = defaultdict(list)
    for arrow in arrows:
        pairs[frozenset((arrow.start, arrow.end))].append(arrow)
    for each in pairs.values():
        for number, arrow in enumerate(each, 1):
            yield arrow, number / (len(each) + 1)


def _arrow(arrow: Arrow, start: Place, end: Place, share: float) -> tuple[list[str], list[str]]:
    """Return an arrow's line, and its label, which is drawn last: above all lines."""
    low, high = max(start.x, end.x), min(start.x_end, end.x_end)
    if high - low > 2 * TIP:
        x = low + (high - low) * share
        is_down = start.y_end <= end.y
        points = [(x, start.y_end if is_down else start.y), (x, end.y if is_down else end.y_end)]
        middle = (points[0][1] + points[1][1]) / 2
        return _line(arrow, points), _label(arrow, x + 7, middle, "start")
    low, high = max(start.y, end.y), min(start.y_end, end.y_end)
    is_right = start.x_end <= end.x
    side = start.x_end if is_right else start.x
    if high - low > 2 * TIP:
        y = low + (high - low) * share
        points = [(side, y), (end.x if is_right else end.x_end, y)]
        middle = (points[0][0] + points[1][0]) / 2
        # Of two arrows side by side, the lower one has its label below.
        away = 6 + 7 * len(arrow.lines)
        label = _label(arrow, middle, y + away if share > 0.5 else y - away, "middle")
        return _line(arrow, points), label
    y, x = (start.y + start.y_end) / 2, (end.x + end.x_end) / 2
    is_down = start.y_end <= end.y
    points = [(side, y), (x, y), (x, end.y if is_down else end.y_end)]
    return _line(arrow, points), _label(arrow, x + 7, (y + points[2][1]) / 2, "start")


def _line(arrow: Arrow, points: Sequence[tuple[float, float]]) -> list[str]:
    (x0, y0), (x, y) = points[-2:]
    right, down = (x > x0) - (x < x0), (y > y0) - (y < y0)
    path = "L".join(
        f"{a:.1f} {b:.1f}" for a, b in [*points[:-1], (x - right * TIP, y - down * TIP)]
    )
    tip = [
        (x, y),
        (x - right * TIP + down * 4, y - down * TIP + right * 4),
        (x - right * TIP - down * 4, y - down * TIP - right * 4),
    ]
    corners = " ".join(f"{a:.1f},{b:.1f}" for a, b in tip)
    return [
        f'<path class="arrow{" wakes" if arrow.wakes else ""}" d="M{path}"/>',
        f'<polygon class="tip" points="{corners}"/>',
    ]


def _label(arrow: Arrow, x: float, y: float, anchor: str) -> list[str]:
    first = y - 7 * (len(arrow.lines) - 1) + 4
    return [
        _text(line, x, first + 14 * number, anchor, "label")
        for number, line in enumerate(arrow.lines)
    ]
