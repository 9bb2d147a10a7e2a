"""Messages that wait for others are made ready once, when the last of these has ended."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest

from pgqueue import Channel, flow
from pgqueue.duties.flows import Flows
from pgqueue.engine import (
    cancel,
    dead,
    expire,
    flows,
    held,
    partitions,
    purge,
    retention,
    route,
    settle,
)
from pgqueue.models import Bell, FailedMember, Flow, History, Message
from pgqueue.models import Blocked as BlockedRow
from pgqueue.states import Outcome, State
from pgqueue.testing import run_all
from tests import flow_jobs as jobs
from tests.engine.flow_graphs import Graph, succeed
from tests.factories import Connection, claim, failure

WAIT, CANCEL, RUN = "wait", "cancel", "run"


def die(connection: Connection, claims: Sequence[Any], *, parent: int | None = None) -> None:
    error = {"class": "Oops"} if parent is None else {"class": "Oops", "parent": parent}
    settle.bury(connection, [failure(each, json.dumps(error)) for each in claims])


class TestReplay:
    """A dead letter that passed on the failure of a parent comes back with that parent."""

    def followed(self, connection: Connection, waits: dict[str, str]) -> Graph:
        """Return a flow in which `a` has died, and all others because of it."""
        graph = Graph(connection, waits)
        graph.run("a", settled=die)
        graph.route()
        for name in list(waits)[1:]:
            parent = graph.ids[waits[name][0]]
            graph.run(name, settled=lambda *given, parent=parent: die(*given, parent=parent))
            graph.route()
        assert set(graph.states().values()) == {"dead"}
        return graph

    def test_the_rest_of_a_chain_waits_again(self, connection: Connection) -> None:
        graph = self.followed(connection, {"a": "", "b": "a run", "c": "b run"})

        with connection.transaction():
            replayed = dead.replay(connection, [graph.ids["a"]])
        assert replayed == set(graph.ids.values())
        assert graph.states() == {"a": "ready", "b": "held", "c": "held"}
        for name in "abc":
            graph.route()
            assert graph.ready() == name
            graph.run(name)
        assert set(graph.states().values()) == {"succeeded"}
        assert not BlockedRow.objects.exists()

    def test_all_that_are_replayed_together_wait_for_each_other(
        self, connection: Connection
    ) -> None:
        graph = self.followed(connection, {"a": "", "b": "a run", "c": "b run"})

        for name in "cba":
            with connection.transaction():
                dead.replay(connection, list(graph.ids.values()))
            assert graph.ready() == "a", name

    def test_one_that_is_replayed_alone_runs(self, connection: Connection) -> None:
        graph = self.followed(connection, {"a": "", "b": "a run"})

        dead.replay(connection, [graph.ids["b"]])
        assert graph.states() == {"a": "dead", "b": "ready"}

    def test_one_that_failed_by_itself_stays_dead(self, connection: Connection) -> None:
        graph = Graph(connection, {"a": "", "b": "a run"})
        for name in "ab":
            graph.run(name, settled=die)
            graph.route()

        dead.replay(connection, [graph.ids["a"]])
        assert graph.states() == {"a": "ready", "b": "dead"}


class TestWaiting:
    def test_a_child_is_ready_when_the_last_of_its_parents_has_ended(
        self, connection: Connection
    ) -> None:
        graph = Graph(connection, {"a": "", "b": "", "c": "ab"})
        assert graph.ready() == "ab"

        graph.run("b")
        graph.route()
        assert graph.ready() == "a"

        graph.run("a")
        graph.route()
        assert graph.ready() == "c"
        assert not BlockedRow.objects.exists()

    def test_each_step_of_a_chain_follows_the_one_before(self, connection: Connection) -> None:
        graph = Graph(connection, {"a": "", "b": "a", "c": "b"})

        for name in "abc":
            assert graph.ready() == name
            graph.run(name)
            graph.route()

        assert set(graph.states().values()) == {"succeeded"}

    def test_a_child_for_which_it_rings_although_it_waits_goes_on_waiting(
        self, connection: Connection
    ) -> None:
        graph = Graph(connection, {"a": "", "b": "a", "c": "b"})
        flows.ring(connection, "", [graph.ids["b"]])
        graph.route()
        assert BlockedRow.objects.count() == 2

        graph.run("a")
        flows.ring(connection, "", [graph.ids["b"]])
        graph.route()  # both bells at once

        assert graph.ready() == "b"
        graph.run("b")
        graph.route()
        assert graph.ready() == "c"

    def test_a_child_waits_for_a_worker_since_its_parents_have_ended(
        self, connection: Connection
    ) -> None:
        graph = Graph(connection, {"a": "", "b": "a"})

        graph.run("a")
        graph.route()

        ended = History.objects.get(pk=graph.ids["a"]).finished_at
        assert Message.objects.get(pk=graph.ids["b"]).run_at >= ended

    def test_a_child_that_is_delayed_is_scheduled_then(self, connection: Connection) -> None:
        graph = Graph(connection, {"a": ""}, run_after=None)
        later = Graph(connection, {"a": "", "b": "a"})
        Message.objects.filter(pk=later.ids["b"]).update(
            run_at=Message.objects.get(pk=graph.ids["a"]).run_at + timedelta(hours=1)
        )

        claims = claim(connection, limit=10)
        succeed(connection, claims)
        later.route()

        assert later.states()["b"] == State.SCHEDULED

    def test_a_retry_of_a_parent_lets_no_child_go(self, connection: Connection) -> None:
        graph = Graph(connection, {"a": "", "b": "a"})

        graph.run("a", settled=lambda c, claims: settle.retry(c, [failure(claims[0])]))
        graph.route()

        assert graph.ready() == "a"

    def test_what_waits_is_not_committed_as_a_held_message_is_nor_does_its_hold_end(
        self, connection: Connection
    ) -> None:
        graph = Graph(connection, {"a": "", "b": "a"})

        assert held.commit(connection, [graph.ids["b"]]) == set()
        assert expire.expire(connection) == 0
        assert graph.states()["b"] == State.HELD


class TestAFailure:
    @pytest.mark.parametrize(
        ("on_failure", "state"),
        [(WAIT, "held"), (CANCEL, "cancelled"), (RUN, "ready")],
    )
    def test_of_a_parent_that_died_is_what_its_child_says(
        self, connection: Connection, on_failure: str, state: str
    ) -> None:
        graph = Graph(connection, {"a": "", "b": f"a {on_failure}"})

        graph.run("a", settled=die)
        graph.route()

        assert graph.states()["b"] == state

    @pytest.mark.parametrize(
        ("on_failure", "state"),
        [(WAIT, "cancelled"), (CANCEL, "cancelled"), (RUN, "ready")],
    )
    @pytest.mark.parametrize("how", ["cancelled", "discarded", "not kept", "purged", "finished"])
    def test_of_a_parent_that_is_gone_lets_no_child_wait_for_ever(
        self, connection: Connection, on_failure: str, state: str, how: str
    ) -> None:
        graph = Graph(connection, {"a": "", "b": f"a {on_failure}"})
        a = graph.ids["a"]

        if how == "cancelled":
            cancel.cancel(connection, [a])
        elif how in ("discarded", "not kept"):
            graph.run("a", settled=die)
            graph.route()
            if on_failure == CANCEL:
                return  # it was cancelled when its parent died
            if how == "discarded":
                dead.discard(connection, [a])
            else:
                dead.discard_old(connection, keep=timedelta(seconds=-1))
        elif how == "purged":
            purge.discard(
                connection, "default", states=[State.READY], after=0, newest=a, up_to=a, before=None
            )
        else:
            finish = settle.Finish
            graph.run(
                "a",
                settled=lambda c, claims: settle.finish(
                    c, [finish(claims[0], "discarded", None, 0.0)]
                ),
            )
        graph.route()

        assert graph.states()["b"] == state
        assert FailedMember.objects.filter(pk=a).exists()

    def test_goes_on_to_those_that_wait_for_the_child(self, connection: Connection) -> None:
        graph = Graph(connection, {"a": "", "b": "a cancel", "c": "b", "d": "c run"})

        graph.run("a", settled=die)
        graph.route()

        assert graph.states() == {"a": "dead", "b": "cancelled", "c": "cancelled", "d": "ready"}
        [error] = History.objects.get(pk=graph.ids["b"]).errors
        assert error["class"] == "pgqueue.exceptions.ParentFailed"
        assert str(graph.ids["a"]) in error["message"]

    def test_cancels_at_once_while_other_parents_still_run(self, connection: Connection) -> None:
        graph = Graph(connection, {"a": "", "b": "", "c": "ab cancel"})

        graph.run("b", settled=die)
        graph.route()

        assert graph.states()["c"] == "cancelled"

    def test_that_is_replayed_lets_the_flow_go_on(self, connection: Connection) -> None:
        graph = Graph(connection, {"a": "", "b": "", "c": "ab"})
        graph.run("ab", settled=die)
        graph.route()
        assert graph.states()["c"] == "held"

        dead.replay(connection, [graph.ids["a"], graph.ids["b"]])
        graph.run("ab")
        graph.route()

        assert graph.ready() == "c"


class TestTheRouter:
    def test_leaves_a_child_that_is_locked_to_the_duty(
        self, connection: Connection, other: Connection
    ) -> None:
        graph = Graph(connection, {"a": "", "b": "a"})
        graph.run("a")

        with other.transaction():
            other.execute("SELECT FROM pgqueue_message WHERE id = %s FOR UPDATE", [graph.ids["b"]])
            graph.route()
            assert graph.ready() == ""

        assert flows.ring_stale(connection) == 1
        graph.route()
        assert graph.ready() == "b"
        assert flows.ring_stale(connection) == 0

    def test_never_lets_one_run_that_it_could_not_cancel(
        self, connection: Connection, other: Connection
    ) -> None:
        graph = Graph(connection, {"a": "", "b": "", "c": "ab"})
        cancel.cancel(connection, [graph.ids["b"]])
        with other.transaction():
            other.execute("SELECT FROM pgqueue_message WHERE id = %s FOR UPDATE", [graph.ids["c"]])
            graph.route()

        graph.run("a")
        graph.route()
        assert graph.ready() == ""

        flows.ring_stale(connection)
        graph.route()
        assert graph.states()["c"] == "cancelled"

    @pytest.mark.parametrize("how", ["succeeded", "cancelled"])
    def test_lets_many_go_in_parts(
        self, connection: Connection, monkeypatch: pytest.MonkeyPatch, how: str
    ) -> None:
        monkeypatch.setattr(flows, "WIDTH", 3)
        children = "bcdefghi"
        graph = Graph(connection, {"a": "", **dict.fromkeys(children, "a")})
        if how == "succeeded":
            graph.run("a")
        else:
            cancel.cancel(connection, [graph.ids["a"]])

        route.route(connection, after=0)
        left = sum(state == State.HELD for state in graph.states().values())
        graph.route()

        assert left == len(children) - 3
        expected = State.READY if how == "succeeded" else Outcome.CANCELLED
        assert {graph.states()[name] for name in children} == {expected}
        assert not BlockedRow.objects.exists()

    def test_looks_no_further_while_those_that_it_found_are_locked(
        self, connection: Connection, other: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(flows, "WIDTH", 2)
        graph = Graph(connection, {"a": "", "b": "a", "c": "a"})
        graph.run("a")
        with other.transaction():
            other.execute("SELECT FROM pgqueue_message FOR UPDATE")
            graph.route()
            assert not Bell.objects.exists()

        assert flows.ring_stale(connection) == 1
        graph.route()

        assert graph.ready() == "bc"

    def test_is_not_held_up_by_those_that_wait_for_a_dead_parent(
        self, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        graph = Graph(connection, {"a": "", "b": "", "c": "a", "d": "a", "e": "a", "f": "b"})
        monkeypatch.setattr(flows, "WIDTH", 2)
        by_id = {each.id: each for each in claim(connection)}
        die(connection, [by_id[graph.ids["a"]]])
        succeed(connection, [by_id[graph.ids["b"]]])

        graph.route()

        assert graph.ready() == "f"

    def test_cancels_a_long_chain_in_parts(
        self, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(flows, "TURNS", 2)
        graph = Graph(connection, {"a": "", "b": "a", "c": "b", "d": "c", "e": "d", "f": "e"})
        cancel.cancel(connection, [graph.ids["a"]])

        route.route(connection, after=0)
        left = sum(state == State.HELD for state in graph.states().values())
        graph.route()

        assert left == 3
        assert set(graph.states().values()) == {Outcome.CANCELLED}
        assert not BlockedRow.objects.exists()


class TestRetention:
    @pytest.fixture
    def graph(self, connection: Connection) -> Iterator[Graph]:
        """A flow that goes on, a message of which ended a hundred days ago."""
        graph = Graph(connection, {"a": "", "b": "a"})
        graph.run("a")
        partitions.ensure(connection)
        day = (datetime.now(UTC) - timedelta(days=100)).date()
        name = f"pgqueue_history_{day:%Y%m%d}"
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {name} PARTITION OF pgqueue_history "
            f"FOR VALUES FROM ('{day} 00:00Z') TO ('{day + timedelta(days=1)} 00:00Z')"
        )
        connection.execute(
            "UPDATE pgqueue_history SET finished_at = %s",
            [datetime.combine(day, time(), tzinfo=UTC)],
        )
        Flow.objects.update(created_at=datetime.combine(day, time(), tzinfo=UTC))
        yield graph
        # Other tests drop all days that are over.
        connection.execute(f"DROP TABLE IF EXISTS {name}")

    def test_keeps_what_a_flow_that_goes_on_may_need(
        self, connection: Connection, graph: Graph
    ) -> None:
        month = dict.fromkeys(
            ("succeeded", "cancelled", "discarded", "expired"), timedelta(days=30)
        )
        short = {**month, "succeeded": timedelta(days=1)}

        partitions.drop(connection, month)
        for window in retention.windows(connection, short):
            assert retention.purge(connection, window, short).removed == 0
        assert History.objects.filter(pk=graph.ids["a"]).exists()

        cancel.cancel(connection, [graph.ids["b"]])
        flows.end(connection)
        assert partitions.drop(connection, month) != []
        assert not History.objects.filter(pk=graph.ids["a"]).exists()

    def test_does_not_keep_what_others_returned_on_the_days_that_it_keeps(
        self, connection: Connection, graph: Graph
    ) -> None:
        month = dict.fromkeys(
            ("succeeded", "cancelled", "discarded", "expired"), timedelta(days=30)
        )
        [kept] = History.objects.values_list("pk", flat=True)
        connection.execute(
            """
            INSERT INTO pgqueue_history
            SELECT other.* FROM pgqueue_history h, LATERAL jsonb_populate_record(
                h, jsonb_build_object('id', h.id + 1, 'flow_id', NULL)) other
            """
        )
        partitions.drop(connection, month)

        [window] = retention.windows(connection, month)
        while not retention.purge(connection, window, month).is_last:
            pass

        assert set(History.objects.values_list("pk", flat=True)) == {kept}
        assert retention.windows(connection, month)[0].after > window.after


class TestWhetherItGoesOn:
    def test_is_not_told_by_the_bells_of_other_flows(self, connection: Connection) -> None:
        stopped = Graph(connection, {"a": "", "b": "a"})
        stopped.run("a", settled=die)
        assert flows.moving(connection, stopped.flow_id) == stopped.ids["b"], "its own bell rings"
        stopped.route()
        goes_on = Graph(connection, {"a": "", "b": "a"})

        goes_on.run("a")

        assert flows.moving(connection, stopped.flow_id) is None
        assert flows.moving(connection, goes_on.flow_id) == goes_on.ids["b"]


class TestItsEnd:
    def test_is_noted_when_no_message_is_left(self, connection: Connection) -> None:
        graph = Graph(connection, {"a": "", "b": "a"})
        graph.run("a")
        graph.route()
        assert flows.end(connection) == 0

        graph.run("b")
        assert flows.end(connection) == 1
        assert Flow.objects.get().ended_at is not None

    def test_lets_it_be_forgotten_some_time_later(self, connection: Connection) -> None:
        graph = Graph(connection, {"a": "", "b": "a"})
        cancel.cancel(connection, list(graph.ids.values()))
        graph.route()
        flows.end(connection)

        assert flows.forget(connection, keep=timedelta(hours=1)) == 0
        while flows.forget(connection, keep=timedelta(seconds=-1)):
            pass

        assert not Flow.objects.exists()
        assert not FailedMember.objects.exists()

    def test_lets_it_be_forgotten_no_earlier_than_the_messages_of_any_channel(
        self, connection: Connection
    ) -> None:
        graph = Graph(connection, {"a": ""})
        graph.run("a")
        flows.end(connection)
        Channel("audit").configure(retention=timedelta(days=365))

        assert flows.forget(connection, keep=timedelta(seconds=-1)) == 0

    def test_lets_it_be_forgotten_only_when_no_flow_waits_for_it(
        self, connection: Connection
    ) -> None:
        with flow("first", on_end=jobs.note) as first:
            first.enqueue(jobs.give_up)
        with flow("second", after=first) as second:
            second.enqueue(jobs.nothing)
        Message.objects.filter(flow_id=second.id).update(channel="other")
        Channel("other").pause()
        run_all()
        assert flows.end(connection) == 1

        assert flows.forget(connection, keep=timedelta(seconds=-1)) == 0
        assert Flow.objects.count() == 2
        Channel("other").resume()
        run_all()
        assert flows.end(connection) == 1
        while flows.forget(connection, keep=timedelta(seconds=-1)):
            pass
        assert not Flow.objects.exists()

    def test_lets_the_duty_forget_many_in_one_run(self, connection: Connection) -> None:
        for _ in range(3):
            graph = Graph(connection, {"a": "", "b": "a"})
            cancel.cancel(connection, list(graph.ids.values()))
        graph.route()
        flows.end(connection)
        duty = Flows(retention=dict.fromkeys(("succeeded", "cancelled"), timedelta(days=30)))
        duty.run(connection)
        assert Flow.objects.count() == 3
        Flow.objects.update(ended_at=datetime.now(UTC) - timedelta(days=31))

        duty.run(connection)

        assert duty.did["forgotten"] >= 3
        assert not Flow.objects.exists()
