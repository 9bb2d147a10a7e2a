"""One row that makes a claim or the router raise each time: all others go on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest

from pgqueue import Channel
from pgqueue.engine import claim, culprits, flows, route, settle
from pgqueue.engine.values import Claim
from pgqueue.models import Lane, Message, Policy
from tests.claims import FreeClaims, GovernedClaims, claimer
from tests.engine.flow_graphs import Graph
from tests.factories import Connection, done, drop, enqueue, limit, refusing, store

MINUTE = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def _logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.ERROR, logger="pgqueue")
    yield
    culprits.forget_all()


def _from_free_lanes(connection: Connection) -> Callable[[], list[Claim]]:
    claims = FreeClaims(connection)
    return lambda: claims.claim(10)


def _at_once(connection: Connection) -> Callable[[], list[Claim]]:
    return lambda: claim.claim_at_once(
        connection, "default", limit=10, worker_id=uuid4(), lease=MINUTE
    )


def _from_governed_lanes(connection: Connection) -> Callable[[], list[Claim]]:
    limit(max_running=100)
    claims = GovernedClaims(connection)
    return lambda: claims.claim(10)


def _from_a_gate(connection: Connection) -> Callable[[], list[Claim]]:
    limit(scope="channel", max_running=100, rate=1000, per=MINUTE, burst=100)
    claims = GovernedClaims(connection)
    return lambda: claims.claim(10)


def _urgent(connection: Connection) -> Callable[[], list[Claim]]:
    limit(max_running=100)
    Channel("default").configure(age_after=timedelta(microseconds=1))
    claims = GovernedClaims(connection)
    return lambda: claims.claim(10)


CLAIMS = [_from_free_lanes, _at_once, _from_governed_lanes, _from_a_gate, _urgent]


class TestAClaim:
    @pytest.mark.parametrize("prepare", CLAIMS)
    @pytest.mark.parametrize("keys", [["a"] * 5, list("abcde")], ids=["one lane", "five lanes"])
    def test_goes_on_without_a_message_that_can_not_be_claimed(
        self,
        connection: Connection,
        caplog: pytest.LogCaptureFixture,
        prepare: Callable[[Connection], Callable[[], list[Claim]]],
        keys: list[str],
    ) -> None:
        claim = prepare(connection)
        store(connection, keys)
        ids = list(Message.objects.order_by("id").values_list("id", flat=True))

        with refusing(connection, "pgqueue_message", f"OLD.id = {ids[2]}", "UPDATE"):
            taken = {each.id for _ in range(5) for each in claim()}

        assert taken == {*ids} - {ids[2]}
        assert caplog.text.count("claim fails because of") == 1
        assert f"pgqueue_message {ids[2]}, and goes on without it" in caplog.text
        assert "secret" not in caplog.text
        assert Message.objects.get(pk=ids[2]).state == "ready"

    @pytest.mark.parametrize("prepare", CLAIMS)
    def test_takes_it_after_a_while(
        self,
        connection: Connection,
        monkeypatch: pytest.MonkeyPatch,
        prepare: Callable[[Connection], Callable[[], list[Claim]]],
    ) -> None:
        claim = prepare(connection)
        store(connection, ["a"] * 5)
        last = Message.objects.latest("id").id
        with refusing(connection, "pgqueue_message", f"OLD.id = {last}", "UPDATE"):
            taken = {each.id for _ in range(3) for each in claim()}
        assert len(taken) == 4

        monkeypatch.setattr(culprits, "AGAIN", -1.0)
        culprits.forget_all()

        assert {each.id for _ in range(3) for each in claim()} == {last}

    @pytest.mark.parametrize("prepare", CLAIMS)
    def test_raises_what_is_no_message_s_fault(
        self,
        connection: Connection,
        caplog: pytest.LogCaptureFixture,
        prepare: Callable[[Connection], Callable[[], list[Claim]]],
    ) -> None:
        claim = prepare(connection)
        store(connection, ["a"] * 5)
        connection.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE 'refused'; END $$"
        )
        connection.execute(
            "CREATE TRIGGER refuse BEFORE UPDATE ON pgqueue_message "
            "FOR EACH STATEMENT EXECUTE FUNCTION refuse()"
        )
        try:
            with pytest.raises(psycopg.Error, match="refused"):
                claim()
        finally:
            drop(connection, "refuse")

        assert "fails because of" not in caplog.text
        assert {each.id for _ in range(3) for each in claim()} == {
            *Message.objects.values_list("id", flat=True)
        }

    def test_finds_several(self, connection: Connection) -> None:
        store(connection, ["a"] * 40)
        claims = FreeClaims(connection)
        taken: set[int] = set()

        with refusing(connection, "pgqueue_message", "OLD.id % 5 = 0", "UPDATE"):
            for _ in range(10):
                taken |= {each.id for each in claims.claim(10)}

        assert taken == {id for id in Message.objects.values_list("id", flat=True) if id % 5}

    def test_keeps_the_order_of_a_lane_whose_first_message_can_not_be_claimed(
        self, connection: Connection
    ) -> None:
        for key in "ab":
            enqueue(connection, 2, key=key, ordered=True)
        first = Message.objects.filter(key="a").earliest("id")
        claims = GovernedClaims(connection)

        with refusing(connection, "pgqueue_message", f"OLD.id = {first.id}", "UPDATE"):
            taken = [each.key for _ in range(3) for each in claims.claim(10)]

        assert taken == ["b"]

    def test_of_other_channels_goes_on_beside_one_whose_gate_can_not_be_charged(
        self, connection: Connection, caplog: pytest.LogCaptureFixture
    ) -> None:
        for channel in "abc":
            limit(channel, scope="channel", rate=1000, per=MINUTE, burst=100)
            enqueue(connection, 3, channel=channel)
        claims = GovernedClaims(connection)

        with refusing(connection, "pgqueue_gate", "OLD.channel = 'b'", "UPDATE"):
            route.route(connection, after=0)
            taken = sorted(each.channel for _ in range(5) for each in claims.claim(10))

        assert taken == ["a"] * 3 + ["c"] * 3
        assert "because of pgqueue_gate b" in caplog.text

    def test_of_other_lanes_goes_on_beside_one_that_can_not_be_moved(
        self, connection: Connection, caplog: pytest.LogCaptureFixture
    ) -> None:
        limit(max_running=100)
        store(connection, list("abcde"))
        claims = GovernedClaims(connection)
        route.route(connection, after=0)

        with refusing(connection, "pgqueue_lane", "OLD.key = 'c'", "UPDATE"):
            taken = sorted(each.key for _ in range(3) for each in claims.claim(10))

        assert taken == list("abde")
        assert caplog.text.count("because of pgqueue_lane 'default', 'c'") == 1

    def test_of_a_worker_s_goes_on(self, connection: Connection) -> None:
        limit("governed", max_running=10)
        free = enqueue(connection, 3)
        governed = enqueue(connection, 3, channel="governed")
        claims = claimer(connection)
        refused = {free[1], governed[1]}
        taken: set[int] = set()

        condition = f"OLD.id IN ({free[1]}, {governed[1]})"
        with refusing(connection, "pgqueue_message", condition, "UPDATE OF state"):
            for _ in range(4):
                taken |= {each.claim.id for each in claims.claim(10)}

        assert taken == {*free, *governed} - refused


class TestTheRouter:
    def test_goes_on_beside_a_throttled_lane_that_can_not_be_woken(
        self, connection: Connection, caplog: pytest.LogCaptureFixture
    ) -> None:
        limit(rate=1, per=MINUTE, burst=1)
        store(connection, list("abcde"))
        route.route(connection, after=0)
        connection.execute(
            "UPDATE pgqueue_lane SET state = 'throttled', wake_at = clock_timestamp()"
        )
        enqueue(connection, 1, key="f")

        with refusing(connection, "pgqueue_lane", "OLD.key = 'c'", "UPDATE"):
            route.route(connection, after=0)
            route.route(connection, after=0)

        assert _lanes("runnable") == list("abdef")
        assert _lanes("throttled") == ["c"]
        assert caplog.text.count("because of pgqueue_lane 'default', 'c'") == 1

    def test_adopts_messages_though_one_s_lane_can_not_be_made(
        self, connection: Connection
    ) -> None:
        store(connection, list("abcde"))
        limit(max_running=1)

        with refusing(connection, "pgqueue_lane", "NEW.key = 'c'", "INSERT"):
            assert route.adopt(connection) == 5
            assert _lanes("runnable") == list("abde")
        culprits.forget_all()
        route.route(connection, after=0)

        assert _lanes("runnable") == list("abcde")

    def test_marks_the_lanes_of_a_channel_whose_policy_changes_but_for_one(
        self, connection: Connection
    ) -> None:
        limit(max_running=1)
        store(connection, list("abcde"))
        route.route(connection, after=0)
        connection.execute("UPDATE pgqueue_lane SET state = 'saturated'")
        Policy.objects.get().delete()
        limit(max_running=2)

        with refusing(connection, "pgqueue_lane", "OLD.key = 'c'", "UPDATE"):
            route.route(connection, after=0)
            assert _lanes("runnable") == list("abde")
        culprits.forget_all()
        route.route(connection, after=0)

        assert _lanes("runnable") == list("abcde")

    def test_lets_children_go_though_the_lane_of_one_can_not_be_marked(
        self, connection: Connection
    ) -> None:
        limit(max_running=100)
        graph = Graph(connection, {"a": "", "b": "a", "c": "a", "d": "a"})
        for name in "abcd":
            Message.objects.filter(pk=graph.ids[name]).update(key=name)
        connection.execute("DELETE FROM pgqueue_lane")
        flows.ring(connection, "default", [])
        _end(connection, graph.ids["a"])

        with refusing(connection, "pgqueue_lane", "NEW.key = 'c'", "INSERT"):
            route.route(connection, after=0)
            assert _lanes("runnable") == ["a", "b", "d"]
            assert graph.ready() == "bcd"
        culprits.forget_all()
        route.route(connection, after=0)

        assert _lanes("runnable") == ["a", "b", "c", "d"]


class TestTidying:
    def test_marks_lanes_that_contradict_the_messages_but_for_one(
        self, connection: Connection
    ) -> None:
        limit(max_running=1)
        store(connection, list("abcde"))
        route.route(connection, after=0)
        connection.execute(
            "UPDATE pgqueue_lane SET state = 'idle', turn_at = clock_timestamp() - interval '1 min'"
        )

        with refusing(connection, "pgqueue_lane", "OLD.key = 'c'", "UPDATE"):
            assert route.tidy(connection) == 5

        assert _lanes("runnable") == list("abde")

    def test_removes_empty_lanes_but_for_one(
        self, connection: Connection, caplog: pytest.LogCaptureFixture
    ) -> None:
        limit(max_running=1)
        store(connection, list("abcde"))
        claims = GovernedClaims(connection)
        settle.complete(connection, [done(each) for each in claims.claim(10)])
        claims.claim(10)

        with refusing(connection, "pgqueue_lane", "OLD.key = 'c'", "DELETE"):
            route.tidy(connection)

        assert list(Lane.objects.values_list("key", flat=True)) == ["c"]
        assert "because of pgqueue_lane 'default', 'c'" in caplog.text


def _lanes(state: str) -> list[str]:
    return list(Lane.objects.filter(state=state).order_by("key").values_list("key", flat=True))


def _end(connection: Connection, id: int) -> None:
    [own] = [each for each in GovernedClaims(connection).claim(1) if each.id == id]
    settle.complete(connection, [done(own)])
