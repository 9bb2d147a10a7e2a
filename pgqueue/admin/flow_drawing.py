"""A flow in words, links and places, for the drawing and the tables of its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.http import HttpRequest
from django.urls import reverse
from django.utils.text import Truncator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from pgqueue.admin.flow_layout import HEIGHT, WIDTH, FlowLayout, Line, lay_out
from pgqueue.admin.links import page_url
from pgqueue.engine.flow_graph import FlowNode, Graph
from pgqueue.states import WAITING, Outcome, State
from pgqueue.templatetags.pgqueue_admin import duration, grouped
from pgqueue.templatetags.pgqueue_admin import state as label_of

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

SIGNS = {
    State.DEAD: "✗",
    State.RUNNING: "▶",
    State.READY: "●",
    State.SCHEDULED: "◷",
    WAITING: "…",
    State.HELD: "…",
    Outcome.CANCELLED: "⊘",
    Outcome.DISCARDED: "⊘",
    Outcome.EXPIRED: "⊘",
    Outcome.SUCCEEDED: "✓",
}
"""The order of states: states that need a person come first."""
WAITS_FOR_OTHERS: StrOrPromise = gettext_lazy("Waits for others")
TIMES = "\N{MULTIPLICATION SIGN}"
TITLE_LENGTH, LINE_LENGTH = 22, 27
"""The most characters of a line in a node."""
BAR = WIDTH - 24


@dataclass(frozen=True)
class Count:
    """The number of a node's messages that are in a state, or had an outcome.

    Attributes:
        url: the address of their list; "": the user may not see the list.
    """

    word: str
    number: int
    url: str

    @property
    def label(self) -> str:
        """The word for the state."""
        return word_for(self.word)

    @property
    def sign(self) -> str:
        """The sign that shows the state without its colour."""
        return SIGNS.get(self.word, "")

    @property
    def text(self) -> str:
        """The number and the state in words."""
        return f"{grouped(self.number)} {self.label.lower()}"


@dataclass(frozen=True)
class Segment:
    """A part of the bar that shows the states of a node's messages."""

    word: str
    x: float
    width: float


@dataclass(frozen=True)
class Box:
    """The drawing of a node.

    Attributes:
        counts: The counts by state; states that need a person come first.
        after: The names of its parent nodes.
        is_critical: Whether one of its messages is on the critical path.
        is_repeated: Whether some of its messages wait for others of the same node.
    """

    node: FlowNode
    x: float
    y: float
    name: str
    url: str
    counts: Sequence[Count]
    after: Sequence[str]
    is_critical: bool
    is_repeated: bool

    @property
    def title(self) -> str:
        """The name, cut to the room in the node."""
        own = self.node.task.rpartition(".")[2] or "-"
        number = "" if self.node.number == 1 else f" {TIMES} {grouped(self.node.number)}"
        return Truncator(own).chars(TITLE_LENGTH - len(number)) + number

    @property
    def label(self) -> str:
        """The name and all counts."""
        return f"{self.name}: {', '.join(count.text for count in self.counts)}"

    @property
    def said(self) -> str:
        """The states, cut to the room in the node."""
        if self.node.number == 1:
            return f"{self.counts[0].sign} {self.counts[0].label}"
        text = ", ".join(count.text for count in self.counts)
        return f"{self.counts[0].sign} {Truncator(text).chars(LINE_LENGTH)}"

    @property
    def lasting(self) -> str:
        """The run time of the node, or of one of its messages."""
        if self.node.ran is None:
            return ""
        ran = duration(self.node.ran)
        text = ran if self.node.number == 1 else _("%s each") % ran
        return _("%s, one after another") % text if self.is_repeated else text

    @property
    def bar(self) -> list[Segment]:
        """The bar of its messages' states, from the left edge."""
        found, x = [], 12.0
        for count in reversed(self.counts):
            width = BAR * count.number / self.node.number
            found.append(Segment(count.word, round(x, 1), round(width, 1)))
            x += width
        return found


@dataclass(frozen=True)
class Edge:
    """The drawing of a line."""

    line: Line
    is_critical: bool

    @property
    def arrow(self) -> str:
        """The arrow head, as points of a polygon."""
        x, y = self.line.end
        return f"{x:g},{y:g} {x - 8:g},{y - 4:g} {x - 8:g},{y + 4:g}"


@dataclass(frozen=True)
class Drawing:
    """A flow's graph.

    Attributes:
        description: a description of the graph for screen readers.
    """

    boxes: Sequence[Box]
    edges: Sequence[Edge]
    layout: FlowLayout
    description: str
    box_width: int = WIDTH
    box_height: int = HEIGHT
    bar_width: int = BAR


def draw(request: HttpRequest, flow_id: int, graph: Graph) -> Drawing:
    """Return the drawing of a flow, with links to the lists that the user may see."""
    ids = [node.id for node in graph.nodes]
    layout = lay_out(ids, graph.waits, graph.critical)
    names = {node.id: _name(node) for node in graph.nodes}
    on_path = {id for pair in graph.critical for id in pair}
    boxes = [
        Box(
            node=node,
            x=layout.corners[node.id][0],
            y=layout.corners[node.id][1],
            name=names[node.id],
            url=_node_url(request, flow_id, node),
            counts=_counts(request, flow_id, node),
            after=[
                names[parent]
                for parent, child in sorted(graph.waits)
                if child == node.id and parent != child
            ],
            is_critical=node.id in on_path or bool(node.path),
            is_repeated=node.id in layout.repeated,
        )
        for node in graph.nodes
    ]
    # Draw the critical lines above the others.
    edges = [Edge(line, line.wait in graph.critical) for line in layout.lines]
    edges.sort(key=lambda edge: edge.is_critical)
    return Drawing(boxes, edges, layout, _described(graph, boxes))


def word_for(word: str) -> str:
    """Return the word for a state or an outcome, or for messages that wait for parents."""
    return str(WAITS_FOR_OTHERS if word == WAITING else label_of(word))


def in_order(words: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return the number of messages in each state; states that need a person come first."""
    known = list(SIGNS)
    return sorted(words.items(), key=lambda item: known.index(item[0]))


def lasting(begin: datetime | None, end: datetime | None) -> timedelta | None:
    """Return the time between two moments; None: one moment is unknown."""
    return None if begin is None or end is None else end - begin


def _name(node: FlowNode) -> str:
    if node.number == 1:
        return f"{node.task} #{node.id}"
    return f"{node.task} {TIMES} {grouped(node.number)}"


def _counts(request: HttpRequest, flow_id: int, node: FlowNode) -> list[Count]:
    return [
        Count(word, number, _list_url(request, flow_id, node, word))
        for word, number in in_order(node.words)
    ]


def _list_url(request: HttpRequest, flow_id: int, node: FlowNode, word: str) -> str:
    """Return the address of the list of a task's messages in a state."""
    is_ended = word in Outcome.values
    model = "history" if is_ended else "message"
    if not request.user.has_perm(f"pgqueue.view_{model}"):
        return ""
    name = "outcome" if is_ended else "state"
    value = State.HELD.value if word == WAITING else word
    given = {"flow": flow_id, "task": node.task, name: value}
    return page_url(f"{model}_changelist", **given)


def _node_url(request: HttpRequest, flow_id: int, node: FlowNode) -> str:
    """Return the address of the node's message, or of the list of its most urgent state."""
    word, _number = in_order(node.words)[0]
    if node.number > 1:
        return _list_url(request, flow_id, node, word)
    model = "history" if word in Outcome.values else "message"
    if not request.user.has_perm(f"pgqueue.view_{model}"):
        return ""
    return reverse(f"admin:pgqueue_{model}_change", args=[node.id])


def _described(graph: Graph, boxes: Sequence[Box]) -> str:
    """Return a description of the graph for screen readers."""
    counts = ", ".join(
        f"{grouped(count)} {word_for(word).lower()}" for word, count in in_order(graph.words)
    )
    said = [_("Messages: %s.") % counts]
    critical = [box.name for box in boxes if box.is_critical]
    if critical:
        said.append(_("The critical path leads through %s.") % ", ".join(critical))
    return " ".join([*said, _("The table below says the same.")])
