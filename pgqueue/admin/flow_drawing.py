"""A flow in words, links and places: what its page draws, and says again in tables."""

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
"""In the order in which states are told: what needs somebody comes first."""
WAITS_FOR_OTHERS: StrOrPromise = gettext_lazy("Waits for others")
TIMES = "\N{MULTIPLICATION SIGN}"
TITLE_LENGTH, LINE_LENGTH = 22, 27
"""Characters that a node has room for."""
BAR = WIDTH - 24


@dataclass(frozen=True)
class Count:
    """How many messages of a node are in a state, or had an outcome.

    Attributes:
        url: of the list of them; "": the user may not see it.
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
        """What tells the state beside its colour."""
        return SIGNS.get(self.word, "")

    @property
    def text(self) -> str:
        """The number, and the state."""
        return f"{grouped(self.number)} {self.label.lower()}"


@dataclass(frozen=True)
class Segment:
    """A part of the bar that shows how a node's messages are spread over states."""

    word: str
    x: float
    width: float


@dataclass(frozen=True)
class Box:
    """A node as it is drawn.

    Attributes:
        counts: what needs somebody first.
        after: names of the nodes that it waits for.
        is_critical: whether a message of it is on the critical path.
        is_repeated: whether some of its messages wait for others of it.
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
        """Its name as far as there is room for it."""
        own = self.node.task.rpartition(".")[2] or "-"
        number = "" if self.node.number == 1 else f" {TIMES} {grouped(self.node.number)}"
        return Truncator(own).chars(TITLE_LENGTH - len(number)) + number

    @property
    def label(self) -> str:
        """All that is said of it."""
        return f"{self.name}: {', '.join(count.text for count in self.counts)}"

    @property
    def said(self) -> str:
        """Its states, as far as there is room for them."""
        if self.node.number == 1:
            return f"{self.counts[0].sign} {self.counts[0].label}"
        text = ", ".join(count.text for count in self.counts)
        return f"{self.counts[0].sign} {Truncator(text).chars(LINE_LENGTH)}"

    @property
    def lasting(self) -> str:
        """For how long it ran, or one of its messages."""
        if self.node.ran is None:
            return ""
        ran = duration(self.node.ran)
        text = ran if self.node.number == 1 else _("%s each") % ran
        return _("%s, one after another") % text if self.is_repeated else text

    @property
    def bar(self) -> list[Segment]:
        """How its messages are spread over states, from its left edge."""
        found, x = [], 12.0
        for count in reversed(self.counts):
            width = BAR * count.number / self.node.number
            found.append(Segment(count.word, round(x, 1), round(width, 1)))
            x += width
        return found


@dataclass(frozen=True)
class Edge:
    """A line as it is drawn."""

    line: Line
    is_critical: bool

    @property
    def arrow(self) -> str:
        """Its head, as points of a polygon."""
        x, y = self.line.end
        return f"{x:g},{y:g} {x - 8:g},{y - 4:g} {x - 8:g},{y + 4:g}"


@dataclass(frozen=True)
class Drawing:
    """A flow's graph.

    Attributes:
        description: what it shows, to those who don't see it.
    """

    boxes: Sequence[Box]
    edges: Sequence[Edge]
    layout: FlowLayout
    description: str
    box_width: int = WIDTH
    box_height: int = HEIGHT
    bar_width: int = BAR


def draw(request: HttpRequest, flow_id: int, graph: Graph) -> Drawing:
    """Return a flow as its page draws it, with links to what the user may see."""
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
    # The critical lines above the others.
    edges = [Edge(line, line.wait in graph.critical) for line in layout.lines]
    edges.sort(key=lambda edge: edge.is_critical)
    return Drawing(boxes, edges, layout, _described(graph, boxes))


def word_for(word: str) -> str:
    """Return what is said of a state or an outcome, or of what waits for others."""
    return str(WAITS_FOR_OTHERS if word == WAITING else label_of(word))


def in_order(words: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return how many messages are in which state: what needs somebody first."""
    known = list(SIGNS)
    return sorted(words.items(), key=lambda item: known.index(item[0]))


def lasting(begin: datetime | None, end: datetime | None) -> timedelta | None:
    """Return the time between two moments; None: one of them is not known."""
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
    """Return the address of its message, or of the list of what of it needs somebody first."""
    word, _number = in_order(node.words)[0]
    if node.number > 1:
        return _list_url(request, flow_id, node, word)
    model = "history" if word in Outcome.values else "message"
    if not request.user.has_perm(f"pgqueue.view_{model}"):
        return ""
    return reverse(f"admin:pgqueue_{model}_change", args=[node.id])


def _described(graph: Graph, boxes: Sequence[Box]) -> str:
    """Say what the graph shows, to those who don't see it."""
    counts = ", ".join(
        f"{grouped(count)} {word_for(word).lower()}" for word, count in in_order(graph.words)
    )
    said = [_("Messages: %s.") % counts]
    critical = [box.name for box in boxes if box.is_critical]
    if critical:
        said.append(_("The critical path leads through %s.") % ", ".join(critical))
    return " ".join([*said, _("The table below says the same.")])
