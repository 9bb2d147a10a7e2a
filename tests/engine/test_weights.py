"""A message with a weight counts for several in max_running and in a rate."""

from __future__ import annotations

from datetime import timedelta

import pytest
from psycopg.errors import InvalidParameterValue

from pgqueue.engine import route, settle
from pgqueue.models import Bell, Channel, Lane, Policy
from tests.claims import GovernedClaims
from tests.factories import Connection, done, limit, one, store

HOUR = timedelta(hours=1)


def heavy(connection: Connection, weight: object, key: str = "a", **changed: object) -> int:
    """Enqueue a message of this weight; return its id."""
    stored = store(connection, key, options=f'{{"weight": {weight}}}', **changed)
    return int(stored.ids[0] or 0)


def light(connection: Connection, count: int, key: str = "a") -> list[int]:
    return [int(id or 0) for id in store(connection, [key] * count).ids]


def ids(claims: list[object]) -> list[int]:
    return [each.id for each in claims]  # type: ignore[attr-defined]


SCOPES = pytest.mark.parametrize("scope", ["each", "channel"])


class TestMaxRunning:
    @SCOPES
    def test_counts_a_message_by_its_weight(self, connection: Connection, scope: str) -> None:
        limit(scope=scope, max_running=5)
        first = heavy(connection, 3)
        rest = light(connection, 9)

        claims = GovernedClaims(connection).claim(100)

        assert ids(claims) == [first, *rest[:2]]

    @SCOPES
    def test_counts_what_runs_by_its_weight(self, connection: Connection, scope: str) -> None:
        limit(scope=scope, max_running=5)
        heavy(connection, 4)
        turns = GovernedClaims(connection)
        assert len(turns.claim(100)) == 1
        rest = light(connection, 9)

        assert ids(turns.claim(100)) == rest[:1]

    @SCOPES
    def test_makes_a_message_above_the_limit_run_alone(
        self, connection: Connection, scope: str
    ) -> None:
        limit(scope=scope, max_running=3)
        (small,) = light(connection, 1)
        large = heavy(connection, 50)
        light(connection, 1)
        turns = GovernedClaims(connection)
        (first,) = turns.claim(100)

        settle.complete(connection, [done(first)])
        (second,) = turns.claim(100)

        assert (first.id, second.id) == (small, large)
        assert turns.claim(100) == []
        settle.complete(connection, [done(second)])
        assert len(turns.claim(100)) == 1

    @SCOPES
    def test_lets_no_light_message_overtake_a_heavy_one(
        self, connection: Connection, scope: str
    ) -> None:
        limit(scope=scope, max_running=4)
        light(connection, 3)
        turns = GovernedClaims(connection)
        running = turns.claim(100)
        large = heavy(connection, 4)

        for each in running:
            light(connection, 5)
            assert turns.claim(100) == []
            settle.complete(connection, [done(each)])

        assert ids(turns.claim(100)) == [large]

    def test_of_a_channel_keeps_the_place_for_a_heavy_message_of_any_key(
        self, connection: Connection
    ) -> None:
        limit(scope="channel", max_running=4)
        light(connection, 3, key="a")
        turns = GovernedClaims(connection)
        running = turns.claim(100)
        large = heavy(connection, 4, key="b")
        assert turns.claim(100) == []

        for each in running:
            light(connection, 5, key="a")
            light(connection, 5, key="c")
            assert turns.claim(100) == []
            settle.complete(connection, [done(each)])

        assert ids(turns.claim(100)) == [large]

    def test_of_a_key_holds_up_no_other_key(self, connection: Connection) -> None:
        limit(max_running=2)
        light(connection, 1, key="a")
        turns = GovernedClaims(connection)
        turns.claim(100)
        heavy(connection, 2, key="a")
        others = light(connection, 2, key="b")

        assert ids(turns.claim(100)) == others
        assert turns.claim(100) == []
        assert Lane.objects.get(key="a").state == Lane.State.SATURATED

    def test_counts_ordered_messages_by_their_weight(self, connection: Connection) -> None:
        limit(scope="channel", max_running=3)
        first = heavy(connection, 2, key="a", ordered=True)
        heavy(connection, 2, key="b", ordered=True)

        assert ids(GovernedClaims(connection).claim(100)) == [first]

    def test_is_no_contradiction_where_a_heavy_message_waits(self, connection: Connection) -> None:
        limit(max_running=3)
        light(connection, 1)
        turns = GovernedClaims(connection)
        turns.claim(100)
        heavy(connection, 3)
        assert turns.claim(100) == []
        connection.execute("UPDATE pgqueue_lane SET turn_at = 'epoch'")

        assert route.tidy(connection) == 0

    def test_repairs_a_lane_whose_heavy_message_has_room(self, connection: Connection) -> None:
        limit(max_running=3)
        large = heavy(connection, 3)
        route.route(connection, after=0)
        connection.execute("UPDATE pgqueue_lane SET turn_at = 'epoch', state = 'saturated'")

        assert route.tidy(connection) == 1
        assert ids(GovernedClaims(connection).claim(100)) == [large]


class TestARate:
    @SCOPES
    def test_counts_a_message_by_its_weight(self, connection: Connection, scope: str) -> None:
        limit(scope=scope, rate=10, per=HOUR, burst=5)
        first = heavy(connection, 3)
        rest = light(connection, 9)

        claims = GovernedClaims(connection).claim(100)

        assert ids(claims) == [first, *rest[:2]]

    @SCOPES
    def test_is_paid_afterwards_by_a_message_above_the_burst(
        self, connection: Connection, scope: str
    ) -> None:
        limit(scope=scope, rate=10, per=HOUR, burst=1)
        large = heavy(connection, 5)
        (small,) = light(connection, 1)
        turns = GovernedClaims(connection)

        assert ids(turns.claim(100)) == [large]
        pass_time(connection, 0.4 * HOUR)
        assert turns.claim(100) == []
        pass_time(connection, 0.1 * HOUR)
        assert ids(turns.claim(100)) == [small]

    @SCOPES
    def test_tells_when_a_heavy_message_may_start(self, connection: Connection, scope: str) -> None:
        limit(scope=scope, rate=10, per=HOUR, burst=5)
        light(connection, 3)
        turns = GovernedClaims(connection)
        assert len(turns.claim(100)) == 3
        large = heavy(connection, 4)

        assert turns.claim(100) == []
        assert turns.wake_in is not None
        assert timedelta(minutes=11) < turns.wake_in <= timedelta(minutes=12)
        pass_time(connection, timedelta(minutes=12))
        assert ids(turns.claim(100)) == [large]

    @SCOPES
    def test_does_not_forget_the_debt_when_a_policy_is_saved(
        self, connection: Connection, scope: str
    ) -> None:
        limit(scope=scope, rate=10, per=HOUR, burst=1)
        heavy(connection, 5)
        light(connection, 1)
        turns = GovernedClaims(connection)
        assert len(turns.claim(100)) == 1

        Channel.objects.create(name="default")
        Policy.objects.update(max_size=1000)
        route.tidy(connection)
        route.route(connection, after=0)
        pass_time(connection, 0.4 * HOUR)

        assert turns.claim(100) == []
        pass_time(connection, 0.1 * HOUR)
        assert len(turns.claim(100)) == 1

    @SCOPES
    def test_rings_no_bell_for_a_debt(self, connection: Connection, scope: str) -> None:
        limit(scope=scope, rate=10, per=HOUR, burst=1)
        heavy(connection, 5)
        assert len(GovernedClaims(connection).claim(100)) == 1

        route.tidy(connection)

        assert not Bell.objects.exists()

    @SCOPES
    def test_owes_no_more_than_a_timestamp_has_room_for(
        self, connection: Connection, scope: str
    ) -> None:
        limit(scope=scope, rate=1, per=timedelta(days=366), burst=100)
        large = heavy(connection, 100)
        limit(key="b", rate=1e-6, per=timedelta(seconds=3000), burst=1)
        other = heavy(connection, 100, key="b")
        turns = GovernedClaims(connection)

        claims = turns.claim(100) + turns.claim(100)

        assert large in ids(claims)
        assert (other in ids(claims)) == (scope == "each")


def pass_time(connection: Connection, by: timedelta) -> None:
    """Have rates see that this time has passed."""
    connection.execute(
        "UPDATE pgqueue_lane SET tat = tat - %(by)s, wake_at = wake_at - %(by)s", {"by": by}
    )
    connection.execute(
        "UPDATE pgqueue_gate SET tat = tat - %(by)s, wake_at = wake_at - %(by)s", {"by": by}
    )


class TestOptions:
    @pytest.mark.parametrize(
        ("weight", "counts"),
        [("0", 1), ("-7", 1), ("2.4", 2), ("1e300", 5), ('"3"', 1), ("null", 1), ("[4]", 1)],
    )
    def test_may_have_any_json_for_a_weight(
        self, connection: Connection, weight: str, counts: int
    ) -> None:
        limit(max_running=5)
        heavy(connection, weight)
        light(connection, 9)

        assert len(GovernedClaims(connection).claim(100)) == 1 + 5 - counts

    def test_have_no_effect_without_a_policy(self, connection: Connection) -> None:
        limit(key="other", max_running=1)
        heavy(connection, 7, ordered=True)

        assert len(GovernedClaims(connection).claim(100)) == 1


class TestSQL:
    def test_enqueues_with_a_weight(self, connection: Connection) -> None:
        limit(max_running=3)
        connection.execute(
            "SELECT pgqueue_enqueue('t', key => 'a', weight => 2) FROM generate_series(1, 3)"
        )

        assert len(GovernedClaims(connection).claim(100)) == 1
        assert one(connection, "SELECT DISTINCT options::text FROM pgqueue_message") == (
            '{"weight": 2}',
        )

    @pytest.mark.parametrize("weight", ["0", "101", "NULL"])
    def test_refuses_other_weights(self, connection: Connection, weight: str) -> None:
        with pytest.raises(InvalidParameterValue, match="weight must be from 1 to 100"):
            connection.execute(f"SELECT pgqueue_enqueue('t', weight => {weight})")
