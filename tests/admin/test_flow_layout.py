"""Where the nodes of a flow are drawn, and the lines between them."""

from __future__ import annotations

import random
import re
from itertools import combinations

from pgqueue.admin.flow_layout import HEIGHT, WIDTH, FlowLayout, Wait, lay_out

NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def drawn(layout: FlowLayout) -> set[Wait]:
    return {line.wait for line in layout.lines}


def test_a_child_is_to_the_right_of_each_of_its_parents() -> None:
    layout = lay_out([1, 2, 3, 4], [(1, 2), (2, 4), (3, 4)])

    x = {node: corner[0] for node, corner in layout.corners.items()}
    assert x[1] < x[2] < x[4]
    assert x[3] < x[4]
    assert x[1] == x[3]


def test_a_wait_that_follows_from_others_is_not_drawn_unless_it_is_to_be_kept() -> None:
    waits = [(1, 2), (2, 3), (1, 3)]

    assert drawn(lay_out([1, 2, 3], waits)) == {(1, 2), (2, 3)}
    assert drawn(lay_out([1, 2, 3], waits, keep=[(1, 3)])) == set(waits)


def test_tasks_that_wait_for_each_other_in_turn_are_drawn_all_the_same() -> None:
    layout = lay_out([1, 2, 3], [(1, 2), (2, 3), (3, 1), (2, 2)])

    assert drawn(layout) == {(1, 2), (2, 3)}
    assert layout.repeated == {2}


def test_a_line_that_passes_a_layer_crosses_none_of_its_nodes() -> None:
    layout = lay_out([1, 2, 3], [(1, 2), (2, 3), (1, 3)], keep=[(1, 3)])

    (line,) = (line for line in layout.lines if line.wait == (1, 3))
    (x, y), numbers = layout.corners[2], list(map(float, NUMBER.findall(line.path)))
    points = list(zip(numbers[::2], numbers[1::2], strict=True))
    passing = [point for point in points if x <= point[0] <= x + WIDTH]
    assert passing
    assert all(not y <= point[1] <= y + HEIGHT for point in passing)


def test_nothing_is_drawn_of_no_nodes() -> None:
    assert lay_out([], []) == FlowLayout({}, [], 0, 24)


def test_nodes_of_any_graph_overlap_nowhere_and_lines_end_where_they_should() -> None:
    chosen = random.Random(24)
    for _ in range(50):
        nodes = list(range(chosen.randint(1, 30)))
        pairs = [(a, b) for a in nodes for b in nodes]
        waits = chosen.sample(pairs, min(len(pairs), chosen.randint(0, 60)))
        layout = lay_out(nodes, waits)

        assert layout.corners.keys() == set(nodes)
        for (x, y), (other_x, other_y) in combinations(layout.corners.values(), 2):
            assert abs(x - other_x) >= WIDTH or abs(y - other_y) >= HEIGHT
        for x, y in layout.corners.values():
            assert 0 <= x <= layout.width - WIDTH
            assert 0 <= y <= layout.height - HEIGHT
        for line in layout.lines:
            x, y = layout.corners[line.wait[1]]
            assert line.end == (x, y + HEIGHT / 2)
            assert layout.corners[line.wait[0]][0] < x
