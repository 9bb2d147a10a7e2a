"""Flows at the critical moment, stepped by hand: ends, growth, operators and the router at once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection as django
from django.db import transaction

from pgqueue import Flow, InvalidFlow, flow, get_flow
from pgqueue.engine import cancel, dead, flows, route, settle
from pgqueue.engine import enqueue as enqueueing
from pgqueue.engine.culprits import WHOLE
from pgqueue.models import Bell, Blocked, Dependency, FailedMember, Message
from pgqueue.models import Flow as FlowRow
from pgqueue.states import State
from pgqueue.tasks import latches
from pgqueue.tasks.flow_growth import Growth
from pgqueue.testing import run_all
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
            connection.execute(
                route.SQL["take"], {**WHOLE._asdict(), "after": 0, "limit": 100, "is_pooled": False}
            )
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

    def test_of_a_parent_before_the_router_looks_has_a_child_that_died_wait_for_it(
        self, connection: Connection
    ) -> None:
        graph = Graph(connection, {"a": "", "b": "a run"})
        graph.run("a", settled=lambda c, claims: settle.bury(c, [failure(claims[0])]))
        graph.route()
        passed_on = f'{{"class": "Oops", "parent": {graph.ids["a"]}}}'
        graph.run("b", settled=lambda c, claims: settle.bury(c, [failure(claims[0], passed_on)]))

        assert dead.replay(connection, [graph.ids["a"]]) == {*graph.ids.values()}
        graph.route()

        assert graph.states() == {"a": "ready", "b": "held"}
        graph.run("a")
        graph.route()
        assert graph.ready() == "b"

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

    def test_lets_a_message_go_that_it_had_locked_when_its_last_parent_ended(
        self, connection: Connection, other: Connection
    ) -> None:
        graph = Graph(connection, {"a": "", "b": "a"})
        [last] = claims_of(graph, "a")
        with other.transaction():
            assert flows.keep(other, graph.flow_id)  # locks b
            succeed(connection, [last])
            graph.route()
            assert graph.states()["b"] == State.HELD

        graph.route()

        assert graph.ready() == "b"

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


class TestAFlowThatWaitsForAnother:
    @pytest.fixture(autouse=True)
    def _forget(self) -> None:
        jobs.ran.clear()

    @pytest.fixture
    def elsewhere(
        self, connection: Connection, step: Callable[..., Step]
    ) -> Callable[[Callable[[], Any]], Step]:
        """A function that calls another one in a transaction of another session of Django's."""

        def elsewhere(call: Callable[[], Any]) -> Step:
            pids: list[int] = []

            def run(_: Connection) -> Any:
                with closing(django), transaction.atomic():
                    django.cursor().close()
                    pids.append(django.connection.info.backend_pid)
                    return call()

            started = step(run, connection)
            eventually(lambda: pids)
            return replace(started, pid=pids[0])

        return elsewhere

    def stored(self, name: str, **options: Any) -> Flow:
        with flow(name, **options) as f:
            f.enqueue(jobs.note, name)
        return f

    def extend(self, f: Flow, *, after: Flow) -> None:
        with get_flow(f.id) as later:
            later.enqueue(jobs.note, "later", after=get_flow(after.id))

    def route(self, connection: Connection) -> None:
        while route.look(connection, after=0).has_rung:
            route.route(connection, after=0)

    def end_all(self, connection: Connection) -> None:
        """Run all that is ready, as far as this session sees."""
        while claims := claim(connection, limit=100):
            succeed(connection, claims)
            self.route(connection)

    def test_keeps_the_last_message_of_the_other_one_until_it_is_committed(
        self, connection: Connection
    ) -> None:
        first = self.stored("first")
        [last] = claim(connection)
        with transaction.atomic():
            second = self.stored("second", after=first)
            succeed(connection, [last])  # waits for no lock, and so settles nothing
            self.route(connection)
            assert flows.end(connection) == 0

        assert first.progress == (0, 0, 1, 0, 1)
        succeed(connection, [last])
        self.route(connection)
        run_all()

        assert jobs.ran == ["second"]
        assert (first.progress.done, second.progress.done) == (2, 2)

    def test_goes_on_though_the_handler_of_the_other_one_ends_while_it_is_stored(
        self, connection: Connection
    ) -> None:
        first = self.stored("first", on_end=jobs.note)
        with transaction.atomic():
            second = self.stored("second", after=first)
            self.end_all(connection)
            assert flows.end(connection) == 1

        assert first.progress.done == 2
        assert second.progress.waiting == 2
        run_all()
        assert jobs.ran == ["second"]

    def test_goes_on_while_the_other_one_does(self, connection: Connection) -> None:
        first = self.stored("first", on_end=jobs.note)
        second, beside = (self.stored(name, after=first) for name in ("second", "beside"))
        third = self.stored("third", after=second)
        ids = [int(each.id) for each in (first, second, beside, third)]

        def go_on() -> list[bool]:
            return [flows.moving(connection, id) is not None for id in ids]

        self.route(connection)
        assert go_on() == [True] * 4
        succeed(connection, claim(connection))
        self.route(connection)
        assert go_on() == [True] * 4, "the handler is ready"
        succeed(connection, claim(connection))
        assert go_on() == [False, True, True, True], "the router is to look"
        self.route(connection)
        assert go_on() == [False, True, True, True]
        settle.bury(connection, [failure(each) for each in claim(connection, limit=9)])
        self.route(connection)
        assert go_on() == [False] * 4

    def test_gives_a_handler_that_notices_an_end_before_its_commit(
        self, connection: Connection
    ) -> None:
        with flow("first") as first:
            first.enqueue_many(jobs.note, [(1,), (2,)])
        one, two = claim(connection, limit=2)
        with transaction.atomic():
            self.stored("second", after=first)
            succeed(connection, [one])
            self.route(connection)

        succeed(connection, [two])
        self.route(connection)

        handler = Message.objects.get(task=latches.end_of_flow.name)
        assert handler.state == State.READY

    def test_comes_after_the_end_that_it_has_waited_for(
        self, connection: Connection, elsewhere: Callable[..., Step]
    ) -> None:
        first = self.stored("first")
        claims = claim(connection)
        with connection.transaction():
            succeed(connection, claims)
            storing = elsewhere(lambda: self.stored("second", after=first))
            storing.waits()

        second = storing.result()

        assert FlowRow.objects.get(pk=first.id).handler_id is None
        assert second.progress == (0, 0, 0, 1, 1)
        run_all()
        assert jobs.ran == ["second"]

    def test_waits_for_what_the_other_one_grows_by_while_it_is_stored(
        self, connection: Connection, other: Connection
    ) -> None:
        with flow("first") as first:
            first.enqueue_many(jobs.note, [("run",), ("beside",)])
        run, beside = claim(connection, limit=2)
        with other.transaction():
            grown = enqueueing.reserve(other, 1)
            store(other, ids=grown, flow_id=int(first.id))
            _, handlers = flows.children(other, int(first.id), run.id)
            assert not handlers
            second = self.stored("second", after=first)
            succeed(other, [run])
        succeed(connection, [beside])
        self.route(connection)

        # The handler ran, and knew nothing of the new message.
        Message.objects.filter(pk__in=grown).update(run_at=datetime.now(UTC) + timedelta(hours=1))
        Message.objects.filter(pk__in=grown).update(state="scheduled")
        run_all()
        assert (jobs.ran, second.progress) == ([], (0, 0, 0, 0, 2))

        Message.objects.filter(pk__in=grown).cancel()
        Message.objects.filter(state="scheduled").run_now()
        run_all()
        assert second.progress.failed == 2

    @pytest.mark.parametrize("is_kept", [True, False])
    def test_uses_the_handler_that_another_one_has_given_to_the_flow(
        self, is_kept: bool, elsewhere: Callable[..., Step]
    ) -> None:
        first = self.stored("first")
        with ExitStack() as block:
            if not is_kept:
                block.enter_context(pytest.raises(ZeroDivisionError))
            block.enter_context(transaction.atomic())
            self.stored("second", after=first)
            storing = elsewhere(lambda: self.stored("third", after=first))
            storing.waits()
            _ = 1 / is_kept
        storing.result()

        handler = FlowRow.objects.get(pk=first.id).handler_id
        assert list(Message.objects.filter(task=latches.end_of_flow.name)) == [
            Message.objects.get(pk=handler)
        ]
        assert Dependency.objects.filter(parent_id=handler).count() == 1 + is_kept
        run_all()
        assert sorted(jobs.ran) == ["first", *["second"] * is_kept, "third"]

    def test_that_is_rolled_back_leaves_the_other_one_as_it_was(
        self, connection: Connection
    ) -> None:
        first = self.stored("first")
        [last] = claim(connection)
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            self.stored("second", after=first)
            _ = 1 / 0

        succeed(connection, [last])
        self.route(connection)

        assert first.progress == (1, 0, 0, 0, 0)
        assert FlowRow.objects.get().handler_id is None
        assert flows.end(connection) == 1
        assert not Dependency.objects.exists()
        assert not Blocked.objects.exists()

    @pytest.mark.parametrize(
        ("before", "one", "two"), [([], "ab", "ba"), (["ab", "cd"], "bc", "da")]
    )
    def test_makes_no_circle_with_one_that_is_extended_at_the_same_time(
        self, before: list[str], one: str, two: str, elsewhere: Callable[..., Step]
    ) -> None:
        """The first letter of each pair waits for the second one."""
        stored = {name: self.stored(name) for name in "abcd"}

        def extend(pair: str) -> None:
            self.extend(stored[pair[0]], after=stored[pair[1]])

        for pair in before:
            extend(pair)
        with transaction.atomic():
            extend(one)
            extending = elsewhere(lambda: extend(two))
            extending.waits()

        with pytest.raises(InvalidFlow, match="neither could ever end"):
            extending.result()
        run_all()
        assert all(each.progress.has_ended for each in stored.values())
