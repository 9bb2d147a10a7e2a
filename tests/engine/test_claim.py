"""Claiming from free lanes: the statement, and the turns that decide what it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from pgqueue.claiming import claimer
from pgqueue.claiming.free_lanes import LOOK_AGAIN, ClaimLanes
from pgqueue.engine import cancel, claim, settle
from pgqueue.engine.claim import Answer, Known, Met, Search
from pgqueue.engine.values import Claim
from pgqueue.models import Channel, Message, Policy
from pgqueue.operating.channels import Channel as Operated
from pgqueue.states import State
from pgqueue.values.readable import EARLIEST
from tests import factories
from tests.claiming.test_free_lanes import Backlog
from tests.claims import FreeClaims, PlannedClaims
from tests.factories import Connection, ask, count_by, enqueue, store


def front(channel: str = "default", room: int = 100, share: int | None = None) -> Search:
    return Search(channel, None, room, room if share is None else share)


def mark(message: Any, quota: int = 100) -> Known:
    return Known(message.channel, message.key, -message.priority, message.run_at, message.id, quota)


class TestAClaim:
    @pytest.mark.parametrize(("is_pooled", "waits"), [(False, "off"), (True, "on")])
    def test_waits_for_a_flush_behind_a_pooler_only(
        self, connection: Connection, is_pooled: bool, waits: str
    ) -> None:
        enqueue(connection, 2)  # a claim that finds nothing has nothing to flush
        if is_pooled:
            connection.prepare_threshold = None
        with connection.transaction():
            factories.claim(connection, limit=1)
            row = connection.execute("SHOW synchronous_commit").fetchone()
            connection.execute("SET LOCAL synchronous_commit = on")
            claim.claim_at_once(
                connection, "default", limit=1, worker_id=uuid4(), lease=timedelta(minutes=1)
            )
            at_once = connection.execute("SHOW synchronous_commit").fetchone()

        assert row == at_once == (waits,)

    def test_leases_what_is_ready(self, connection: Connection) -> None:
        (id,) = enqueue(connection, priority=7, metadata='{"a": 1}', payloads=['{"b": 2}'])
        worker_id = uuid4()

        (got,) = factories.claim(connection, worker_id=worker_id, lease=timedelta(minutes=1))

        row = Message.objects.get()
        assert (row.state, row.attempt, row.worker_id) == (State.RUNNING, 1, worker_id)
        assert row.lease_until and row.claimed_at
        assert row.lease_until - row.claimed_at == timedelta(minutes=1)
        assert (got.id, got.channel, got.key, got.priority) == (id, "default", "", 7)
        assert (got.payload, got.metadata, got.options) == (b'{"b": 2}', b'{"a": 1}', None)
        assert (got.attempt, got.failures, got.lost, got.max_attempts) == (1, 0, 0, 5)
        assert (got.run_at, got.created_at) == (row.run_at, row.created_at)
        assert (got.claimed_at, got.worker_id) == (row.claimed_at, worker_id)
        assert got.lease == (id, 1, worker_id)

    @pytest.mark.parametrize("state", [each for each in State if each != State.READY])
    def test_leaves_what_is_not_ready(self, connection: Connection, state: State) -> None:
        factories.insert(connection, state=state)

        claims = factories.claim(connection)

        assert not claims

    def test_leaves_governed_lanes_to_those_who_count(self, connection: Connection) -> None:
        factories.insert(connection, governed=True)

        claims = factories.claim(connection)

        assert not claims
        assert not claim.channels(connection, excluded=[])

    def test_holds_its_limit_over_many_lanes_and_channels(self, connection: Connection) -> None:
        for channel in ("a", "b"):
            store(connection, [str(n % 10) for n in range(100)], channel=channel)  # fmt: skip

        got = ask(connection, searched=[front("a"), front("b")], limit=7)

        assert len(got.claims) == 7
        assert Message.objects.filter(state=State.RUNNING).count() == 7

    def test_locks_no_more_than_its_limit(self, connection: Connection, other: Connection) -> None:
        enqueue(connection, 10)

        with connection.transaction():
            factories.claim(connection, limit=3)
            left = other.execute("SELECT id FROM pgqueue_message FOR UPDATE SKIP LOCKED").fetchall()

        assert len(left) == 7

    def test_takes_what_is_behind_locked_rows(
        self, connection: Connection, other: Connection
    ) -> None:
        ids = enqueue(connection, 10)

        with other.transaction():
            other.execute(
                "SELECT id FROM pgqueue_message WHERE id = ANY (%s) FOR UPDATE", [ids[:5]]
            )
            got = factories.claim(connection, limit=3)

        assert [each.id for each in got] == ids[5:8]

    def test_orders_a_lane_by_priority_then_time_then_id(self, connection: Connection) -> None:
        now = datetime.now(UTC)
        late, early = now - timedelta(hours=1), now - timedelta(hours=2)
        (fourth,) = enqueue(connection, run_at=late)
        (second,) = enqueue(connection, run_at=late, priority=1)
        (third,) = enqueue(connection, run_at=early)
        (fifth,) = enqueue(connection, run_at=late)
        (last,) = enqueue(connection, run_at=early, priority=-100)
        (first,) = enqueue(connection, run_at=late, priority=100)

        one_by_one = [factories.claim(connection, limit=1)[0].id for _ in range(3)]
        together = [each.id for each in factories.claim(connection)]

        assert [*one_by_one, *together] == [first, second, third, fourth, fifth, last]

    def test_takes_the_empty_key_for_a_key(self, connection: Connection) -> None:
        store(connection, ["", "a"])

        got = ask(connection, searched=[front()])

        assert [each.key for each in got.claims] == ["", "a"]
        assert got.met == {"default": Met(2, "a")}

    def test_goes_on_after_the_empty_key(self, connection: Connection) -> None:
        store(connection, ["", "", "a"])

        got = ask(connection, searched=[Search("default", "", 10, 10)])

        assert [each.key for each in got.claims] == ["a"]

    @pytest.mark.parametrize(
        "odd", ['a"b', "a'b", "a\\b", "{a,b}", "NULL", " ", "a\nb", "é", "日本", "\U0001f600", "%s"]
    )
    def test_takes_channels_and_keys_for_what_they_are(
        self, connection: Connection, odd: str
    ) -> None:
        enqueue(connection, 2, channel=odd, key=odd)
        enqueue(connection, channel=odd + "x", key=odd + "x")

        (first,) = factories.claim(connection, odd, limit=1)
        got = ask(connection, known=[mark(first)])

        assert claim.channels(connection, excluded=[odd]) == [odd + "x"]
        assert (first.channel, first.key) == (odd, odd)
        assert [(each.channel, each.key) for each in got.claims] == [(odd, odd)]

    def test_takes_no_two_channels_for_one(self, connection: Connection) -> None:
        alike = ["my-app", "my_app", "my app", "My_app", "my_app "]
        for name in alike:
            enqueue(connection, channel=name)

        taken = [[each.channel for each in factories.claim(connection, name)] for name in alike]

        assert taken == [[name] for name in alike]

    def test_goes_through_keys_as_python_sorts_their_bytes(self, connection: Connection) -> None:
        keys = ["a", "B", "é", "Z", "_", "", "aa", "a-b", "ab", "a b"]
        store(connection, keys)

        walked: list[str] = []
        after = None
        while met := ask(connection, searched=[Search("default", after, 1, 1)]).met.get("default"):
            after = met.last_key
            walked.append(after)

        assert walked == sorted(keys, key=str.encode)

    def test_divides_a_share_over_the_lanes_it_meets(self, connection: Connection) -> None:
        store(connection, ["a", "b", "c"] * 50)

        got = ask(connection, searched=[Search("default", None, 60, 60)])

        assert count_by(got.claims, lambda each: each.key) == {"a": 20, "b": 20, "c": 20}

    def test_gives_each_lane_one_where_there_are_more_than_the_share(
        self, connection: Connection
    ) -> None:
        keys = [f"{n:03}" for n in range(50)] * 2
        store(connection, keys)

        got = ask(connection, searched=[Search("default", None, 20, 20)])

        assert [each.key for each in got.claims] == keys[:20]
        assert got.met == {"default": Met(20, "019")}

    def test_says_what_it_met_though_all_of_it_is_locked(
        self, connection: Connection, other: Connection
    ) -> None:
        store(connection, ["a", "b"])

        with other.transaction():
            factories.claim(other)
            got = ask(connection, searched=[front()])

        assert got == Answer([], {"default": Met(2, "b")})

    def test_goes_on_after_a_mark(self, connection: Connection) -> None:
        ids = enqueue(connection, 5)
        claims = factories.claim(connection, limit=2)
        settle.release(connection, claims)

        got = ask(connection, known=[mark(claims[-1])])

        assert [each.id for each in got.claims] == ids[2:]

    def test_goes_on_after_a_mark_among_equals_of_one_moment(self, connection: Connection) -> None:
        ids = enqueue(connection, 4, run_at=datetime(2025, 1, 1, tzinfo=UTC))
        first = factories.claim(connection, limit=1)

        rest = ask(connection, known=[mark(first[0])]).claims

        assert [each.id for each in first + rest] == ids

    @pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kathmandu"])
    def test_goes_on_after_a_mark_in_the_hour_that_a_clock_repeats(
        self, connection: Connection, zone: str
    ) -> None:
        connection.execute(f"SET TIME ZONE '{zone}'")
        start = datetime(2024, 11, 3, 4, 45, 0, 123456, tzinfo=UTC)
        ids = [
            enqueue(connection, run_at=start + timedelta(minutes=20) * n)[0] for n in range(12)
        ]  # fmt: skip
        got = factories.claim(connection, limit=1)

        while more := ask(connection, known=[mark(got[-1], quota=1)]).claims:
            got += more

        assert [each.id for each in got] == ids

    def test_can_read_the_earliest_of_times_in_a_database_west_of_greenwich(
        self, connection: Connection, connect: Callable[..., Connection]
    ) -> None:
        # There, the year 1 began in the year before it, for which Python has no date. What a
        # worker claims and can't read is lost, with all that was claimed along with it.
        ids = enqueue(connection, run_at=EARLIEST) + enqueue(connection, 3)
        name = connection.info.dbname
        connection.execute(f"ALTER DATABASE {name} SET timezone = 'America/New_York'")
        try:
            worker = connect()
        finally:
            connection.execute(f"ALTER DATABASE {name} RESET timezone")

        assert [each.id for each in factories.claim(worker)] == ids

    def test_leaves_paused_channels_out(self, connection: Connection) -> None:
        Channel.objects.create(name="a", paused=True)
        Channel.objects.create(name="b", paused=False)
        for channel in ("a", "b", "c"):
            enqueue(connection, 2, channel=channel)
        known = mark(SimpleNamespace(channel="a", key="", priority=100, run_at=datetime(
            2000, 1, 1, tzinfo=UTC), id=0))  # fmt: skip

        got = ask(connection, searched=[front(name) for name in "abc"], known=[known])

        assert count_by(got.claims, lambda each: each.channel) == {"b": 2, "c": 2}
        assert set(got.met) == {"b", "c"}

    def test_of_nothing_asks_for_nothing(self, connection: Connection) -> None:
        enqueue(connection)

        assert ask(connection) == Answer([], {})

    def test_may_be_of_ten_thousand_lanes(self, connection: Connection) -> None:
        keys = [f"{n:05}" for n in range(10_000)]
        store(connection, keys * 2)

        first = ask(connection, searched=[front(room=10_000)], limit=10_000).claims
        again = ask(connection, known=[mark(each, 1) for each in first], limit=10_000).claims

        assert [each.key for each in first] == [each.key for each in again] == keys
        assert len({each.id for each in first + again}) == 20_000

    def test_is_not_flushed_but_what_follows_it_is(self, connection: Connection) -> None:
        enqueue(connection)

        def setting() -> str:
            row = connection.execute("SHOW synchronous_commit").fetchone()
            return str(row and row[0])

        before = setting()
        with connection.transaction():
            factories.claim(connection)
            within = setting()

        assert (within, setting()) == ("off", before)
        assert before != "off"

    def test_takes_the_clock_of_the_statement(self, connection: Connection) -> None:
        with connection.transaction():
            connection.execute("SELECT pg_sleep(0.05)")
            enqueue(connection)
            (got,) = factories.claim(connection)
            row = connection.execute(
                "SELECT now(), lease_until FROM pgqueue_message"
            ).fetchone()  # fmt: skip

        assert row
        assert got.created_at - row[0] >= timedelta(seconds=0.05)
        assert row[1] - row[0] >= factories.LEASE + timedelta(seconds=0.05)

    def test_skips_the_dead_entries_that_it_left_behind(
        self, connection: Connection, other: Connection
    ) -> None:
        store(connection, [""] * 20_000)
        connection.execute("VACUUM ANALYZE pgqueue_message")
        with pinned_snapshot(other):
            claims = factories.claim(connection, limit=15_000)
            settle.complete(connection, [factories.done(each) for each in claims])

            resumed = pages_read(connection, known=[mark(claims[-1], 5)], limit=5)
            from_the_front = pages_read(connection, searched=[front(room=5)], limit=5)

        # Five messages cost a few pages of the index and one or two of the table for each;
        # what was claimed before left hundreds.
        assert resumed < 200, "it walks the dead"
        assert from_the_front > 300, "nothing dead is there: this test shows nothing"

    def test_searches_lanes_without_walking_those_before(
        self, connection: Connection, other: Connection
    ) -> None:
        keys = [f"{n:05}" for n in range(20_000)]
        store(connection, keys)
        connection.execute("VACUUM ANALYZE pgqueue_message")
        with pinned_snapshot(other):
            claims = ask(connection, searched=[front(room=15_000)], limit=15_000).claims
            settle.complete(connection, [factories.done(each) for each in claims])

            after = Search("default", claims[-1].key, 5, 5)
            resumed = pages_read(connection, searched=[after], limit=5)
            from_the_front = pages_read(connection, searched=[front(room=5)], limit=5)

        assert resumed < 200, "it walks the dead"
        assert from_the_front > 300, "nothing dead is there: this test shows nothing"


@contextmanager
def pinned_snapshot(connection: Connection) -> Iterator[None]:
    """Keep dead rows from being cleaned up, as a long transaction does."""
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT count(*) FROM pgqueue_message")
        yield


def pages_read(
    connection: Connection,
    *,
    known: Sequence[Known] = (),
    searched: Sequence[Search] = (),
    limit: int,
) -> int:
    """Return how many pages a claim reads, by EXPLAIN; and undo it."""
    explained: list[str] = []

    class Explaining:
        prepare_threshold = 5
        closed = False
        info = connection.info
        transaction = connection.transaction

        def execute(self, query: str, parameters: Any) -> Any:
            rows = connection.execute(
                "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) " + query, parameters
            ).fetchall()
            explained.extend(row[0] for row in rows)
            return SimpleNamespace(fetchall=list)

    with connection.transaction(force_rollback=True):
        ask(Explaining(), known=known, searched=searched, limit=limit)  # type: ignore[arg-type]
    # The first line about buffers is of the whole statement.
    total = next(line for line in explained if "Buffers:" in line)
    return sum(
        int(each.partition("=")[2]) for each in total.split() if each.startswith(("hit=", "read="))
    )


class TestAClaimAtOnce:
    """What a notification leads to: one channel, before anything was looked at."""

    def test_leases_from_the_front(self, connection: Connection) -> None:
        later, first = (
            enqueue(connection, priority=priority, channel="a")[0] for priority in (1, 2)
        )
        enqueue(connection, channel="b")

        got = at_once(connection, "a", limit=1)
        rest = at_once(connection, "a", limit=5)

        assert [each.id for each in [*got, *rest]] == [first, later]
        assert Message.objects.get(pk=first).worker_id == got[0].worker_id

    def test_returns_the_same_as_any_other(self, connection: Connection) -> None:
        enqueue(connection, 2, metadata='{"a": 1}', payloads=['{"b": 2}'] * 2)

        (one,) = at_once(connection, limit=1)
        (other,) = factories.claim(connection, limit=1)

        of_its_own = {"id", "claimed_at", "worker_id"}
        assert {k: v for k, v in one._asdict().items() if k not in of_its_own} == {
            k: v for k, v in other._asdict().items() if k not in of_its_own
        }

    @pytest.mark.parametrize("state", [each for each in State if each != State.READY])
    def test_leaves_what_is_not_ready(self, connection: Connection, state: State) -> None:
        factories.insert(connection, state=state)

        assert not at_once(connection)

    def test_leaves_what_has_expired(self, connection: Connection) -> None:
        factories.insert(connection, expires_at=datetime.now(UTC) - timedelta(seconds=1))

        assert not at_once(connection)

    def test_leaves_a_channel_that_is_paused(self, connection: Connection) -> None:
        enqueue(connection)
        Channel.objects.create(name="default", paused=True)

        assert not at_once(connection)

    def test_leaves_a_channel_that_is_governed(self, connection: Connection) -> None:
        # Stored before: it does not say so of itself.
        enqueue(connection)
        Policy.objects.create(channel="default", scope="channel", max_running=5)

        assert not at_once(connection)
        assert not Message.objects.get().governed

    def test_passes_over_what_another_has_locked(
        self, connection: Connection, other: Connection
    ) -> None:
        first, second = enqueue(connection, 2)
        with other.transaction():
            cancel.cancel(other, [first])

            assert [each.id for each in at_once(connection)] == [second]


def at_once(connection: Connection, channel: str = "default", *, limit: int = 5) -> list[Claim]:
    return claim.claim_at_once(
        connection, channel, limit=limit, worker_id=uuid4(), lease=timedelta(minutes=1)
    )


class TestChannels:
    def test_are_those_with_something_ready(self, connection: Connection) -> None:
        for channel in ("c", "a", "b"):
            enqueue(connection, 3, channel=channel)
        factories.schedule(connection, channel="later")
        factories.run(connection, channel="busy")
        factories.bury(connection, channel="grave")

        assert claim.channels(connection, excluded=[]) == ["a", "b", "c"]

    def test_may_be_excluded(self, connection: Connection) -> None:
        for channel in ("a", "b", "c"):
            enqueue(connection, channel=channel)

        assert claim.channels(connection, excluded=["a", "c", "unknown"]) == ["b"]

    def test_that_are_paused_cost_no_claim(self, connection: Connection) -> None:
        Channel.objects.create(name="a", paused=True)
        enqueue(connection, channel="a")
        enqueue(connection, channel="b")

        assert claim.channels(connection, excluded=[]) == ["b"]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The clock that turns go by: it stands still unless a test moves it."""
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(claimer, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


class TestClaimsOfFreeLanes:
    def test_give_shallow_keys_theirs_beside_a_deep_one(
        self, connection: Connection, clock: SimpleNamespace
    ) -> None:
        enqueue(connection, 2000, key="deep")
        shallow = [f"k{n:02}" for n in range(100)]
        store(connection, shallow)
        worker = FreeClaims(connection)

        claims = worker.claim(50) + worker.claim(50) + worker.claim(50)

        assert count_by(claims, lambda each: each.key) == dict.fromkeys(shallow, 1) | {
            "deep": len(claims) - 100
        }

    def test_let_channels_take_theirs(self, connection: Connection, clock: SimpleNamespace) -> None:
        for channel in ("a", "b", "c"):
            enqueue(connection, 50, channel=channel)
        enqueue(connection, 1000, channel="deep")
        worker = FreeClaims(connection)

        claims = worker.claim(40)

        assert count_by(claims, lambda each: each.channel) == dict.fromkeys(
            ("a", "b", "c", "deep"), 10
        )

    def test_give_every_channel_one_where_only_one_fits(
        self, connection: Connection, clock: SimpleNamespace
    ) -> None:
        for channel in ("a", "b", "c"):
            enqueue(connection, 50, channel=channel)
        worker = FreeClaims(connection)

        claimed = [claim_one(worker, clock).channel for _ in range(12)]

        assert all(set(claimed[n : n + 3]) == {"a", "b", "c"} for n in range(0, 12, 3))

    @pytest.mark.parametrize("limit", [1, 7, 100, 299])
    def test_give_every_lane_one_a_round_where_not_all_fit(
        self, connection: Connection, clock: SimpleNamespace, limit: int
    ) -> None:
        lanes = [f"{n:03}" for n in range(300 if limit > 1 else 20)]
        store(connection, lanes * 3)
        worker = FreeClaims(connection)

        rounds: list[list[str]] = [[], [], []]
        for keys in rounds:
            while len(keys) < len(lanes):
                keys += [each.key for each in worker.claim(limit)]
                clock.now += 0.01

        assert all(sorted(keys) == lanes for keys in rounds)

    def test_give_every_lane_one_where_all_fit(
        self, connection: Connection, clock: SimpleNamespace
    ) -> None:
        lanes = [f"{n:03}" for n in range(300)]
        store(connection, lanes * 3)
        worker = FreeClaims(connection)

        claims = [worker.claim(500) for _ in range(3)]

        assert [sorted(each.key for each in batch) for batch in claims] == [lanes] * 3

    @pytest.mark.parametrize("limit", [1, 3, 5])
    def test_go_round_the_lanes_in_mind_where_fewer_fit_than_before(
        self, connection: Connection, clock: SimpleNamespace, limit: int
    ) -> None:
        lanes = [f"{n:02}" for n in range(10)]
        store(connection, lanes * 20)
        worker = FreeClaims(connection)
        worker.claim(50)

        claimed = [each.key for _ in range(30 // limit) for each in worker.claim(limit)]

        assert count_by(claimed, str) == dict.fromkeys(lanes, 3)

    def test_use_the_whole_limit_for_one_deep_lane(
        self, connection: Connection, clock: SimpleNamespace
    ) -> None:
        ids = enqueue(connection, 1200)
        worker = FreeClaims(connection)

        claims = [worker.claim(500) for _ in range(3)]

        assert [len(batch) for batch in claims] == [500, 500, 200]
        assert [each.id for batch in claims for each in batch] == ids

    def test_find_a_higher_priority_that_comes_late(
        self, connection: Connection, clock: SimpleNamespace
    ) -> None:
        enqueue(connection, 100)
        worker = FreeClaims(connection)
        worker.claim(10)
        (urgent,) = enqueue(connection, priority=50)

        clock.now += LOOK_AGAIN - 0.01
        before = worker.claim(10)
        clock.now += 0.01
        after = worker.claim(10)

        assert urgent not in [each.id for each in before]
        assert urgent == after[0].id

    def test_find_a_lane_and_a_channel_that_come_late(
        self, connection: Connection, clock: SimpleNamespace
    ) -> None:
        enqueue(connection, 100)
        worker = FreeClaims(connection)
        worker.claim(10)
        enqueue(connection, key="late")
        enqueue(connection, channel="late")

        clock.now += LOOK_AGAIN
        claims = worker.claim(10)

        assert {(each.channel, each.key) for each in claims} >= {("default", "late"), ("late", "")}

    def test_find_a_latecomer_at_once_where_nothing_else_is_left(
        self, connection: Connection, clock: SimpleNamespace
    ) -> None:
        enqueue(connection, 5)
        worker = FreeClaims(connection)
        worker.claim(5)
        (urgent,) = enqueue(connection, priority=50)

        assert [each.id for each in worker.claim(5)] == [urgent]

    def test_look_again_less_often_where_that_takes_long(self, clock: SimpleNamespace) -> None:
        looked: list[float] = []

        def find() -> list[str]:
            looked.append(clock.now)
            clock.now += 0.05
            return ["default"]

        worker = PlannedClaims(find, deep_lane(), lambda: clock.now)
        while clock.now < 1004:
            worker.claim(10)
            clock.now += 0.01

        gaps = [later - earlier for earlier, later in pairwise(looked)]
        assert all(1.0 <= gap < 1.2 for gap in gaps)

    def test_are_not_blind_for_long_after_one_look_that_hung(self, clock: SimpleNamespace) -> None:
        looked: list[float] = []

        def find() -> list[str]:
            clock.now += 0.001 if looked else 30  # a failover, say
            looked.append(clock.now)
            return ["default"]

        worker = PlannedClaims(find, deep_lane(), lambda: clock.now)
        while clock.now < 1100:
            worker.claim(10)
            clock.now += 0.1

        assert looked[1] - looked[0] <= 15

    def test_leave_excluded_and_paused_channels_alone(
        self, connection: Connection, clock: SimpleNamespace
    ) -> None:
        Channel.objects.create(name="paused", paused=True)
        for channel in ("a", "excluded", "paused"):
            enqueue(connection, 5, channel=channel)
        worker = FreeClaims(connection, excluded=["excluded"])

        claims = worker.claim(100) + worker.claim(100)

        assert count_by(claims, lambda each: each.channel) == {"a": 5}

    def test_in_flight_beside_a_pause_keeps_its_messages_and_each_later_one_gets_none(
        self, connection: Connection, other: Connection, clock: SimpleNamespace
    ) -> None:
        enqueue(connection, 10)
        worker, another = FreeClaims(connection), FreeClaims(other)

        with connection.transaction():
            in_flight = worker.claim(2)
            # It waits for no claim.
            Operated("default").pause(until=timedelta(hours=1))
            later = [worker.claim(2), another.claim(2)]

        assert (len(in_flight), later) == (2, [[], []])
        assert Message.objects.filter(state="running").count() == 2

    def test_stop_at_a_channel_as_soon_as_it_is_paused(
        self, connection: Connection, clock: SimpleNamespace
    ) -> None:
        enqueue(connection, 100)
        worker = FreeClaims(connection)
        worker.claim(10)

        Channel.objects.create(name="default", paused=True)
        while_paused = worker.claim(10)
        Channel.objects.update(paused=False)
        afterwards = worker.claim(10)

        assert (len(while_paused), len(afterwards)) == (0, 10)

    def test_may_have_channels_listed_twice_or_without_messages(
        self, connection: Connection, clock: SimpleNamespace
    ) -> None:
        enqueue(connection, 10, channel="a")
        worker = FreeClaims(connection, channels=["empty", "a", "a", "none"])

        claims = worker.claim(3) + worker.claim(3) + worker.claim(100)

        assert len({each.id for each in claims}) == len(claims) == 10

    def test_end_where_another_worker_holds_all_that_is_there(
        self, connection: Connection, other: Connection, clock: SimpleNamespace
    ) -> None:
        store(connection, [f"{n:02}" for n in range(30)])
        mine, theirs = FreeClaims(connection), FreeClaims(other)

        with other.transaction():
            held = theirs.claim(100)
            found = [mine.claim(limit) for limit in (1, 7, 100)]

        assert (len(held), found) == (30, [[], [], []])

    def test_find_at_once_what_another_worker_gives_back(
        self, connection: Connection, other: Connection, clock: SimpleNamespace
    ) -> None:
        ids = enqueue(connection, 30)
        mine, theirs = FreeClaims(connection), FreeClaims(other)

        with other.transaction(force_rollback=True):
            theirs.claim(100)
            while_held = mine.claim(100)
        afterwards = mine.claim(100)

        assert while_held == []
        assert [each.id for each in afterwards] == ids

    def test_pass_over_a_lane_whose_messages_are_all_locked(
        self, connection: Connection, other: Connection, clock: SimpleNamespace
    ) -> None:
        ids = enqueue(connection, 50, key="a")
        enqueue(connection, 50, key="b")
        worker = FreeClaims(connection)

        with other.transaction():
            cancel.cancel(other, ids)
            claims = [worker.claim(limit) for limit in (1, 1, 5, 40)]

        assert all(claims)
        assert {each.key for batch in claims for each in batch} == {"b"}

    @pytest.mark.parametrize("limit", [1, 2, 5])
    def test_find_the_front_again_behind_the_last_lane(
        self, connection: Connection, clock: SimpleNamespace, limit: int
    ) -> None:
        # Slow tasks: more time than a look takes passes between two claims.
        store(connection, [f"{n:02}" for n in range(limit)] * 9)
        worker = FreeClaims(connection)

        counts = []
        for _ in range(9):
            counts.append(len(worker.claim(limit)))
            clock.now += 2 * LOOK_AGAIN

        assert counts == [limit] * 9, "it said that nothing was there"

    def test_come_back_to_a_channel_though_nothing_was_left_behind_its_last_lane(
        self, clock: SimpleNamespace
    ) -> None:
        # A small claim goes through one channel's lanes while another channel is in mind.
        model = Backlog()
        model.add_deep("a", "")
        model.add_deep("b", "")
        worker = PlannedClaims(model.channels, model.take, lambda: clock.now)

        claimed = [each.channel for n in range(24) for each in worker.claim([1, 1, 1, 4][n % 4])]

        assert count_by(claimed[12:], str).keys() == {"a", "b"}

    def test_may_be_over_before_a_claim_knows_it(
        self, connection: Connection, clock: SimpleNamespace
    ) -> None:
        ids = enqueue(connection, 20)
        worker = FreeClaims(connection)
        worker.claim(10)
        cancel.cancel(connection, ids)

        assert worker.claim(10) == []


def claim_one(worker: FreeClaims, clock: SimpleNamespace) -> Any:
    (got,) = worker.claim(1)
    clock.now += 0.01
    return got


def deep_lane() -> Callable[..., Answer]:
    """Something to take from that is never used up."""

    def take(request: ClaimLanes) -> Answer:
        moment = datetime(2025, 1, 1, tzinfo=UTC)
        claims: list[Any] = [
            SimpleNamespace(channel="default", key="", priority=0, run_at=moment, id=id)
            for id in range(request.limit)
        ]
        return Answer(claims, {each.channel: Met(1, "") for each in request.searched})

    return take


def test_two_workers_share_a_backlog_without_a_message_twice(
    connection: Connection, other: Connection
) -> None:
    store(connection, [str(n % 7) for n in range(2000)])
    workers = [FreeClaims(connection), FreeClaims(other)]

    got = []
    while batches := [batch for worker in workers if (batch := worker.claim(90))]:
        got += [each.id for batch in batches for each in batch]

    assert len(got) == len(set(got)) == 2000
