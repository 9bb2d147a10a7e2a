"""The places of a flow's nodes, and the lines between them.

Layers go from left to right. Each node is in the layer after its last parent's. A line that passes
a layer has its own place there, so that it crosses no node. Within a layer, places are ordered by
the mean place of their neighbours (Sugiyama's method, with barycentres).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import mean
from typing import TypeAlias

WIDTH, HEIGHT = 188, 66
ACROSS, BELOW = 44, 18
"""The distances between layers, and between the places of one layer."""
PASSING = 14
"""The height of a line's place in a layer that it passes."""
MARGIN = 12
SWEEPS = 4

Wait: TypeAlias = tuple[int, int]
"""A parent and its child."""
Place: TypeAlias = int | tuple[int, int, int]
"""A node; or a wait, with the layer that its line passes."""


@dataclass(frozen=True)
class Line:
    """A wait, as a path of SVG and the point where its arrow ends."""

    wait: Wait
    path: str
    end: tuple[float, float]


@dataclass(frozen=True)
class FlowLayout:
    """The layout of a graph.

    Attributes:
        corners: the upper left corner of each node.
        repeated: nodes whose messages wait for each other; these waits have no line.
    """

    corners: Mapping[int, tuple[float, float]]
    lines: Sequence[Line]
    width: float
    height: float
    repeated: frozenset[int] = field(default_factory=frozenset)


def lay_out(
    nodes: Sequence[int], waits: Collection[Wait], keep: Collection[Wait] = ()
) -> FlowLayout:
    """Return the places of nodes, and the lines of waits.

    A wait that follows from others is left out. A wait that closes a circle is left out, too: tasks
    may wait for each other in turn.

    Args:
        keep: the waits to draw even if they follow from others.
    """
    drawn = _reduced(nodes, _acyclic(nodes, waits), keep)
    layers = _layered(nodes, drawn)
    ways = _ways(layers, drawn)
    spots, height = _spots(_ordered(layers, ways.values()))
    return FlowLayout(
        corners={node: spots[node] for node in nodes},
        lines=[_line(wait, way, spots) for wait, way in ways.items()],
        width=2 * MARGIN + len(layers) * (WIDTH + ACROSS) - ACROSS if layers else 0,
        height=height,
        repeated=frozenset(parent for parent, child in waits if parent == child),
    )


def _acyclic(nodes: Sequence[int], waits: Collection[Wait]) -> set[Wait]:
    """Leave out waits that lead back to a node on the same way."""
    children, kept, done = _children(waits), set[Wait](), set[int]()

    def follow(node: int, way: frozenset[int]) -> None:
        for child in children[node]:
            if child not in way:
                kept.add((node, child))
                if child not in done:
                    follow(child, way | {child})
        done.add(node)

    followed = {child for parent, child in waits if parent != child}
    for node in sorted(nodes, key=lambda node: (node in followed, node)):
        if node not in done:
            follow(node, frozenset({node}))
    return kept


def _reduced(nodes: Sequence[int], waits: set[Wait], keep: Collection[Wait]) -> set[Wait]:
    """Leave out waits that follow from others (the transitive reduction)."""
    children, behind = _children(waits), dict[int, set[int]]()

    def reach(node: int) -> set[int]:
        if node not in behind:
            behind[node] = set(children[node]).union(*map(reach, children[node]))
        return behind[node]

    return {
        (parent, child)
        for parent, child in waits
        if (parent, child) in keep
        or not any(child in reach(other) for other in children[parent] if other != child)
    }


def _layered(nodes: Sequence[int], waits: set[Wait]) -> list[list[Place]]:
    """Return the nodes and the passing lines of each layer."""
    parents: defaultdict[int, list[int]] = defaultdict(list)
    for parent, child in waits:
        parents[child].append(parent)
    layer = dict[int, int]()

    def depth(node: int) -> int:
        if node not in layer:
            layer[node] = 1 + max(map(depth, parents[node]), default=-1)
        return layer[node]

    layers: list[list[Place]] = [[] for _ in range(1 + max(map(depth, nodes), default=-1))]
    for node in nodes:
        layers[layer[node]].append(node)
    for parent, child in sorted(waits):
        for passed in range(layer[parent] + 1, layer[child]):
            layers[passed].append((parent, child, passed))
    return layers


def _ways(layers: Sequence[Sequence[Place]], waits: set[Wait]) -> dict[Wait, list[Place]]:
    """Return the places on the way of each line."""
    passed: defaultdict[Wait, list[Place]] = defaultdict(list)
    for layer in layers:
        for place in layer:
            if not isinstance(place, int):
                passed[place[:2]].append(place)
    return {wait: [wait[0], *passed[wait], wait[1]] for wait in sorted(waits)}


def _ordered(layers: list[list[Place]], ways: Iterable[Sequence[Place]]) -> list[list[Place]]:
    """Sort each layer by its neighbours in the layer before, then in the layer after it."""
    beside: defaultdict[Place, list[Place]] = defaultdict(list)
    for one, other in (hop for way in ways for hop in pairwise(way)):
        beside[one].append(other)
        beside[other].append(one)
    found = [list(layer) for layer in layers]
    for sweep in range(SWEEPS):
        step = 1 if sweep % 2 == 0 else -1
        numbers = range(1, len(found)) if step == 1 else range(len(found) - 2, -1, -1)
        for number in numbers:
            order = {place: at for at, place in enumerate(found[number - step])}
            means = {
                place: mean(near)
                if (near := [order[each] for each in beside[place] if each in order])
                else at
                for at, place in enumerate(found[number])
            }
            found[number].sort(key=means.__getitem__)
    return found


def _spots(layers: Sequence[Sequence[Place]]) -> tuple[dict[Place, tuple[float, float]], float]:
    """Return the upper left corner of each place, with centred layers; and the height."""
    heights = [sum(map(_height, layer)) + BELOW * (len(layer) - 1) for layer in layers]
    highest, spots = max(heights, default=0), dict[Place, tuple[float, float]]()
    for number, layer in enumerate(layers):
        y = MARGIN + (highest - heights[number]) / 2
        for place in layer:
            spots[place] = MARGIN + number * (WIDTH + ACROSS), y
            y += _height(place) + BELOW
    return spots, highest + 2 * MARGIN


def _height(place: Place) -> int:
    return HEIGHT if isinstance(place, int) else PASSING


def _line(wait: Wait, way: Sequence[Place], spots: Mapping[Place, tuple[float, float]]) -> Line:
    parts: list[str] = []
    for one, other in pairwise(way):
        (x, y), (to_x, to_y) = spots[one], spots[other]
        x, y, to_y = x + WIDTH, y + _height(one) / 2, to_y + _height(other) / 2
        middle, begin = (x + to_x) / 2, "L" if parts else "M"
        curve = f"C{middle:g},{y:g} {middle:g},{to_y:g} {to_x:g},{to_y:g}"
        parts.append(f"{begin}{x:g},{y:g} {curve}")
    return Line(wait, " ".join(parts), (to_x, to_y))


def _children(waits: Iterable[Wait]) -> defaultdict[int, list[int]]:
    found: defaultdict[int, list[int]] = defaultdict(list)
    for parent, child in sorted(waits):
        if parent != child:
            found[parent].append(child)
    return found
