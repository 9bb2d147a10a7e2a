"""What pages show of flows: their messages in groups, and the critical path."""

from __future__ import annotations

import pytest

from pgqueue import flow
from pgqueue.engine import flow_graph
from pgqueue.engine.flow_graph import Graph
from pgqueue.engine.flows import progress
from pgqueue.models import Flow, Message
from tests import flow_jobs as jobs
from tests import stored_flows as flows
from tests.factories import Connection
from tests.stored_flows import Member, Stored

DONE = "succeeded"


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Siblings are grouped in small flows, too."""
    monkeypatch.setattr(flow_graph, "SINGLY", 0)


def graph_of(queue: Connection, stored: Stored) -> Graph:
    return flow_graph.graph_of(queue, stored.id)


def nodes(graph: Graph) -> list[tuple[str, dict[str, int]]]:
    return [(node.task, dict(node.words)) for node in graph.nodes]


def steps(graph: Graph, stored: Stored) -> list[int]:
    """Return the places of the messages on the critical path."""
    return [stored.ids.index(step.id) for step in graph.steps]


class TestNodes:
    def test_of_a_small_flow_are_its_messages(self, queue: Connection) -> None:
        stored = flows.store(
            "f", [Member("a", DONE), Member("a", DONE), Member("b", "held", (0, 1))]
        )

        graph = graph_of(queue, stored)

        assert [node.id for node in graph.nodes] == stored.ids
        first, second, child = stored.ids
        assert graph.waits == {(first, child), (second, child)}
        assert nodes(graph)[2] == ("b", {"waiting": 1})

    def test_are_siblings_counted_by_state(self, queue: Connection) -> None:
        members = [Member("fetch", DONE)] * 37 + [Member("fetch", "dead")] * 3
        stored = flows.store("f", [*members, Member("merge", "held", range(40))])

        graph = graph_of(queue, stored)

        assert nodes(graph) == [("fetch", {DONE: 37, "dead": 3}), ("merge", {"waiting": 1})]
        assert graph.waits == {(stored.ids[0], stored.ids[-1])}
        assert graph.words == {DONE: 37, "dead": 3, "waiting": 1}

    def test_are_apart_for_other_parents_other_children_and_other_tasks(
        self, queue: Connection, few: None
    ) -> None:
        stored = flows.store(
            "f",
            [
                Member("a", DONE),
                Member("a", DONE),
                Member("b", DONE),
                Member("c", "held", (0, 1)),
                Member("c", "held", (0, 1)),
                Member("c", "held", (0, 1, 2)),
                Member("d", "held", (3, 4)),
                Member("c", "held", (0, 1)),
            ],
        )

        graph = graph_of(queue, stored)

        # The last one has no child, so that 3 and 4 are no siblings of it.
        assert [node.number for node in graph.nodes] == [2, 1, 2, 1, 1, 1]

    def test_are_apart_for_other_children_alone(self, queue: Connection, few: None) -> None:
        parents = [Member("a", DONE), Member("a", DONE)]
        stored = flows.store("f", [*parents, Member("b", "held", (0,)), Member("b", "held", (1,))])

        assert [node.id for node in graph_of(queue, stored).nodes] == stored.ids

    def test_are_tasks_where_there_are_too_many(
        self, queue: Connection, few: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(flow_graph, "NODES", 10)
        pairs = [
            member
            for n in range(6)
            for member in (Member("fetch", DONE), Member("parse", "held", (2 * n,)))
        ]
        stored = flows.store("f", [*pairs, Member("merge", "held", range(1, 12, 2))])

        graph = graph_of(queue, stored)

        assert graph.by_task
        assert nodes(graph) == [
            ("fetch", {DONE: 6}),
            ("parse", {"waiting": 6}),
            ("merge", {"waiting": 1}),
        ]
        fetch, parse, merge = (node.id for node in graph.nodes)
        assert graph.waits == {(fetch, parse), (parse, merge)}

    @pytest.mark.parametrize("number", [3, 60])
    def test_are_of_no_other_flow_that_is_waited_for_or_waits(
        self, queue: Connection, few: None, monkeypatch: pytest.MonkeyPatch, number: int
    ) -> None:
        monkeypatch.setattr(flow_graph, "NODES", number)
        with flow("first") as first:
            first.enqueue(jobs.nothing)
        with flow("second", after=first) as second:
            second.enqueue(jobs.nothing, after=second.enqueue(jobs.nothing))
        with flow("third", after=second) as third:
            third.enqueue(jobs.nothing)

        graph = flow_graph.graph_of(queue, int(second.id))

        ids = {node.id: node.task.rpartition(".")[2] for node in graph.nodes}
        pairs = [(ids[parent], ids[child]) for parent, child in sorted(graph.waits)]
        names = ["wait_for_flow", "nothing", "end_of_flow"]
        assert list(dict.fromkeys(ids.values())) == names
        assert graph.by_task is (number == 3)
        assert {*pairs} == {
            *[("wait_for_flow", "nothing"), ("nothing", "nothing")],
            *[("wait_for_flow", "end_of_flow"), ("nothing", "end_of_flow")],
        }
        assert third.progress.total == 2

    @pytest.mark.parametrize("bound", ["MEMBERS", "WAITS"])
    def test_are_tasks_of_a_flow_that_is_too_large_to_look_at_all_of_it(
        self, queue: Connection, monkeypatch: pytest.MonkeyPatch, bound: str
    ) -> None:
        monkeypatch.setattr(flow_graph, bound, 30)
        members = [Member("fetch", DONE, (), n, n + 1) for n in range(40)]
        stored = flows.store("f", [*members, Member("merge", DONE, range(40), 50, 51)])

        graph = graph_of(queue, stored)

        assert graph.by_task
        assert not graph.is_whole
        assert nodes(graph) == [("fetch", {DONE: 40}), ("merge", {DONE: 1})]
        assert graph.waits == {(stored.ids[0], stored.ids[-1])}
        assert graph.steps == []

    def test_tell_when_the_first_began_when_the_last_ended_and_how_long_one_ran(
        self, queue: Connection, few: None
    ) -> None:
        stored = flows.store("f", [Member("a", DONE, (), 1, 3), Member("a", DONE, (), 2, 6)])
        stored_at = Flow.objects.get(pk=stored.id).created_at

        (node,) = graph_of(queue, stored).nodes

        assert node.started_at and node.finished_at and node.ran
        assert (node.started_at - stored_at).total_seconds() == 1
        assert (node.finished_at - stored_at).total_seconds() == 6
        assert node.ran.total_seconds() == 3

    def test_of_a_flow_without_messages_are_none(self, queue: Connection) -> None:
        graph = graph_of(queue, flows.store("f", []))

        assert graph.nodes == []
        assert graph.steps == []


class TestTheCriticalPath:
    def test_leads_back_by_the_parent_that_ended_last(self, queue: Connection) -> None:
        stored = flows.store(
            "f",
            [
                Member("a", DONE, (), 0, 9),
                Member("b", DONE, (), 0, 2),
                Member("c", DONE, (1,), 2, 12),
                Member("d", DONE, (0, 2), 12, 13),
                Member("e", DONE, (0,), 9, 10),
            ],
        )

        graph = graph_of(queue, stored)

        assert steps(graph, stored) == [1, 2, 3]
        ids = stored.ids
        assert graph.critical == {(ids[1], ids[2]), (ids[2], ids[3])}

    def test_leads_through_groups(self, queue: Connection, few: None) -> None:
        members = [Member("fetch", DONE, (), 0, n) for n in range(1, 6)]
        stored = flows.store("f", [*members, Member("merge", DONE, range(5), 6, 7)])

        graph = graph_of(queue, stored)

        assert steps(graph, stored) == [4, 5]
        assert graph.critical == {(stored.ids[0], stored.ids[5])}
        assert [node.path for node in graph.nodes] == [{stored.ids[4]}, {stored.ids[5]}]

    def test_is_that_so_far_of_a_flow_that_goes_on(self, queue: Connection) -> None:
        stored = flows.store(
            "f",
            [Member("a", DONE, (), 0, 1), Member("b", DONE, (0,), 1, 2), Member("c", "held", (1,))],
        )

        assert steps(graph_of(queue, stored), stored) == [0, 1]

    def test_leaves_out_what_ended_after_its_child_began(self, queue: Connection) -> None:
        # It was replayed: its child had run on its failure by then.
        stored = flows.store(
            "f",
            [
                Member("a", DONE, (), 0, 1),
                Member("b", DONE, (), 8, 9),
                Member("c", DONE, (0, 1), 2, 10),
            ],
        )

        assert steps(graph_of(queue, stored), stored) == [0, 2]

    def test_is_followed_back_up_to_a_bound(
        self, queue: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(flow_graph, "STEPS", 3)
        members = [Member("a", DONE, (n - 1,) if n else (), n, n + 1) for n in range(6)]
        stored = flows.store("f", members)

        assert steps(graph_of(queue, stored), stored) == [3, 4, 5]


class TestOfOneMessage:
    def test_its_parents_and_children_are_told_with_their_states(self, queue: Connection) -> None:
        stored = flows.store(
            "f",
            [
                Member("a", DONE),
                Member("b", "dead"),
                Member("c", "held", (0, 1)),
                Member("d", "held", (2,)),
            ],
        )
        ids = stored.ids

        parents = flow_graph.parents(queue, stored.id, ids[2], limit=5)
        children = flow_graph.children(queue, ids[2], limit=5)
        missing = flow_graph.missing(queue, ids[2], limit=5)

        assert parents == [(ids[0], "a", DONE), (ids[1], "b", "dead")]
        assert children == [(ids[3], "d", "waiting")]
        assert missing == [(ids[1], "b", "dead")]
        assert flow_graph.on_failure(queue, ids[2]) == "wait"
        assert flow_graph.on_failure(queue, ids[0]) is None

    def test_the_parent_that_ended_last_before_it_began_is_found(self, queue: Connection) -> None:
        stored = flows.store(
            "f",
            [
                Member("a", DONE, (), 0, 1),
                Member("b", DONE, (), 0, 3),
                Member("c", DONE, (), 8, 9),
                Member("d", "running", (0, 1, 2), 4),
            ],
        )
        began = Message.objects.get(pk=stored.ids[3]).started_at
        assert began is not None

        found = flow_graph.last_end(queue, stored.id, stored.ids[3], before=began)

        assert found is not None
        assert found[0] == stored.ids[1]


def test_progress_is_counted_up_to_a_bound(queue: Connection) -> None:
    large = flows.store("f", [Member("a", DONE)] * 5 + [Member("a", "ready")] * 2)
    empty = flows.store("f", [])

    found = progress(queue, [large.id, empty.id], bound=3)

    assert found == {large.id: {DONE: 3, "ready": 2}, empty.id: {}}
