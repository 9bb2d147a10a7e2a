"""What policies limit: the channel as a whole, each key, one key; at once, in time, in size."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from itertools import combinations

import pytest
from django.db import IntegrityError

from pgqueue.engine import cancel, lease, route, settle
from pgqueue.exceptions import BatchTooLarge, ChannelFull
from pgqueue.models import Bell, Channel, Gate, Lane, Message, Policy
from tests.claims import GovernedClaims
from tests.factories import (
    OVER,
    Connection,
    Listening,
    bury,
    claim,
    count_by,
    done,
    enqueue,
    failure,
    hold,
    insert,
    limit,
    make_due,
    one,
    register,
    run,
    schedule,
    store,
)
from tests.stepping import Step

MINUTE = timedelta(minutes=1)


def keys(claims: list[object]) -> dict[str, int]:
    """Count claims by their keys."""
    return count_by(claims, lambda each: each.key)  # type: ignore[attr-defined]


class TestMaxRunning:
    def test_of_each_key_holds_for_each_alone(self, connection: Connection) -> None:
        limit(max_running=2)
        store(connection, ["a"] * 5 + ["b"] * 5 + ["c"])

        claims = GovernedClaims(connection).claim(100)

        assert keys(claims) == {"a": 2, "b": 2, "c": 1}

    def test_of_the_channel_holds_for_all_keys_together(self, connection: Connection) -> None:
        limit(scope="channel", max_running=3)
        store(connection, ["a"] * 5 + ["b"] * 5 + [""] * 5)

        claims = GovernedClaims(connection).claim(100)

        assert len(claims) == 3

    def test_of_both_is_both(self, connection: Connection) -> None:
        limit(scope="channel", max_running=5)
        limit(max_running=2)
        store(connection, [name for name in "abc" for _ in range(5)])

        claims = GovernedClaims(connection).claim(100)

        assert sorted(keys(claims).values()) == [1, 2, 2]

    def test_of_one_key_replaces_that_of_each(self, connection: Connection) -> None:
        limit(max_running=1)
        limit(key="vip", max_running=4)
        limit(key="free", weight=1)
        store(connection, [name for name in ("vip", "free", "other") for _ in range(9)])

        claims = GovernedClaims(connection).claim(100)

        assert keys(claims) == {"vip": 4, "free": 9, "other": 1}

    def test_of_each_key_leaves_messages_without_one_alone(self, connection: Connection) -> None:
        limit(max_running=1)
        store(connection, [""] * 5 + ["a"] * 5)

        governed = GovernedClaims(connection).claim(100)
        free = claim(connection)

        assert (keys(governed), keys(free)) == ({"a": 1}, {"": 5})

    def test_of_each_key_leaves_them_alone_where_the_channel_has_a_policy_too(
        self, connection: Connection
    ) -> None:
        limit(scope="channel", max_running=9)
        limit(max_running=1)
        store(connection, [""] * 5 + ["a"] * 5)

        claims = GovernedClaims(connection).claim(100)

        assert keys(claims) == {"": 5, "a": 1}

    def test_of_a_tenant_who_is_called_star_is_his(self, connection: Connection) -> None:
        limit(key="*", max_running=1)
        store(connection, ["*"] * 3 + ["a"] * 3)

        claims = GovernedClaims(connection).claim(100)

        assert keys(claims) == {"*": 1}
        assert keys(claim(connection)) == {"a": 3}

    @pytest.mark.parametrize("end", ["complete", "retry", "bury", "defer", "release", "finish"])
    def test_lets_the_next_one_in_however_a_run_ends(
        self, connection: Connection, end: str
    ) -> None:
        limit(max_running=1)
        enqueue(connection, 2, key="a")
        turns = GovernedClaims(connection)
        (first,) = turns.claim(100)
        assert turns.claim(100) == []

        ends: dict[str, Callable[[], object]] = {
            "complete": lambda: settle.complete(connection, [done(first)]),
            "retry": lambda: settle.retry(connection, [failure(first, delay=MINUTE)]),
            "bury": lambda: settle.bury(connection, [failure(first)]),
            "defer": lambda: settle.defer(connection, [settle.Deferral(first, MINUTE)]),
            "release": lambda: settle.release(connection, [first]),
            "finish": lambda: settle.finish(
                connection, [settle.Finish(first, "discarded", None, 0.0)]
            ),
        }
        ends[end]()

        assert len(turns.claim(100)) == 1

    def test_lets_the_next_one_in_when_a_worker_died(self, connection: Connection) -> None:
        limit(max_running=1)
        enqueue(connection, 2, key="a")
        dying = GovernedClaims(connection, lease=OVER)
        turns = GovernedClaims(connection)
        (lost,) = dying.claim(100)
        assert turns.claim(100) == []

        lease.rescue(connection, max_lost=3)

        # Through the limit again: one of the two, not both.
        (again,) = turns.claim(100)
        assert again.lease != lost.lease
        assert turns.claim(100) == []

    def test_counts_what_ran_before_it_was_saved(self, connection: Connection) -> None:
        enqueue(connection, 3, key="a")
        (running,) = claim(connection, limit=1)
        limit(max_running=2)
        turns = GovernedClaims(connection)

        assert len(turns.claim(100)) == 1
        assert turns.claim(100) == []
        settle.complete(connection, [done(running)])
        assert len(turns.claim(100)) == 1

    @pytest.mark.parametrize("most", [1, 2])
    def test_lets_the_next_one_in_after_an_end_that_could_not_see_it(
        self, connection: Connection, other: Connection, most: int
    ) -> None:
        enqueue(connection, 2 * most, key="a")
        (running,) = claim(connection, limit=1)
        turns = GovernedClaims(connection)

        with other.transaction():
            # As an atomic task does: it ends where there is no policy, and so it rings no bell.
            settle.complete(other, [done(running)])
            limit(max_running=most)
            assert len(turns.claim(9)) == most - 1

        assert len(turns.claim(9)) == 1

    def test_counts_what_obeys_it_and_what_does_not_where_it_was_lowered(
        self, connection: Connection, other: Connection
    ) -> None:
        enqueue(connection, 6, key="a")
        (running,) = claim(connection, limit=1)
        turns = GovernedClaims(connection)

        with other.transaction():
            settle.complete(other, [done(running)])
            limit(max_running=3)
            (first, second) = turns.claim(9)
            Policy.objects.update(max_running=2)
            assert turns.claim(9) == []

        assert turns.claim(9) == []
        settle.complete(connection, [done(first)])
        assert len(turns.claim(9)) == 1
        settle.complete(connection, [done(second)])
        assert len(turns.claim(9)) == 1

    def test_holds_for_what_was_queued_before_it_was_saved(self, connection: Connection) -> None:
        enqueue(connection, 5, key="a")
        limit(max_running=2)

        assert claim(connection) == []
        assert len(GovernedClaims(connection).claim(100)) == 2

    @pytest.mark.parametrize("change", ["raised", "lowered", "removed", "replaced"])
    def test_may_be_changed_while_messages_run(self, connection: Connection, change: str) -> None:
        policy = limit(max_running=2)
        enqueue(connection, 9, key="a")
        turns = GovernedClaims(connection)
        running = turns.claim(100)

        if change == "raised":
            Policy.objects.update(max_running=5)
        elif change == "lowered":
            Policy.objects.update(max_running=1)
        elif change == "removed":
            policy.delete()
        else:
            limit(key="a", max_running=4)

        more = turns.claim(100)
        assert len(more) == {"raised": 3, "lowered": 0, "removed": 7, "replaced": 2}[change]
        settle.complete(connection, [done(each) for each in running + more])
        assert len(turns.claim(1)) == (1 if change != "removed" else 0)

    def test_is_kept_by_many_claims_of_one_lane(
        self, connection: Connection, other: Connection
    ) -> None:
        limit(max_running=3)
        enqueue(connection, 10, key="a")

        both = [GovernedClaims(connection), GovernedClaims(other)]

        assert sum(len(each.claim(100)) for each in both for _ in range(3)) == 3


class TestARate:
    def test_lets_a_burst_go_and_then_one_for_each_gap(self, connection: Connection) -> None:
        limit(scope="channel", rate=20, burst=3)
        enqueue(connection, 100, key="a")
        turns = GovernedClaims(connection)

        began = time.monotonic()
        started = [len(turns.claim(100))]
        while time.monotonic() < began + 1:
            started.append(len(turns.claim(100)))

        elapsed = time.monotonic() - began
        assert started[0] == 3
        assert sum(started) <= 3 + 20 * elapsed + 1
        # A lane that was asleep would start nothing. A loaded machine may miss some of the turns.
        assert sum(started) >= 3 + 20 * elapsed / 2

    def test_of_each_key_makes_only_that_key_wait(self, connection: Connection) -> None:
        limit(rate=1, per=MINUTE, burst=2)
        store(connection, ["a"] * 9 + ["b"] * 9)

        claims = GovernedClaims(connection).claim(100)

        assert keys(claims) == {"a": 2, "b": 2}

    def test_of_one_key_replaces_that_of_each(self, connection: Connection) -> None:
        limit(rate=1, per=MINUTE, burst=1)
        limit(key="vip", rate=1, per=MINUTE, burst=3)
        store(connection, [name for name in ("vip", "a", "b") for _ in range(9)])

        claims = GovernedClaims(connection).claim(100)

        assert keys(claims) == {"vip": 3, "a": 1, "b": 1}

    def test_of_the_channel_holds_beside_that_of_each_key(self, connection: Connection) -> None:
        limit(scope="channel", rate=1, per=MINUTE, burst=5)
        limit(rate=1, per=MINUTE, burst=2)
        store(connection, [name for name in "abc" for _ in range(5)])
        turns = GovernedClaims(connection)

        claims = [*turns.claim(3), *turns.claim(100), *turns.claim(100)]

        assert sorted(keys(claims).values()) == [1, 2, 2]

    def test_never_makes_a_first_message_wait(self, connection: Connection) -> None:
        limit(rate=1, per=timedelta(days=1))
        turns = GovernedClaims(connection)
        assert turns.claim(1) == []
        enqueue(connection, 1, key="a")

        assert len(turns.claim(1)) == 1

    def test_says_when_the_next_may_start(self, connection: Connection) -> None:
        limit(rate=1, per=MINUTE, burst=1)
        enqueue(connection, 2, key="a")
        turns = GovernedClaims(connection)
        turns.claim(10)

        turns.claim(10)

        assert turns.wake_in
        assert timedelta(seconds=50) < turns.wake_in <= MINUTE

    def test_of_the_channel_says_so_though_something_else_was_changed(
        self, connection: Connection
    ) -> None:
        limit(scope="channel", rate=1, per=MINUTE, burst=1)
        enqueue(connection, 2, key="a")
        turns = GovernedClaims(connection)
        turns.claim(10)
        Channel.objects.create(name="default", watched=True)

        turns.claim(10)
        turns.claim(10)

        assert turns.wake_in
        assert timedelta(seconds=50) < turns.wake_in <= MINUTE

    def test_of_the_channel_that_was_raised_says_so_too(self, connection: Connection) -> None:
        policy = limit(scope="channel", rate=1, per=MINUTE, burst=1)
        enqueue(connection, 2, key="a")
        turns = GovernedClaims(connection)
        turns.claim(10)
        policy.rate = 2
        policy.save()

        turns.claim(10)
        turns.claim(10)

        assert turns.wake_in
        assert timedelta(seconds=20) < turns.wake_in <= MINUTE / 2

    def test_is_not_used_up_by_what_ended(self, connection: Connection) -> None:
        limit(rate=1, per=MINUTE, burst=2)
        enqueue(connection, 5, key="a")
        turns = GovernedClaims(connection)
        settle.complete(connection, [done(each) for each in turns.claim(100)])

        assert turns.claim(100) == []

    def test_counts_a_message_that_lost_its_worker_again(self, connection: Connection) -> None:
        limit(rate=1, per=MINUTE, burst=2)
        enqueue(connection, 2, key="a")
        GovernedClaims(connection, lease=OVER).claim(100)
        lease.rescue(connection, max_lost=3)

        assert GovernedClaims(connection).claim(100) == []

    def test_that_was_raised_bounds_what_the_old_one_made_wait(
        self, connection: Connection
    ) -> None:
        policy = limit(rate=1, per=timedelta(days=1), burst=1)
        enqueue(connection, 5, key="a")
        turns = GovernedClaims(connection)
        turns.claim(100)
        policy.rate, policy.per = 1000, timedelta(seconds=1)
        policy.save()

        time.sleep(0.01)

        assert len(turns.claim(100)) == 1


class TestTurns:
    def test_a_deep_key_delays_a_shallow_one_by_one_turn(self, connection: Connection) -> None:
        limit(max_running=10_000)
        store(connection, ["deep"] * 1000)
        turns = GovernedClaims(connection)
        turns.claim(10)
        store(connection, ["shallow"])

        claims = turns.claim(2)

        assert keys(claims) == {"deep": 1, "shallow": 1}

    def test_who_was_served_longest_ago_comes_first(self, connection: Connection) -> None:
        limit(max_running=100)
        store(connection, [name for name in "abcd" for _ in range(5)])
        turns = GovernedClaims(connection)

        order = [turns.claim(1)[0].key for _ in range(8)]

        assert sorted(order[:4]) == ["a", "b", "c", "d"]
        assert order[4:] == order[:4]

    def test_what_lost_its_worker_has_no_turn_of_its_own(self, connection: Connection) -> None:
        limit(max_running=100)
        store(connection, ["a"] * 9)
        GovernedClaims(connection, lease=OVER).claim(9)
        store(connection, ["b"] * 9)
        lease.rescue(connection, max_lost=3)

        claims = GovernedClaims(connection).claim(6)

        assert keys(claims) == {"a": 3, "b": 3}

    def test_a_weight_is_messages_for_each_turn(self, connection: Connection) -> None:
        limit(key="heavy", weight=3)
        store(connection, [name for name in ("heavy", "a", "b") for _ in range(30)])
        turns = GovernedClaims(connection)

        claims = [each for _ in range(5) for each in turns.claim(5)]

        assert keys(claims) == {"heavy": 15, "a": 5, "b": 5}

    def test_a_lane_that_was_not_reached_keeps_its_turn(self, connection: Connection) -> None:
        limit(scope="channel", max_running=2)
        store(connection, ["a", "a", "b", "b", "c", "c"])
        turns = GovernedClaims(connection)

        claimed = []
        for _ in range(3):
            claims = turns.claim(100)
            claimed.append({each.key for each in claims})
            settle.complete(connection, [done(each) for each in claims])

        assert claimed == [{"a", "b"}, {"c", "a"}, {"b", "c"}]

    def test_a_lane_that_was_not_reached_is_looked_at_where_those_before_it_had_nothing(
        self, connection: Connection
    ) -> None:
        limit(max_running=100)
        store(connection, ["a", "b", "c", "d", "e"])
        route.route(connection, after=0)
        Message.objects.exclude(key="d").delete()

        # Two for each of five lanes: three of them are enough for six.
        claims = GovernedClaims(connection).claim(6)

        assert keys(claims) == {"d": 1}

    def test_saturated_lanes_are_not_looked_at(self, connection: Connection) -> None:
        limit(max_running=1)
        store(connection, [str(n) for n in range(50)] * 2)
        turns = GovernedClaims(connection)
        turns.claim(100)

        assert set(Lane.objects.values_list("state", flat=True)) == {"saturated"}
        assert route.channels(connection, excluded=[]) == []

    def test_throttled_lanes_are_not_looked_at_though_more_comes(
        self, connection: Connection
    ) -> None:
        limit(rate=1, per=MINUTE, burst=1)
        names = [str(n) for n in range(50)]
        store(connection, names * 2)
        turns = GovernedClaims(connection)
        assert len(turns.claim(100)) == 50

        store(connection, names)
        route.route(connection, after=0)

        assert set(Lane.objects.values_list("state", flat=True)) == {"throttled"}
        assert route.channels(connection, excluded=[]) == []

    def test_channels_share_what_a_claim_takes(self, connection: Connection) -> None:
        for name in ("a", "b"):
            limit(name, max_running=100)
            enqueue(connection, 20, channel=name, key="k")

        claims = GovernedClaims(connection).claim(10)

        assert count_by(claims, lambda each: each.channel) == {"a": 5, "b": 5}

    def test_a_paused_channel_has_none(self, connection: Connection) -> None:
        limit(max_running=1)
        enqueue(connection, 1, key="a")
        Channel.objects.create(name="default", paused=True)
        turns = GovernedClaims(connection)

        assert turns.claim(10) == []
        Channel.objects.all().resume()  # type: ignore[attr-defined]
        assert len(turns.claim(10)) == 1

    def test_a_channel_is_paused_at_once_whichever_worker_hears_of_it(
        self, connection: Connection, other: Connection
    ) -> None:
        limit(max_running=9)
        enqueue(connection, 9, key="a")
        one_worker, another = GovernedClaims(connection), GovernedClaims(other)
        one_worker.claim(1)
        Channel.objects.create(name="default", paused=True)

        # The first that comes by takes the bell.
        assert another.claim(9) == []
        assert one_worker.claim(9) == []

    def test_priority_orders_a_lane(self, connection: Connection) -> None:
        limit(max_running=1)
        enqueue(connection, 1, key="a")
        (urgent,) = enqueue(connection, 1, key="a", priority=5)

        (first,) = GovernedClaims(connection).claim(10)

        assert first.id == urgent

    def test_a_latecomer_is_found_behind_the_mark(self, connection: Connection) -> None:
        limit(max_running=100)
        turns = GovernedClaims(connection)
        store(connection, ["a"] * 3 + ["b"] * 3)
        turns.claim(2)
        # As a lane whose router committed late.
        connection.execute("UPDATE pgqueue_lane SET turn_at = 'epoch' WHERE key = 'a'")

        assert len([each for _ in range(4) for each in turns.claim(2)]) == 4


class TestALane:
    def test_is_removed_when_it_has_neither_work_nor_a_past(self, connection: Connection) -> None:
        limit(max_running=1)
        enqueue(connection, 1, key="a")
        turns = GovernedClaims(connection)
        claims = turns.claim(10)
        settle.complete(connection, [done(each) for each in claims])
        assert turns.claim(10) == []

        assert route.tidy(connection) == 0

        assert not Lane.objects.exists()
        assert not Bell.objects.exists()

    def test_is_kept_while_a_message_runs(self, connection: Connection) -> None:
        limit(max_running=2)
        enqueue(connection, 1, key="a")
        turns = GovernedClaims(connection)
        running = turns.claim(10)
        assert Lane.objects.get().state == "idle"

        route.tidy(connection)

        assert Lane.objects.count() == 1
        settle.complete(connection, [done(each) for each in running])
        assert turns.claim(10) == []
        route.tidy(connection)
        assert not Lane.objects.exists()

    def test_is_kept_while_its_rate_remembers(self, connection: Connection) -> None:
        limit(rate=1, per=MINUTE)
        enqueue(connection, 1, key="a")
        turns = GovernedClaims(connection)
        settle.complete(connection, [done(each) for each in turns.claim(10)])
        connection.execute("UPDATE pgqueue_lane SET state = 'idle'")

        route.tidy(connection)

        assert Lane.objects.count() == 1

    def test_that_contradicts_the_tables_is_marked_and_counted(
        self, connection: Connection
    ) -> None:
        limit(max_running=1)
        enqueue(connection, 1, key="a")
        turns = GovernedClaims(connection)
        route.route(connection, after=0)
        connection.execute(
            "UPDATE pgqueue_lane SET state = 'idle', turn_at = clock_timestamp() - interval '1 min'"
        )

        assert route.tidy(connection) == 1
        assert len(turns.claim(10)) == 1

    @pytest.mark.parametrize("ordered", [False, True])
    def test_that_contradicts_the_tables_is_not_removed_before_that_is_seen(
        self, connection: Connection, ordered: bool
    ) -> None:
        limit(max_running=1)
        enqueue(connection, 1, key="a", ordered=ordered)
        route.route(connection, after=0)
        connection.execute("UPDATE pgqueue_lane SET state = 'idle'")

        too_early = route.tidy(connection)
        connection.execute("UPDATE pgqueue_lane SET turn_at = clock_timestamp() - interval '1 min'")

        assert (too_early, route.tidy(connection)) == (0, 1)

    def test_whose_bell_has_rung_contradicts_nothing(self, connection: Connection) -> None:
        limit(max_running=1)
        enqueue(connection, 2, key="a")
        running = GovernedClaims(connection).claim(1)
        connection.execute("UPDATE pgqueue_lane SET turn_at = clock_timestamp() - interval '1 min'")

        settle.complete(connection, [done(each) for each in running])

        assert route.tidy(connection) == 0

    @pytest.mark.parametrize("way", ["promoted", "replayed", "run now"])
    def test_gets_what_becomes_ready_in_other_ways(self, connection: Connection, way: str) -> None:
        if way == "replayed":
            ids = bury(connection, 1, key="a")
        else:
            ids = schedule(connection, 1, key="a")
        limit(max_running=1)
        turns = GovernedClaims(connection)
        assert turns.claim(10) == []

        if way == "replayed":
            Message.objects.replay()
        elif way == "run now":
            Message.objects.run_now()
        else:
            from pgqueue.engine import promote

            make_due(connection, ids)
            promote.promote(connection)

        assert [each.id for each in turns.claim(10)] == list(ids)

    def test_goes_on_after_a_cancel_of_what_was_ready(self, connection: Connection) -> None:
        limit(max_running=1)
        first, second = enqueue(connection, 2, key="a")
        cancel.cancel(connection, [first])

        assert [each.id for each in GovernedClaims(connection).claim(10)] == [second]


class TestAPolicy:
    def test_for_the_channel_has_a_gate(self, connection: Connection) -> None:
        limit(scope="channel", max_running=1)

        assert Gate.objects.get().channel == "default"

    @pytest.mark.parametrize("way", ["save", "update", "delete", "sql"])
    def test_rings_its_channel_however_it_is_written(
        self, connection: Connection, way: str
    ) -> None:
        policy = limit("mail", max_running=1)
        Bell.objects.all().delete()

        if way == "save":
            policy.max_running = 2
            policy.save()
        elif way == "update":
            Policy.objects.update(max_running=2)
        elif way == "delete":
            Policy.objects.all().delete()
        else:
            connection.execute("UPDATE pgqueue_policy SET max_running = 3")

        assert list(Bell.objects.values_list("channel", "key")) == [("mail", None)]

    def test_that_is_changed_wakes_idle_workers(
        self, connection: Connection, other: Connection
    ) -> None:
        limit("mail", max_running=1)
        register(connection, notify_for=MINUTE)
        listening = Listening(other)

        Policy.objects.update(max_running=2)

        assert listening.heard() == ["mail"]

    @pytest.mark.parametrize(
        "wrong",
        [
            {"max_running": 0},
            {"rate": 0},
            {"rate": -1},
            {"burst": 0},
            {"max_size": 0},
            {"weight": 0},
            {"weight": 101},
            {"per": timedelta()},
            {"scope": "channel", "weight": 2},
            {"scope": "nobody"},
        ],
    )
    def test_that_cant_be_is_refused(self, wrong: dict[str, object]) -> None:
        with pytest.raises(IntegrityError):
            limit(**wrong)  # type: ignore[arg-type]

    def test_of_size_or_nothing_leaves_lanes_free(self, connection: Connection) -> None:
        limit(max_size=10)
        enqueue(connection, 3, key="a")

        assert len(claim(connection)) == 3


class TestMaxSize:
    def test_refuses_what_is_beyond(self, connection: Connection) -> None:
        limit(max_size=2)
        enqueue(connection, 1, key="a")
        enqueue(connection, 1, key="a")

        with pytest.raises(ChannelFull, match="^The key 'a' of the channel 'default' has no room"):
            enqueue(connection, 1, key="a")

        assert len(enqueue(connection, 1, key="b")) == 1
        assert Message.objects.count() == 3

    def test_of_a_batch_refuses_all_or_nothing(self, connection: Connection) -> None:
        limit(scope="channel", max_size=5)
        store(connection, ["a", "b", "c"])

        with pytest.raises(ChannelFull, match="no room for 3 more: it has 3 .* policy is 5"):
            store(connection, ["a", "b", "c"])

        assert len(store(connection, ["a", "b"]).ids) == 2
        assert Message.objects.count() == 5

    @pytest.mark.parametrize("dedupe_key", [None, "once"])
    def test_says_that_the_channel_is_full_though_a_key_is_given(
        self, connection: Connection, dedupe_key: str | None
    ) -> None:
        limit(scope="channel", max_size=1)
        enqueue(connection, 1, key="a")

        with pytest.raises(ChannelFull, match="^The channel 'default' has no room for 1 more"):
            store(connection, ["a"], dedupe_keys=[dedupe_key])

    @pytest.mark.parametrize("keys", [["a"], ["a", "b"]])
    def test_says_which_key_is_full(self, connection: Connection, keys: list[str]) -> None:
        limit(scope="channel", max_size=9)
        limit(max_size=1)
        limit(key="a", max_size=2)
        enqueue(connection, 2, key="a")

        with pytest.raises(ChannelFull, match="^The key 'a' of .* it has 2 .* policy is 2"):
            store(connection, keys)

    def test_drops_what_is_beyond_where_the_channel_says_so(self, connection: Connection) -> None:
        limit(max_size=2)
        Channel.objects.create(name="default", on_full="drop")

        many = store(connection, ["a", "a", "b", "a"])
        single = store(connection, "a")

        assert many.came_of == ["stored", "stored", "stored", "dropped"]
        assert (single.ids, list(single.came_of)) == ((None,), ["dropped"])
        assert many.ids[3] is None
        assert Message.objects.count() == 3

    def test_counts_what_waits_and_what_runs_in_every_state(self, connection: Connection) -> None:
        limit(max_size=5)
        enqueue(connection, 1, key="a")
        insert(connection, key="a", state="ready", governed=True)
        insert(connection, key="a", state="ready", governed=True, ordered=True)
        insert(connection, key="a", state="running")
        insert(connection, key="a", state="scheduled", ordered=True)

        with pytest.raises(ChannelFull):
            enqueue(connection, 1, key="a")

    @pytest.mark.parametrize("state", ["held", "scheduled", "ready", "running", "dead"])
    @pytest.mark.parametrize("scope", ["each", "channel"])
    def test_counts_once_what_is_live(self, connection: Connection, state: str, scope: str) -> None:
        limit(scope=scope, max_size=4)
        for governed in (False, True):
            insert(connection, key="a", state=state, governed=governed)
        insert(connection, key="a", state=state, governed=True, ordered=True)

        is_counted = state != "dead"
        room = one(
            connection,
            "SELECT pgqueue_room_v1('default', %s)",
            "a" if scope == "each" else None,
        )

        assert room == ((1,) if is_counted else (4,))

    def test_is_exact_though_two_producers_are_at_it(
        self, connection: Connection, other: Connection, step: Callable[..., Step]
    ) -> None:
        limit(max_size=1)

        with connection.transaction():
            enqueue(connection, 1, key="a")
            second = step(enqueue, other, 1, key="a")
            second.waits()

        with pytest.raises(ChannelFull):
            second.result()

    def test_of_each_key_never_deadlocks_whatever_the_order_of_the_keys(
        self,
        connection: Connection,
        other: Connection,
        third: Connection,
        step: Callable[..., Step],
    ) -> None:
        limit(max_size=9)

        with third.transaction():
            enqueue(third, key="a")
            first = step(store, connection, ["a", "b"], bodies=[b"", b""])
            first.waits()
            second = step(store, other, ["b", "a"], bodies=[b"", b""])
            second.waits()

        assert len(first.result().ids) == len(second.result().ids) == 2

    def test_lets_a_dead_letter_in_that_is_replayed(self, connection: Connection) -> None:
        limit(max_size=1)
        bury(connection, key="a")
        enqueue(connection, key="a")

        assert len(Message.objects.replay().done) == 1
        with pytest.raises(ChannelFull):
            enqueue(connection, key="a")

    def test_has_room_again_after_a_rollback(
        self, connection: Connection, other: Connection, step: Callable[..., Step]
    ) -> None:
        limit(max_size=1)

        with connection.transaction(force_rollback=True):
            enqueue(connection, 1, key="a")
            second = step(enqueue, other, 1, key="a")
            second.waits()

        assert len(second.result()) == 1

    def test_takes_a_bounded_number_of_locks_for_any_number_of_keys(
        self, connection: Connection
    ) -> None:
        limit(max_size=9)

        with connection.transaction():
            for start in range(0, 4000, 500):
                store(connection, [str(start + n) for n in range(500)])

            [count] = one(
                connection,
                "SELECT count(*) FROM pg_locks "
                "WHERE locktype = 'advisory' AND pid = pg_backend_pid()",
            )
            assert count <= 1024

    @pytest.mark.slow
    def test_never_deadlocks_where_each_batch_has_other_keys(
        self, connect: Callable[..., Connection]
    ) -> None:
        limit(max_size=10_000)
        limit(scope="channel", max_size=100_000)
        names = [str(n) for n in range(40)]
        errors: list[BaseException] = []

        def produce(mine: Connection, seed: int) -> None:
            chance = random.Random(seed)
            try:
                for _ in range(30):
                    with mine.transaction():
                        store(mine, chance.sample(names, 20), bodies=[b""] * 20)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=produce, args=(connect(), n)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

        assert errors == []
        assert Message.objects.count() == 4 * 30 * 20

    def test_never_deadlocks_where_two_batches_have_other_keys_of_the_same_locks(
        self, connection: Connection, connect: Callable[..., Connection], step: Callable[..., Step]
    ) -> None:
        limit(max_size=10)
        rows = connection.execute(
            "SELECT n::text, pgqueue_bucket_v1('default', n::text) FROM generate_series(1, 9000) n"
        )
        keys: dict[int, list[str]] = {}
        for key, bucket in sorted(rows.fetchall()):
            keys.setdefault(bucket, []).append(key)
        # By their keys, the second batch would take the two locks in the other order.
        first, second = next(
            (a, b)
            for a, b in combinations(sorted(keys), 2)
            if keys[a][0] < keys[b][0] and keys[b][1] < keys[a][1]
        )
        one_batch = [keys[first][0], keys[second][0]]
        other_batch = [keys[second][1], keys[first][1]]
        with connection.transaction():
            store(connection, [keys[first][2]])
            one_step = step(store, connect(), one_batch)
            one_step.waits()
            other_step = step(store, connect(), other_batch)
            other_step.waits()

        one_step.result()
        other_step.result()

        assert Message.objects.count() == 5

    def test_of_each_of_501_keys_at_once_takes_too_many_locks(self, connection: Connection) -> None:
        names = [str(n) for n in range(501)]
        store(connection, names)
        limit(max_size=9)

        with pytest.raises(BatchTooLarge):
            store(connection, names)

        assert len(store(connection, names[:500]).ids) == 500
        assert Message.objects.count() == 1001

    def test_of_one_key_replaces_that_of_each(self, connection: Connection) -> None:
        limit(max_size=1)
        limit(key="vip", max_size=3)

        store(connection, ["vip", "vip", "vip"])

        with pytest.raises(ChannelFull):
            store(connection, ["a", "a"])

    def test_of_the_channel_holds_beside_that_of_each_key(self, connection: Connection) -> None:
        limit(scope="channel", max_size=3)
        limit(max_size=2)

        enqueue(connection, key="a")
        enqueue(connection, key="a")
        with pytest.raises(ChannelFull):
            enqueue(connection, key="a")
        enqueue(connection, key="b")
        with pytest.raises(ChannelFull):
            enqueue(connection, key="b")

    def test_of_both_admits_of_many_what_both_allow(self, connection: Connection) -> None:
        limit(scope="channel", max_size=3)
        limit(max_size=2)
        Channel.objects.create(name="default", on_full="drop")

        stored = store(connection, ["a", "a", "a", "b", "b"])

        assert stored.came_of == ["stored", "stored", "dropped", "stored", "dropped"]

    def test_does_not_hold_for_messages_without_a_key(self, connection: Connection) -> None:
        limit(max_size=1)

        assert len(store(connection, ["", "", ""]).ids) == 3


def test_what_was_stored_before_its_policy_is_taken_once_and_no_more(
    connection: Connection, other: Connection
) -> None:
    with other.transaction():
        store(other, ["a"] * 5)
        limit(max_running=2)
        turns = GovernedClaims(connection)
        assert turns.claim(100) == []

    assert claim(connection) == []
    first = turns.claim(100)
    assert len(first) == 2
    settle.complete(connection, [done(each) for each in first])
    rest = [each for _ in range(3) for each in turns.claim(100)]
    assert len({each.id for each in first + rest}) == 4
    assert max(Counter(each.id for each in first + rest).values()) == 1


def read(connection: Connection, table: str) -> int:
    """Return how many rows of a table this transaction has read."""
    (count,) = one(
        connection,
        "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = %s",
        table,
    )
    return int(count)


def test_what_was_stored_before_a_keys_policy_is_found_without_reading_other_keys(
    connection: Connection,
) -> None:
    limit(key="a", max_running=1)
    for key in ("a", "b"):
        insert(connection, key=key)
    enqueue(connection, 1000, key="c")

    with connection.transaction():
        adopted = route.adopt(connection)

        assert (adopted, read(connection, "pgqueue_message") < 10) == (1, True)


@pytest.mark.parametrize("scope", ["channel", "each"])
def test_room_is_counted_without_reading_other_channels(
    connection: Connection, other: Connection, scope: str
) -> None:
    limit(scope=scope, max_size=9)
    for verb in (run, bury, schedule, hold, enqueue):
        verb(other, 300, channel="other", key=verb.__name__)

    with connection.transaction():
        enqueue(connection, key="a")

        assert read(connection, "pgqueue_message") < 10


def test_a_claim_reads_few_policies_of_other_keys(connection: Connection) -> None:
    Policy.objects.bulk_create(
        Policy(channel="default", scope="key", key=str(n), max_running=1) for n in range(1000)
    )
    connection.execute("ANALYZE pgqueue_policy")
    store(connection, [str(n) for n in range(100)])
    store(connection, [f"free {n}" for n in range(100)])
    route.route(connection, after=0)

    with connection.transaction():
        free, governed = claim(connection, limit=100), GovernedClaims(connection).claim(100)

        # The list of channels that have any, a few times; not all of them for each lane.
        assert (len(free), len(governed)) == (100, 100)
        assert read(connection, "pgqueue_policy") < 10_000


def test_a_claim_goes_on_where_the_lanes_whose_turn_it_is_have_no_room(
    connection: Connection,
) -> None:
    limit(max_running=1)
    store(connection, [str(n) for n in range(30)] * 2)
    turns = GovernedClaims(connection)
    running = turns.claim(29)
    # All are rung, needlessly but for one.
    Policy.objects.update(max_running=1)

    assert len(turns.claim(3)) == 1
    settle.complete(connection, [done(running[0])])
    assert [each.key for each in turns.claim(3)] == [running[0].key]
