"""Ordered messages of a lane run one at a time, in the order their transactions committed."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
from psycopg.errors import LockNotAvailable

from pgqueue.engine import cancel, dead, expire, held, lease, promote, purge, route, settle
from pgqueue.engine.values import Claim
from pgqueue.models import Channel, Lane, Message
from pgqueue.states import State
from tests.claims import GovernedClaims
from tests.engine.conftest import TABLES
from tests.factories import (
    OVER,
    Connection,
    bury,
    done,
    enqueue,
    failure,
    limit,
    make_due,
    one,
    store,
)
from tests.stepping import Step

MINUTE = timedelta(minutes=1)


def ids(claims: list[Claim]) -> list[int]:
    return [each.id for each in claims]


def run_all(connection: Connection, turns: GovernedClaims) -> list[int]:
    """Claim and complete until nothing is left; return the ids in the order they ran."""
    ran: list[int] = []
    while claims := turns.claim(100):
        settle.complete(connection, [done(each) for each in claims])
        ran += ids(claims)
    return ran


def discard_all_dead(connection: Connection, ids: list[int]) -> None:
    purge.discard(
        connection,
        "default",
        states=[State.DEAD],
        after=0,
        newest=max(ids),
        up_to=max(ids),
        before=None,
    )


def locks(connection: Connection) -> int:
    """Return how many advisory locks this session has."""
    [count] = one(
        connection,
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()",
    )
    return int(count)


class TestALane:
    def test_runs_one_at_a_time(self, connection: Connection) -> None:
        first, second = enqueue(connection, 2, key="a", ordered=True)
        turns = GovernedClaims(connection)

        (running,) = turns.claim(100)
        assert turns.claim(100) == []
        settle.complete(connection, [done(running)])

        assert (running.id, ids(turns.claim(100))) == (first, [second])

    def test_runs_a_batch_in_the_order_of_its_array(self, connection: Connection) -> None:
        payloads = [str(n) for n in random.Random(1).sample(range(1000), 50)]
        store(connection, "a", payloads=payloads, ordered=True)
        turns = GovernedClaims(connection)

        ran: list[str] = []
        while claims := turns.claim(100):
            settle.complete(connection, [done(each) for each in claims])
            ran += [(each.payload or b"").decode() for each in claims]

        assert ran == payloads

    def test_runs_what_one_transaction_enqueued_bit_by_bit_in_that_order(
        self, connection: Connection
    ) -> None:
        with connection.transaction():
            enqueued = [enqueue(connection, key="a", ordered=True) for _ in range(20)]

        assert run_all(connection, GovernedClaims(connection)) == [id for (id,) in enqueued]

    def test_begins_again_once_all_tables_were_truncated(self, connection: Connection) -> None:
        enqueue(connection, 2, key="a", ordered=True)
        GovernedClaims(connection).claim(1)
        tables = ", ".join(f"pgqueue_{name}" for name in TABLES)
        connection.execute(f"TRUNCATE {tables}")

        first, second = enqueue(connection, 2, key="a", ordered=True)

        assert run_all(connection, GovernedClaims(connection)) == [first, second]

    def test_runs_beside_others(self, connection: Connection) -> None:
        store(connection, ["a", "b", "a", "c"], ordered=True)

        claims = GovernedClaims(connection).claim(100)

        assert sorted(each.key for each in claims) == ["a", "b", "c"]

    def test_has_no_priorities(self, connection: Connection) -> None:
        (first,) = enqueue(connection, key="a", ordered=True)
        (second,) = enqueue(connection, key="a", ordered=True, priority=100)

        assert run_all(connection, GovernedClaims(connection)) == [first, second]

    def test_of_no_key_is_one_too(self, connection: Connection) -> None:
        first, _second = enqueue(connection, 2, ordered=True)
        turns = GovernedClaims(connection)

        assert ids(turns.claim(100)) == [first]
        assert turns.claim(100) == []

    @pytest.mark.parametrize("way", ["retry", "defer", "lost"])
    def test_waits_for_its_head_however_long_that_waits(
        self, connection: Connection, way: str
    ) -> None:
        first, second = enqueue(connection, 2, key="a", ordered=True)
        turns = GovernedClaims(connection)
        dying = GovernedClaims(connection, lease=OVER)

        if way == "retry":
            settle.retry(connection, [failure(each, delay=MINUTE) for each in turns.claim(9)])
        elif way == "defer":
            settle.defer(connection, [settle.Deferral(each, MINUTE) for each in turns.claim(9)])
        else:
            for _ in range(2):
                lease.begin(connection, dying.claim(9))
                lease.rescue(connection, max_lost=5)

        assert turns.claim(9) == []
        make_due(connection, [first])
        promote.promote(connection)
        assert run_all(connection, turns) == [first, second]

    def test_goes_on_where_one_in_the_middle_is_cancelled(self, connection: Connection) -> None:
        first, second, third = enqueue(connection, 3, key="a", ordered=True)
        cancel.cancel(connection, [second])

        assert run_all(connection, GovernedClaims(connection)) == [first, third]

    def test_goes_on_where_its_head_is_cancelled_while_it_waits(
        self, connection: Connection
    ) -> None:
        first, second = enqueue(connection, 2, key="a", ordered=True)
        turns = GovernedClaims(connection)
        settle.retry(connection, [failure(each, delay=MINUTE) for each in turns.claim(9)])
        assert turns.claim(9) == []

        cancel.cancel(connection, [first])

        assert ids(turns.claim(9)) == [second]

    def test_waits_for_its_head_where_that_is_delayed(self, connection: Connection) -> None:
        (first,) = enqueue(connection, key="a", ordered=True, run_after=MINUTE)
        (second,) = enqueue(connection, key="a", ordered=True)
        turns = GovernedClaims(connection)
        assert turns.claim(9) == []

        promote.run_now(connection, [first])

        assert run_all(connection, turns) == [first, second]

    def test_is_overtaken_by_parallel_messages(self, connection: Connection) -> None:
        first, _second = enqueue(connection, 2, key="a", ordered=True)
        limit(max_running=10)
        parallel = enqueue(connection, 2, key="a")

        claims = GovernedClaims(connection).claim(100)

        assert sorted(ids(claims)) == [first, *parallel]

    def test_counts_against_the_limit_as_others_do(self, connection: Connection) -> None:
        limit(max_running=2)
        ordered = enqueue(connection, 2, key="a", ordered=True)
        enqueue(connection, 5, key="a")

        claims = GovernedClaims(connection).claim(100)

        assert len(claims) == 2
        assert ordered[0] in ids(claims)


class TestADeadHead:
    def test_blocks_its_lane_until_it_is_replayed(self, connection: Connection) -> None:
        first, second = enqueue(connection, 2, key="a", ordered=True)
        turns = GovernedClaims(connection)
        settle.bury(connection, [failure(each) for each in turns.claim(9)])
        assert turns.claim(9) == []

        dead.replay(connection, [first])

        assert run_all(connection, turns) == [first, second]

    @pytest.mark.parametrize("verb", [dead.discard, discard_all_dead])
    def test_blocks_it_until_it_is_ended(
        self, connection: Connection, verb: Callable[..., object]
    ) -> None:
        first, second = enqueue(connection, 2, key="a", ordered=True)
        turns = GovernedClaims(connection)
        settle.bury(connection, [failure(each) for each in turns.claim(9)])
        assert turns.claim(9) == []

        verb(connection, [first])

        assert ids(turns.claim(9)) == [second]

    def test_is_skipped_where_the_channel_says_so(self, connection: Connection) -> None:
        _, second = enqueue(connection, 2, key="a", ordered=True)
        turns = GovernedClaims(connection)
        settle.bury(connection, [failure(each) for each in turns.claim(9)])
        assert turns.claim(9) == []

        Channel.objects.create(name="default", on_dead="skip")

        assert ids(turns.claim(9)) == [second]

    def test_is_skipped_though_its_lane_was_removed(self, connection: Connection) -> None:
        _, second = enqueue(connection, 2, key="a", ordered=True)
        turns = GovernedClaims(connection)
        settle.bury(connection, [failure(each) for each in turns.claim(9)])
        assert turns.claim(9) == []
        route.tidy(connection)
        assert not Lane.objects.exists()

        Channel.objects.create(name="default", on_dead="skip")

        assert ids(turns.claim(9)) == [second]

    def test_of_others_blocks_nothing(self, connection: Connection) -> None:
        bury(connection, 1, key="a")
        (ordered,) = enqueue(connection, key="a", ordered=True)

        assert ids(GovernedClaims(connection).claim(9)) == [ordered]

    def test_that_is_replayed_never_runs_beside_another(self, connection: Connection) -> None:
        Channel.objects.create(name="default", on_dead="skip")
        first, second, third = enqueue(connection, 3, key="a", ordered=True)
        turns = GovernedClaims(connection)
        settle.bury(connection, [failure(each) for each in turns.claim(9)])
        (running,) = turns.claim(9)
        assert running.id == second

        dead.replay(connection, [first])

        assert turns.claim(9) == []
        settle.complete(connection, [done(running)])
        assert run_all(connection, turns) == [first, third]


class TestAHeldHead:
    def test_keeps_its_place(self, connection: Connection) -> None:
        (first,) = enqueue(connection, key="a", ordered=True, held_for=MINUTE)
        (second,) = enqueue(connection, key="a", ordered=True)
        turns = GovernedClaims(connection)
        assert turns.claim(9) == []

        held.commit(connection, [first])

        assert run_all(connection, turns) == [first, second]

    @pytest.mark.parametrize("end", ["abandoned", "expired"])
    def test_gives_it_up_with_its_end(self, connection: Connection, end: str) -> None:
        (first,) = enqueue(connection, key="a", ordered=True, held_for=MINUTE)
        (second,) = enqueue(connection, key="a", ordered=True)
        turns = GovernedClaims(connection)
        assert turns.claim(9) == []

        if end == "abandoned":
            held.abandon(connection, [first])
        else:
            connection.execute(
                "UPDATE pgqueue_message SET lease_until = 'epoch' WHERE state = 'held'"
            )
            expire.expire(connection)

        assert ids(turns.claim(9)) == [second]


class TestProducers:
    def test_of_one_lane_wait_for_each_other_before_they_take_an_id(
        self, connection: Connection, other: Connection, step: Callable[..., Step]
    ) -> None:
        with connection.transaction():
            (first,) = enqueue(connection, key="a", ordered=True)
            waiting = step(enqueue, other, key="a", ordered=True)
            waiting.waits()
            (between,) = enqueue(connection, key="a", ordered=True)

        (last,) = waiting.result()
        assert first < between < last

    def test_of_other_lanes_do_not_wait(self, connection: Connection, other: Connection) -> None:
        with connection.transaction():
            enqueue(connection, key="a", ordered=True)
            enqueue(other, key="b", ordered=True)
            enqueue(other, key="a")

    def test_of_many_lanes_at_once_never_deadlock(
        self, connect: Callable[..., Connection], connection: Connection
    ) -> None:
        names = [f"{n:02}" for n in range(40)]
        errors: list[BaseException] = []

        def produce(mine: Connection, seed: int) -> None:
            chance = random.Random(seed)
            try:
                for _ in range(30):
                    with mine.transaction():
                        store(mine, chance.sample(names, 20), ordered=True)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=produce, args=(connect(), n)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

        assert errors == []
        assert Message.objects.count() == 6 * 30 * 20

    def test_takes_a_bounded_number_of_locks_for_any_number_of_lanes(
        self, connection: Connection
    ) -> None:
        # The locks of all sessions of a server share one table of some thousand entries.
        with connection.transaction():
            for start in range(0, 4000, 500):
                store(connection, [str(start + n) for n in range(500)], ordered=True)

            assert locks(connection) <= 1024

    def test_waits_for_a_lane_that_shares_its_lock(
        self, connection: Connection, other: Connection, step: Callable[..., Step]
    ) -> None:
        first, second = one(
            connection,
            "SELECT min(key), max(key) "
            "FROM (SELECT n::text AS key FROM generate_series(1, 2000) n) k "
            "GROUP BY pgqueue_bucket_v1('default', key) HAVING count(*) = 2 LIMIT 1",
        )
        with connection.transaction():
            store(connection, [first], ordered=True)
            storing = step(store, other, [second], ordered=True)
            storing.waits()

        assert len(storing.result().ids) == 1

    def test_may_keep_500_lanes_in_order_at_once_and_no_more(self, connection: Connection) -> None:
        store(connection, [str(n) for n in range(500)], ordered=True)

        with pytest.raises(ValueError, match="500 keys"):
            store(connection, [str(n) for n in range(501)], ordered=True)

        assert Message.objects.count() == 500


def test_a_lane_whose_head_is_not_marked_is_found(connection: Connection) -> None:
    (first,) = enqueue(connection, key="a", ordered=True)
    turns = GovernedClaims(connection)
    route.route(connection, after=0)
    connection.execute(
        "UPDATE pgqueue_lane SET state = 'idle', turn_at = clock_timestamp() - interval '1 min'"
    )

    assert route.tidy(connection) == 1
    assert ids(turns.claim(9)) == [first]


def test_a_lane_whose_head_is_blocked_is_no_contradiction(connection: Connection) -> None:
    enqueue(connection, 2, key="a", ordered=True)
    turns = GovernedClaims(connection)
    settle.bury(connection, [failure(each) for each in turns.claim(9)])
    assert turns.claim(9) == []
    connection.execute("UPDATE pgqueue_lane SET turn_at = clock_timestamp() - interval '1 min'")

    assert route.tidy(connection) == 0


class TestTheLockOfALane:
    """Anybody who may log in can take it: no producer waits for ever."""

    @pytest.mark.parametrize(
        ("taken", "refused"),
        [
            ("SELECT pgqueue_keep_order_v1('mail', 'ada')", "The lane 'ada' of the channel 'mail'"),
            ("SELECT pgqueue_room_v1('mail', NULL)", "The room of the channel 'mail'"),
            ("SELECT pgqueue_room_v1('mail', 'ada')", "The room of the channel 'mail', key 'ada',"),
        ],
    )
    def test_is_not_waited_for_for_ever(
        self, connection: Connection, other: Connection, taken: str, refused: str
    ) -> None:
        limit("mail", scope="channel", max_size=9)
        limit("mail", max_size=9)
        other.execute("SET lock_timeout = 0; SET pgqueue.lock_timeout = '20ms'")
        with connection.transaction():
            connection.execute(taken)
            with pytest.raises(LockNotAvailable) as raised:
                other.execute("SELECT pgqueue_enqueue('t', channel => 'mail', key => 'ada', "
                              "ordered => true)")  # fmt: skip

        pid = connection.info.backend_pid
        assert f"{refused} is locked: pid {pid} of the role" in str(raised.value)
        assert "pgqueue_health" in (raised.value.diag.message_hint or "")
        assert one(other, "SHOW lock_timeout") == ("0",)
        other.execute(
            "SELECT pgqueue_enqueue('t', channel => 'mail', key => 'ada', ordered => true)"
        )

    def test_is_waited_for_as_long_as_the_session_says(
        self, connection: Connection, other: Connection
    ) -> None:
        other.execute("SET lock_timeout = '20ms'; SET pgqueue.lock_timeout = '1h'")
        with connection.transaction():
            connection.execute("SELECT pgqueue_keep_order_v1('mail', 'ada')")
            with pytest.raises(LockNotAvailable):
                other.execute("SELECT pgqueue_keep_order_v1('mail', 'ada')")
        assert one(other, "SHOW lock_timeout") == ("20ms",)
