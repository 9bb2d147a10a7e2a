"""The server's clock is set back by an hour, or a server takes over whose clock is behind."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pgqueue.engine import route
from pgqueue.models import Bell, Lane, Message
from tests.claims import FreeClaims, GovernedClaims
from tests.eventually import eventually
from tests.factories import Connection, Listening, enqueue, limit, register, store

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


def set_back(connection: Connection, by: timedelta = HOUR) -> None:
    """Let what lanes and gates remember come from the future."""
    connection.execute(
        "UPDATE pgqueue_lane SET turn_at = turn_at + %(by)s, wake_at = wake_at + %(by)s, "
        "tat = CASE WHEN tat > 'epoch' THEN tat + %(by)s ELSE tat END",
        {"by": by},
    )
    connection.execute(
        "UPDATE pgqueue_gate SET wake_at = wake_at + %(by)s, tat = tat + %(by)s", {"by": by}
    )


class TestARate:
    @pytest.mark.parametrize("scope", ["each", "channel"])
    def test_makes_nothing_wait_for_longer_than_it_says(
        self, connection: Connection, scope: str
    ) -> None:
        limit(scope=scope, rate=1, per=MINUTE, burst=2)
        enqueue(connection, 4, key="a")
        turns = GovernedClaims(connection)
        assert len(turns.claim(10)) == 2
        turns.claim(10)
        set_back(connection)

        route.tidy(connection)
        started = turns.claim(10)
        turns.claim(10)

        assert started == []
        assert turns.wake_in
        assert timedelta(seconds=50) < turns.wake_in <= MINUTE

    @pytest.mark.parametrize("scope", ["each", "channel"])
    def test_holds_for_a_lane_that_has_nothing_to_do_at_that_time(
        self, connection: Connection, scope: str
    ) -> None:
        limit(scope=scope, rate=1, per=MINUTE, burst=1)
        enqueue(connection, 1, key="a")
        turns = GovernedClaims(connection)
        assert len(turns.claim(10)) == 1
        turns.claim(10)
        set_back(connection)
        route.tidy(connection)
        turns.claim(10)

        enqueue(connection, 1, key="a")
        turns.claim(10)
        turns.claim(10)

        assert turns.wake_in
        assert timedelta(seconds=50) < turns.wake_in <= MINUTE

    def test_of_a_channel_bounds_it_though_no_lane_is_from_before(
        self, connection: Connection
    ) -> None:
        limit(scope="channel", rate=1, per=MINUTE, burst=1)
        enqueue(connection, 1, key="a")
        turns = GovernedClaims(connection)
        assert len(turns.claim(10)) == 1
        set_back(connection)
        Lane.objects.all().delete()
        enqueue(connection, 1, key="b")

        route.tidy(connection)
        turns.claim(10)
        turns.claim(10)

        assert turns.wake_in
        assert timedelta(seconds=50) < turns.wake_in <= MINUTE

    def test_is_looked_at_by_workers_that_are_idle(
        self, connection: Connection, other: Connection
    ) -> None:
        limit(rate=1, per=MINUTE, burst=1)
        enqueue(connection, 2, key="a")
        GovernedClaims(connection).claim(10)
        register(connection)
        connection.execute("UPDATE pgqueue_worker SET notify_until = now() + interval '1 day'")
        set_back(connection)
        listening = Listening(other)

        route.tidy(connection)

        assert "default" in listening.heard()

    @pytest.mark.parametrize("scope", ["each", "channel"])
    def test_rings_no_bell_while_the_clock_is_right(
        self, connection: Connection, scope: str
    ) -> None:
        limit(scope=scope, rate=1, per=HOUR, burst=3)
        enqueue(connection, 9, key="a")
        turns = GovernedClaims(connection)
        assert len(turns.claim(10)) == 3
        turns.claim(10)

        route.tidy(connection)

        assert not Bell.objects.exists()


class TestALane:
    def test_keeps_its_turn_before_those_that_always_have_work(
        self, connection: Connection
    ) -> None:
        limit(max_running=100)
        store(connection, ["late"] * 3)
        turns = GovernedClaims(connection)
        assert len(turns.claim(1)) == 1
        set_back(connection)
        store(connection, ["busy"] * 50 + ["busy, too"] * 50)

        route.tidy(connection)
        keys = {each.key for _ in range(4) for each in turns.claim(2)}

        assert keys == {"busy", "busy, too", "late"}
        assert not Lane.objects.filter(turn_at__gt=Message.objects.latest("id").created_at + MINUTE)


class TestAMark:
    """A claim goes on behind the last message that was taken."""

    def test_in_the_future_hides_nothing(self, connection: Connection) -> None:
        enqueue(connection, 3)
        connection.execute("UPDATE pgqueue_message SET run_at = run_at + interval '1 hour'")
        claims = FreeClaims(connection)
        assert len(claims.claim(1)) == 1

        enqueue(connection, 2)
        taken = [0]

        def takes_all() -> bool:
            taken[0] += len(claims.claim(10, thoroughly=False))
            return taken[0] == 4

        eventually(takes_all, within=5)


class TestAReadyMessage:
    def test_of_before_is_ready_though_its_time_is_to_come(self, connection: Connection) -> None:
        enqueue(connection, 2)
        connection.execute("UPDATE pgqueue_message SET run_at = run_at + interval '1 hour'")

        assert len(FreeClaims(connection).claim(10)) == 2
