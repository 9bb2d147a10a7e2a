"""Circuit breakers of policies: closed, open, half-open with one probe, and closed again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from pgqueue import Channel as Operated
from pgqueue.engine import cancel, lease, route, settle
from pgqueue.engine.settle import Deferral, Finish, Pause
from pgqueue.engine.values import Claim
from pgqueue.models import Breaker, Lane, Message, Policy
from tests.breaking import (
    HOUR,
    PAST,
    SCOPES,
    broken_by,
    fail,
    half_open,
    let_the_pause_end,
    open_it,
    take,
)
from tests.claims import GovernedClaims
from tests.factories import Connection, claim, done, enqueue, failure, limit, store


class TestAClosedBreaker:
    @SCOPES
    def test_opens_at_so_many_failures_and_then_no_message_starts(
        self, connection: Connection, scope: str
    ) -> None:
        broken_by(3, scope=scope)
        enqueue(connection, 9, key="a")
        first, second, third = take(connection, 3)

        fail(connection, first, second)
        before = take(connection, 1)
        fail(connection, third)
        after = take(connection)

        assert (len(before), after) == (1, [])
        assert claim(connection) == []

    def test_counts_every_failure_of_a_batch_and_those_of_dead_letters(
        self, connection: Connection
    ) -> None:
        broken_by(3)
        enqueue(connection, 4, key="a")
        first, *others = take(connection, 3)

        fail(connection, first)
        settle.bury(connection, [failure(each) for each in others])

        assert take(connection) == []

    def test_forgets_failures_of_long_ago(self, connection: Connection) -> None:
        broken_by(2)
        enqueue(connection, 3, key="a")
        first, second = take(connection, 2)

        fail(connection, first)
        Breaker.objects.update(failed_at=[datetime.now(UTC) - timedelta(seconds=61)])
        fail(connection, second)

        assert len(take(connection)) == 1

    def test_counts_no_failure_from_the_future_of_a_clock_that_was_set_back(
        self, connection: Connection
    ) -> None:
        broken_by(2)
        enqueue(connection, 2, key="a")
        Breaker.objects.create(
            channel="default", key="", failed_at=[datetime.now(UTC) + HOUR], open_until=None
        )

        fail(connection, *take(connection, 1))

        assert len(take(connection)) == 1

    @pytest.mark.parametrize(
        "end", ["defer", "release", "finish", "cancel", "rescue", "unreadable", "complete"]
    )
    def test_counts_no_other_ending(self, connection: Connection, end: str) -> None:
        broken_by(1)
        enqueue(connection, 2, key="a")
        (held,) = take(connection, 1)

        END[end](connection, held)

        assert not Breaker.objects.exists()
        assert take(connection) != []

    @pytest.mark.parametrize("key", [None, "a"])
    def test_counts_no_run_that_was_told_to_wait(
        self, connection: Connection, key: str | None
    ) -> None:
        broken_by(1)
        enqueue(connection, 1, key="a")
        (held,) = take(connection)

        settle.defer(connection, [Deferral(held, HOUR, pauses=Pause("default", key))])

        assert not Breaker.objects.exists()

    def test_counts_each_key_alone_and_leaves_messages_without_one_alone(
        self, connection: Connection
    ) -> None:
        broken_by(2, scope="each")
        store(connection, ["a"] * 3 + ["b"] * 3)
        enqueue(connection, 1)
        held = take(connection, 4)

        fail(connection, *(each for each in held if each.key == "a"))
        fail(connection, next(each for each in held if each.key == "b"))

        assert {each.key for each in take(connection)} == {"b"}
        assert [each.key for each in claim(connection)] == [""]

    def test_of_one_key_replaces_that_of_each(self, connection: Connection) -> None:
        broken_by(1, scope="each")
        limit(key="vip", max_running=9)
        store(connection, ["vip"] * 2 + ["a"] * 2)

        fail(connection, *take(connection, 2))

        assert {each.key for each in take(connection)} == {"vip"}

    def test_costs_a_settle_no_row_where_no_policy_has_one(self, connection: Connection) -> None:
        limit(scope="channel", max_running=9)
        broken_by(1, scope="each", key="other")
        enqueue(connection, 1, key="a")

        fail(connection, *take(connection))

        assert not Breaker.objects.exists()


class TestAnOpenBreaker:
    @SCOPES
    def test_lets_one_message_through_after_its_pause(
        self, connection: Connection, scope: str
    ) -> None:
        broken_by(2, scope=scope)
        open_it(connection)
        enqueue(connection, 9, key="a")
        while_open = take(connection)

        let_the_pause_end()
        (probe,) = take(connection)

        assert while_open == []
        assert take(connection) == []
        assert Breaker.objects.get().probe_id == probe.id

    @SCOPES
    def test_closes_by_the_success_of_its_probe(self, connection: Connection, scope: str) -> None:
        half_open(connection, scope)
        (probe,) = take(connection)

        settle.complete(connection, [done(probe)])

        assert not Breaker.objects.exists()
        assert len(take(connection)) == 8

    @SCOPES
    def test_opens_again_by_the_failure_of_its_probe(
        self, connection: Connection, scope: str
    ) -> None:
        half_open(connection, scope)
        (probe,) = take(connection)

        fail(connection, probe)
        again = take(connection)
        let_the_pause_end()
        later = take(connection)

        assert (again, len(later)) == ([], 1)

    @SCOPES
    @pytest.mark.parametrize(
        "end", ["defer", "release", "finish", "cancel", "rescue", "unreadable"]
    )
    def test_takes_another_probe_if_the_first_one_ends_otherwise(
        self, connection: Connection, scope: str, end: str
    ) -> None:
        half_open(connection, scope)
        (probe,) = take(connection)

        END[end](connection, probe)
        (second,) = take(connection)

        assert second.attempt > 0
        assert take(connection) == []
        settle.complete(connection, [done(second)])
        assert len(take(connection)) > 1

    def test_ignores_runs_that_began_before_it_opened(self, connection: Connection) -> None:
        broken_by(2)
        enqueue(connection, 12, key="a")
        first, second, failing, succeeding = take(connection, 4)
        fail(connection, first, second)
        let_the_pause_end()
        (probe,) = take(connection)

        fail(connection, failing)
        settle.complete(connection, [done(succeeding)])

        assert take(connection) == []
        assert Breaker.objects.get().probe_id == probe.id

    def test_of_the_channel_stops_every_key(self, connection: Connection) -> None:
        broken_by(2)
        open_it(connection)
        store(connection, ["b", "c", ""])
        let_the_pause_end()

        assert len(take(connection)) == 1
        assert take(connection) == []

    def test_of_a_key_holds_beside_that_of_the_channel(self, connection: Connection) -> None:
        broken_by(2, scope="each")
        broken_by(5)
        open_it(connection)
        store(connection, ["a"] * 3 + ["b"] * 3)

        assert {each.key for each in take(connection)} == {"b"}
        assert Breaker.objects.count() == 2

    def test_tells_a_worker_when_to_look_again(self, connection: Connection) -> None:
        broken_by(2)
        open_it(connection)
        enqueue(connection, 1, key="a")
        turns = GovernedClaims(connection)

        assert turns.claim(9) == []

        assert turns.wake_in is not None
        assert timedelta(minutes=59) < turns.wake_in <= HOUR

    def test_lets_the_head_of_an_ordered_lane_through(self, connection: Connection) -> None:
        broken_by(2, scope="each")
        open_it(connection)
        ids = enqueue(connection, 2, key="a", ordered=True)
        let_the_pause_end()

        (probe,) = take(connection)

        assert probe.id == ids[0]
        settle.complete(connection, [done(probe)])
        assert [each.id for each in take(connection)] == [ids[1]]

    def test_lets_an_urgent_message_through_and_no_other(self, connection: Connection) -> None:
        broken_by(2)
        Operated("default").configure(urgent_first=True)
        open_it(connection)
        enqueue(connection, 3, key="b")
        enqueue(connection, 3, key="c", priority=60)
        let_the_pause_end()

        assert [each.key for each in take(connection)] == ["c"]
        assert take(connection) == []

    def test_has_its_lane_read_again_by_the_bell_of_its_probes_end(
        self, connection: Connection
    ) -> None:
        broken_by(2, scope="each")
        open_it(connection)
        enqueue(connection, 9, key="a")
        take(connection)
        while_open = Lane.objects.get().state
        let_the_pause_end()
        (probe,) = take(connection)
        while_tried = Lane.objects.get().state

        settle.complete(connection, [done(probe)])
        route.route(connection, after=0)

        assert (while_open, while_tried) == ("throttled", "saturated")
        assert Lane.objects.get().state == "runnable"

    @SCOPES
    def test_has_no_lane_that_contradicts_its_messages(
        self, connection: Connection, scope: str
    ) -> None:
        half_open(connection, scope)
        assert len(take(connection)) == 1
        take(connection)
        Lane.objects.update(turn_at=PAST)

        assert route.tidy(connection) == 0


class TestAChangedPolicy:
    @SCOPES
    def test_without_a_breaker_lets_every_message_start(
        self, connection: Connection, scope: str
    ) -> None:
        policy = broken_by(2, scope=scope)
        open_it(connection)
        enqueue(connection, 9, key="a")
        assert take(connection) == []

        policy.delete()
        limit(scope=scope, max_running=5)

        assert len(take(connection)) == 5
        route.tidy(connection)
        assert not Breaker.objects.exists()

    @SCOPES
    def test_with_a_shorter_pause_ends_the_pause(self, connection: Connection, scope: str) -> None:
        broken_by(2, scope=scope)
        open_it(connection)
        enqueue(connection, 9, key="a")
        assert take(connection) == []

        Policy.objects.update(breaker_pause=timedelta(minutes=1))

        assert len(take(connection)) == 1
        assert take(connection) == []

    def test_with_a_shorter_pause_goes_on_after_the_probe(self, connection: Connection) -> None:
        broken_by(2, scope="each")
        open_it(connection)
        enqueue(connection, 9, key="a")
        assert take(connection) == []
        Policy.objects.update(breaker_pause=timedelta(minutes=1))
        (probe,) = take(connection)
        enqueue(connection, 1, key="a")
        assert take(connection) == []

        settle.complete(connection, [done(probe)])

        assert len(take(connection)) == 10 - 1

    def test_with_a_longer_pause_has_it_from_the_next_opening_on(
        self, connection: Connection
    ) -> None:
        broken_by(2)
        open_it(connection)
        until = Breaker.objects.get().open_until

        Policy.objects.update(breaker_pause=timedelta(hours=9))
        enqueue(connection, 1, key="a")

        assert take(connection) == []
        assert Breaker.objects.get().open_until == until

    def test_with_fewer_failures_opens_by_the_next_one(self, connection: Connection) -> None:
        broken_by(9)
        enqueue(connection, 9, key="a")
        fail(connection, *take(connection, 3))

        Policy.objects.update(breaker_failures=2)
        fail(connection, *take(connection, 1))

        assert take(connection) == []
        assert len(Breaker.objects.get().failed_at) == 2

    def test_is_forgotten_once_its_failures_no_longer_count(self, connection: Connection) -> None:
        broken_by(9)
        enqueue(connection, 1, key="a")
        fail(connection, *take(connection))
        route.tidy(connection)
        kept = Breaker.objects.count()

        Breaker.objects.update(failed_at=[PAST])
        route.tidy(connection)

        assert (kept, Breaker.objects.count()) == (1, 0)

    def test_keeps_an_open_one_however_old_its_failures_are(self, connection: Connection) -> None:
        broken_by(2)
        open_it(connection)

        Breaker.objects.update(failed_at=[PAST])
        route.tidy(connection)

        assert Breaker.objects.exists()


def _finish(connection: Connection, held: Claim) -> None:
    settle.finish(connection, [Finish(held, "discarded", None, 0.0)])


def _cancel(connection: Connection, held: Claim) -> None:
    cancel.cancel(connection, [held.id])
    settle.retry(connection, [failure(held)])


def _rescue(connection: Connection, held: Claim) -> None:
    Message.objects.filter(pk=held.id).update(lease_until=PAST)
    lease.rescue(connection, max_lost=3)


END: dict[str, Callable[[Connection, Claim], object]] = {
    "defer": lambda connection, held: settle.defer(connection, [Deferral(held, HOUR)]),
    "release": lambda connection, held: settle.release(connection, [held]),
    "finish": _finish,
    "cancel": _cancel,
    "rescue": _rescue,
    "unreadable": lambda connection, held: settle.bury_unreadable(connection, [failure(held)]),
    "complete": lambda connection, held: settle.complete(connection, [done(held)]),
}
"""Endings of a run that are no failures; the last one closes a breaker."""
