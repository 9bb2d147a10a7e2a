"""Two sessions at a circuit breaker, stepped by hand."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from pgqueue.engine import lease, settle
from pgqueue.models import Breaker
from tests.breaking import SCOPES, broken_by, fail, half_open, let_the_pause_end, take
from tests.claims import GovernedClaims
from tests.factories import OVER, Connection, done, enqueue, store
from tests.stepping import Step


class TestTwoSessions:
    @SCOPES
    @pytest.mark.parametrize("order", [(0, 1), (1, 0)])
    def test_that_fail_at_once_reach_the_threshold_together(
        self,
        connection: Connection,
        other: Connection,
        step: Callable[..., Step],
        scope: str,
        order: tuple[int, int],
    ) -> None:
        broken_by(2, scope=scope)
        enqueue(connection, 3, key="a")
        held = take(connection, 2)

        with connection.transaction():
            fail(connection, held[order[0]])
            second = step(fail, other, held[order[1]])
            second.waits()
        assert second.result() == {held[order[1]].id}

        assert take(connection) == []
        assert len(Breaker.objects.get().failed_at) == 2

    def test_that_fail_for_keys_in_opposite_orders_do_not_lock_each_other_out(
        self, connection: Connection, other: Connection, step: Callable[..., Step]
    ) -> None:
        broken_by(2, scope="each")
        store(connection, ["b", "a", "a", "b"])
        held = {(each.key, n): each for n, each in enumerate(take(connection))}
        a, b = ([each for (key, _), each in held.items() if key == name] for name in "ab")

        with connection.transaction():
            fail(connection, a[0])
            second = step(fail, other, b[1], a[1])
            second.waits()  # for a, although it was given b first
            fail(connection, b[0])
        second.result()

        assert Breaker.objects.filter(open_until__isnull=False).count() == 2

    def test_count_a_failure_that_is_later_than_the_start_of_a_settle_that_waited(
        self,
        connection: Connection,
        other: Connection,
        third: Connection,
        step: Callable[..., Step],
    ) -> None:
        broken_by(9, scope="each")
        store(connection, ["a", "b", "b", "a"])
        held = take(connection)
        a, b = ([each for each in held if each.key == name] for name in "ab")

        with third.transaction():
            fail(third, a[0])
            waiting = step(fail, other, a[1], b[0])
            waiting.waits()  # for the breaker of a
            fail(connection, b[1])
        waiting.result()

        assert len(Breaker.objects.get(key="b").failed_at) == 2

    @SCOPES
    def test_a_claim_beside_an_opening_begins_before_its_commit_or_obeys_it(
        self, connection: Connection, other: Connection, scope: str
    ) -> None:
        broken_by(1, scope=scope)
        enqueue(connection, 3, key="a")
        (held,) = take(connection, 1)

        with connection.transaction():
            fail(connection, held)
            before = take(other, 1)
        after = take(other)

        assert (len(before), after) == (1, [])

    @SCOPES
    def test_that_claim_after_the_pause_let_one_probe_through(
        self, connection: Connection, other: Connection, scope: str
    ) -> None:
        half_open(connection, scope)

        with connection.transaction():
            first = take(connection)
            beside = take(other)
        after = take(other)

        assert (len(first), beside, after) == (1, [], [])

    @SCOPES
    def test_a_probe_that_is_rolled_back_was_none(
        self, connection: Connection, other: Connection, scope: str
    ) -> None:
        half_open(connection, scope)

        with connection.transaction(force_rollback=True):
            assert len(take(connection)) == 1

        assert len(take(other)) == 1

    @SCOPES
    def test_a_probe_whose_worker_was_killed_holds_it_until_the_rescue(
        self, connection: Connection, other: Connection, scope: str
    ) -> None:
        half_open(connection, scope)
        probe = GovernedClaims(other, lease=OVER).claim(9)

        before = take(connection)
        lease.rescue(connection, max_lost=3)
        after = take(connection)

        assert (len(probe), before, len(after)) == (1, [], 1)
        assert settle.complete(other, [done(probe[0])]) == set()  # too late
        assert take(connection) == []

    @SCOPES
    def test_a_success_does_not_wait_for_a_breaker_that_a_transaction_has_locked(
        self, connection: Connection, other: Connection, scope: str
    ) -> None:
        half_open(connection, scope)
        (probe,) = take(connection)
        connection.execute("SET lock_timeout = '1s'")

        with other.transaction():
            other.execute("SELECT FROM pgqueue_breaker FOR UPDATE")
            assert settle.complete(connection, [done(probe)]) == {probe.id}

        (second,) = take(connection)
        settle.complete(connection, [done(second)])
        assert not Breaker.objects.exists()

    @SCOPES
    def test_a_claim_does_not_wait_for_a_failure_that_is_not_committed(
        self, connection: Connection, other: Connection, scope: str
    ) -> None:
        broken_by(2, scope=scope)
        enqueue(connection, 9, key="a")
        *failed, late = take(connection, 3)
        fail(connection, *failed)
        let_the_pause_end()
        connection.execute("SET lock_timeout = '1s'")

        with other.transaction():
            fail(other, late)
            beside = GovernedClaims(connection)
            before = beside.claim(9)
        after = take(connection)

        assert (before, len(after)) == ([], 1)
        assert beside.wake_in == timedelta(milliseconds=10)

    def test_a_failure_of_one_key_that_is_not_committed_stops_no_other_key(
        self, connection: Connection, other: Connection
    ) -> None:
        broken_by(2, scope="each")
        enqueue(connection, 9, key="a")
        *failed, late = take(connection, 3)
        fail(connection, *failed)
        store(connection, ["b", "c", "b", "c"])
        let_the_pause_end()
        worker = GovernedClaims(connection)

        with other.transaction():
            fail(other, late)
            beside = [worker.claim(2), worker.claim(2), worker.claim(2)]
            look_again = worker.wake_in
        after = worker.claim(9)

        assert [[each.key for each in claims] for claims in beside] == [["b", "c"], ["b", "c"], []]
        assert look_again == timedelta(milliseconds=10)
        assert [each.key for each in after] == ["a"]

    def test_a_failure_does_not_wait_for_a_claim(
        self, connection: Connection, other: Connection
    ) -> None:
        broken_by(9)
        enqueue(connection, 9, key="a")
        (held,) = take(connection, 1)

        with connection.transaction():
            assert len(take(connection, 1)) == 1  # and has the gate and the lane locked
            other.execute("SET lock_timeout = '1s'")
            assert fail(other, held) == {held.id}
