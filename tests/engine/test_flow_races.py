"""Flows at the critical moment, stepped by hand: ends, growth, operators and the router at once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection as django
from django.db import transaction

from pgqueue import InvalidFlow, flow
from pgqueue.engine import cancel, dead, flows, route, settle
from pgqueue.engine import enqueue as enqueueing
from pgqueue.engine.culprits import WHOLE
from pgqueue.models import Bell, Blocked, FailedMember, Message
from pgqueue.states import State
from pgqueue.tasks.flow_building import Growth
from tests import flow_jobs as jobs
from tests.engine.flow_graphs import Graph, succeed
from tests.eventually import eventually
from tests.factories import Connection, claim, failure, one, store
from tests.stepping import Step

REPEATABLE = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"


def claims_of(graph: Graph, names: str) -> list[Any]:
    """Claim all that is ready; return the claims of these, in their order."""
    by_id = {each.id: each for each in claim(graph.connection, limit=100)}
    return [by_id[graph.ids[name]] for name in names]


def grow(connection: Connection, graph: Graph, parent: Any, children: str) -> int:
    """Do what a run does that adds a message which its children wait for, and ends."""
    [id] = enqueueing.reserve(connection, 1)
    store(connection, ids=[id], flow_id=graph.flow_id)
    found, _ = flows.children(connection, graph.flow_id, parent.id)
    assert set(found) == {graph.ids[name] for name in children}
    flows.depend(connection, graph.flow_id, [(child, id) for child in found])
    succeed(connection, [parent])
    return id


def watched(graph: Graph, name: str) -> int:
    return Blocked.objects.get(pk=graph.ids[name]).watched_id


class TestTwoEnds:
    @pytest.mark.parametrize("order", ["ab", "ba"])
    def test_in_transactions_that_overlap_are_both_seen(
        self, connection: Connection, other: Connection, third: Connection, order: str
    ) -> None:
        graph = Graph(connection, {"a": "", "b": "", "c": "ab"})
        ends = dict(zip("ab", claims_of(graph, "ab"), strict=True))
        sessions = {"a": other, "b": third}
        open_ = {name: ExitStack() for name in "ab"}
        for name in "ab":
            open_[name].enter_context(sessions[name].transaction())
            succeed(sessions[name], [ends[name]])
        graph.route()
        assert graph.states()["c"] == State.HELD

        for name in order:
            assert graph.states()["c"] == State.HELD
            open_[name].close()
            graph.route()

        assert graph.ready() == "c"
        assert not Blocked.objects.exists()

    def test_of_which_one_commits_between_the_bells_and_the_look_free_a_child_once(
        self, connection: Connection, other: Connection
    ) -> None:
        graph = Graph(connection, {"a": "", "b": "", "c": "ab"})
        first, second = claims_of(graph, "ab")
        succeed(connection, [first])

        with connection.transaction():
            connection.execute(route.SQL["take"], {**WHOLE._asdict(), "after": 0, "limit": 100})
            succeed(other, [second])
            assert len(flows.advance(connection, {first.id})) == 1

        assert graph.ready() == "c"
        graph.route()
        assert graph.ready() == "c"
        assert not Bell.objects.exists()

    def test_settled_by_a_repeatable_read_transaction_free_a_child(
        self, connection: Connection, other: Connection
    ) -> None:
        graph = Graph(connection, {"a": "", "b": "", "c": "ab"})
        first, second = claims_of(graph, "ab")
        with other.transaction():
            other.execute(REPEATABLE)
            other.execute("SELECT FROM pgqueue_message WHERE id = %s FOR UPDATE", [second.id])
            succeed(connection, [first])
            graph.route()
            succeed(other, [second])

        graph.route()

        assert graph.ready() == "c"


class TestGrowth:
    def test_that_commits_while_the_router_looks_is_waited_for(
        self, connection: Connection, other: Connection
    ) -> None:
        graph = Graph(connection, {"a": "", "b": "", "c": "ab"})
        first, second = claims_of(graph, "ab")
        with other.transaction():
            grown = grow(other, graph, second, "c")
            succeed(connection, [first])
            graph.route()
            assert watched(graph, "c") == second.id

        graph.route()
        assert graph.states()["c"] == State.HELD
        assert watched(graph, "c") == grown

        succeed(connection, claim(connection))
        graph.route()
        assert graph.ready() == "c"

    def test_of_the_lower_parent_has_a_higher_id_than_whatever_is_watched(
        self, connection: Connection, other: Connection, third: Connection
    ) -> None:
        graph = Graph(connection, {"a": "", "b": "", "c": "ab"})
        first, second = claims_of(graph, "ab")
        with third.transaction():
            reserved = enqueueing.reserve(third, 10)  # by somebody else, before
            grown_first = grow(third, graph, first, "c")
            with other.transaction():
                grown_second = grow(other, graph, second, "c")
            graph.route()
            assert watched(graph, "c") == first.id

        graph.route()

        assert max(*reserved, first.id, second.id) < grown_first < grown_second
        assert watched(graph, "c") == grown_first

    def test_relies_on_ids_that_no_session_keeps_back(self, connection: Connection) -> None:
        (size,) = one(
            connection,
            "SELECT cache_size FROM pg_sequences "
            "WHERE schemaname || '.' || sequencename = pg_get_serial_sequence(%s, 'id')",
            "pgqueue_message",
        )

        assert size == 1

    def test_of_a_replayed_parent_that_its_child_has_passed_is_waited_for(
        self, connection: Connection
    ) -> None:
        graph = Graph(connection, {"a": "", "b": "", "c": "ab run"})
        first, second = claims_of(graph, "ab")
        settle.bury(connection, [failure(first)])
        graph.route()
        assert watched(graph, "c") == second.id
        dead.replay(connection, [first.id])
        [again] = claim(connection)

        succeed(connection, [second])
        graph.route()
        assert watched(graph, "c") == first.id
        with connection.transaction():
            grown = grow(connection, graph, again, "c")
        graph.route()
        assert watched(graph, "c") == grown
        succeed(connection, claim(connection))
        graph.route()

        assert graph.ready() == "c"
        assert not Blocked.objects.exists()

    def test_of_a_parent_that_died_again_does_not_hold_up_its_child(
        self, connection: Connection
    ) -> None:
        graph = Graph(connection, {"a": "", "b": "", "c": "ab run"})
        first, second = claims_of(graph, "ab")
        settle.bury(connection, [failure(first)])
        graph.route()
        dead.replay(connection, [first.id])
        succeed(connection, [second])
        graph.route()
        [again] = claim(connection)

        settle.bury(connection, [failure(again)])
        graph.route()

        assert graph.ready() == "c"


class TestACancel:
    def test_of_a_child_that_the_router_frees_waits_and_ends_it(
        self, connection: Connection, other: Connection, step: Callable[..., Step]
    ) -> None:
        graph = Graph(connection, {"a": "", "b": "a"})
        graph.run("a")
        with connection.transaction():
            route.route(connection, after=0)
            cancelling = step(cancel.cancel, other, [graph.ids["b"]])
            cancelling.waits()

        assert cancelling.result().ended == {graph.ids["b"]}
        graph.route()
        assert graph.states()["b"] == "cancelled"
        assert not Blocked.objects.exists()

    def test_that_comes_first_is_not_undone_by_the_router(
        self, connection: Connection, other: Connection
    ) -> None:
        graph = Graph(connection, {"a": "", "b": "a", "c": "b run"})
        graph.run("a")
        with other.transaction():
            cancel.cancel(other, [graph.ids["b"]])
            graph.route()
            assert graph.states()["b"] == State.HELD

        graph.route()

        assert graph.states() == {"a": "succeeded", "b": "cancelled", "c": "ready"}
        assert not Blocked.objects.exists()

    def test_of_a_flow_while_a_message_runs_leaves_nothing_that_waits(
        self, connection: Connection
    ) -> None:
        graph = Graph(connection, {"a": "", "b": "a", "c": "b run"})
        [first] = claims_of(graph, "a")

        came_to = cancel.cancel(connection, list(graph.ids.values()))
        assert came_to.asked == {first.id}
        graph.route()
        settle.retry(connection, [failure(first)])
        graph.route()

        assert set(graph.states().values()) == {"cancelled"}
        assert not Blocked.objects.exists()
        assert flows.end(connection) == 1


class TestAReplay:
    def test_that_is_not_committed_does_not_spare_a_child_that_is_to_be_cancelled(
        self, connection: Connection, other: Connection
    ) -> None:
        graph = Graph(connection, {"a": "", "b": "a cancel", "c": "a wait"})
        graph.run("a", settled=lambda c, claims: settle.bury(c, [failure(claims[0])]))

        with other.transaction():
            dead.replay(other, [graph.ids["a"]])
            graph.route()

        assert graph.states() == {"a": "ready", "b": "cancelled", "c": "held"}
        graph.run("a")
        graph.route()
        assert graph.ready() == "c"

    def test_before_the_router_looks_spares_all(self, connection: Connection) -> None:
        graph = Graph(connection, {"a": "", "b": "a cancel", "c": "a run"})
        graph.run("a", settled=lambda c, claims: settle.bury(c, [failure(claims[0])]))
        dead.replay(connection, [graph.ids["a"]])

        graph.route()

        assert graph.states() == {"a": "ready", "b": "held", "c": "held"}
        graph.run("a")
        graph.route()
        assert graph.ready() == "bc"

    def test_waits_for_no_router(self, connection: Connection, other: Connection) -> None:
        graph = Graph(connection, {"a": "", "b": "a cancel"})
        graph.run("a", settled=lambda c, claims: settle.bury(c, [failure(claims[0])]))

        with connection.transaction():
            route.route(connection, after=0)
            assert dead.replay(other, [graph.ids["a"]])

        assert graph.states() == {"a": "ready", "b": "cancelled"}

    def test_and_a_discard_of_the_same_leave_one_end(
        self, connection: Connection, other: Connection, step: Callable[..., Step]
    ) -> None:
        graph = Graph(connection, {"a": "", "b": "a"})
        graph.run("a", settled=lambda c, claims: settle.bury(c, [failure(claims[0])]))

        with connection.transaction():
            dead.discard(connection, [graph.ids["a"]])
            replaying = step(dead.replay, other, [graph.ids["a"]])
            replaying.waits()

        assert not replaying.result()
        graph.route()
        assert graph.states() == {"a": "discarded", "b": "cancelled"}
        assert FailedMember.objects.count() == 2


class TestAFlow:
    def test_that_is_stored_for_long_holds_up_nobody_and_runs_then(
        self, connection: Connection, other: Connection
    ) -> None:
        before = Graph(connection, {"a": "", "b": "a"})
        with other.transaction():
            late = Graph(other, {"a": "", "b": "a"})
            before.run("a")
            before.route()
            before.run("b")
            before.route()
            assert flows.end(connection) == 1
            assert flows.ring_stale(connection) == 0

        late.connection = connection
        late.run("a")
        late.route()
        assert late.ready() == "b"

    def test_is_stored_by_a_repeatable_read_transaction(
        self, connection: Connection, other: Connection
    ) -> None:
        with other.transaction():
            other.execute(REPEATABLE)
            other.execute("SELECT 1")
            graph = Graph(other, {"a": "", "b": "a"})
        graph.connection = connection

        graph.run("a")
        graph.route()

        assert graph.ready() == "b"

    def test_of_which_a_message_is_enqueued_again_to_replace_it_goes_on_as_it_was(
        self, connection: Connection
    ) -> None:
        graph = Graph(connection, {"a": "", "b": "a"})
        Message.objects.filter(pk=graph.ids["b"]).update(dedupe_key="burst")

        again = store(connection, dedupe_keys=["burst"], payloads=['{"n": 2}'], replaces=True)

        assert (again.ids, again.came_of) == ((graph.ids["b"],), ("existing",))
        assert graph.states()["b"] == State.HELD
        graph.run("a")
        graph.route()
        assert graph.ready() == "b"
        assert Message.objects.get(pk=graph.ids["b"]).payload == {}


def test_bells_that_are_taken_in_parts_move_each_flow_on(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(route, "BATCH", 1)
    graph = Graph(connection, {"a": "", "b": "", "c": "ab", "d": "a", "e": "cd"})

    for _ in range(3):
        for each in claim(connection):
            succeed(connection, [each])
        graph.route()

    assert set(graph.states().values()) == {"succeeded"}
    assert not Blocked.objects.exists()


class TestAddingFromOutside:
    """Another session adds to a flow while its last message ends."""

    def add(self, connection: Connection, graph: Graph) -> int | None:
        """Do what a block does that adds a message to a stored flow."""
        if not flows.keep(connection, graph.flow_id):
            return None
        [id] = enqueueing.reserve(connection, 1)
        store(connection, ids=[id], flow_id=graph.flow_id)
        _, handlers = flows.children(connection, graph.flow_id, 0)
        flows.depend(connection, graph.flow_id, [(child, id) for child in handlers])
        return id

    def handled(self, connection: Connection) -> Graph:
        graph = Graph(connection, {"a": "", "end": "a"})
        connection.execute(
            "UPDATE pgqueue_flow SET handler_id = %s WHERE id = %s",
            [graph.ids["end"], graph.flow_id],
        )
        connection.execute("UPDATE pgqueue_blocked SET on_failure = 'run'")
        return graph

    def test_keeps_the_last_message_until_it_is_committed(
        self, connection: Connection, other: Connection
    ) -> None:
        graph = self.handled(connection)
        [last] = claims_of(graph, "a")
        with other.transaction():
            added = self.add(other, graph)
            succeed(connection, [last])  # waits for no lock, and so settles nothing
            graph.route()
            assert graph.states()["end"] == State.HELD

        succeed(connection, [last])
        graph.route()
        assert graph.states()["end"] == State.HELD
        [more] = [each for each in claim(connection, limit=9) if each.id == added]
        succeed(connection, [more])
        graph.route()

        assert graph.ready() == "end"

    def test_comes_too_late_after_the_end_that_it_has_waited_for(
        self, connection: Connection, other: Connection, step: Callable[..., Step]
    ) -> None:
        graph = self.handled(connection)
        [last] = claims_of(graph, "a")
        with ExitStack() as open_:
            open_.enter_context(connection.transaction())
            succeed(connection, [last])
            adding = step(self.in_transaction, other, graph)
            adding.waits()
            open_.close()

        assert adding.result() is None

    def in_transaction(self, connection: Connection, graph: Graph) -> int | None:
        with connection.transaction():
            return self.add(connection, graph)


class TestTwoRunsThatAddWaits:
    def test_never_make_a_circle_together(
        self, connection: Connection, step: Callable[..., Step]
    ) -> None:
        """Each has a message that is there wait for a new one, which waits for the other's."""
        with flow("circle") as f:
            runs = [f.enqueue(jobs.number, each) for each in (1, 2)]
            for name, run in zip("cd", runs, strict=True):
                f.enqueue(jobs.number, run, name=name)

        def add(run: int, name: str) -> None:
            growth = Growth("default", flow_id=int(f.id), message_id=runs[run].message_id)
            growth.enqueue(jobs.number, growth[name], awaited=True)
            growth.grow(django)

        def add_elsewhere(_: Connection) -> None:
            with closing(django), transaction.atomic():
                pids.append(django.connection.info.backend_pid)
                add(1, "c")

        pids: list[int] = []
        with transaction.atomic():
            add(0, "d")  # c waits for a new one, and that for d
            second = step(add_elsewhere, connection)
            eventually(lambda: pids)
            replace(second, pid=pids[0]).waits()

        with pytest.raises(InvalidFlow, match="would never run"):
            second.result()
