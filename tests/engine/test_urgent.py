"""Urgent messages, and messages that have waited for too long, pass over the turns of keys."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone

from pgqueue import Channel
from pgqueue.engine import claim_governed, route, settle
from pgqueue.exceptions import InvalidChannel
from pgqueue.models import Lane, Message, TaskPause
from tests.claims import GovernedClaims
from tests.factories import Connection, done, limit, store

MAIL = Channel("default")
HOUR = timedelta(hours=1)


@pytest.fixture
def turns(connection: Connection) -> GovernedClaims:
    """Return claims from a channel whose keys take turns under a policy."""
    limit(weight=1)
    return GovernedClaims(connection)


def add(
    connection: Connection, key: str, priority: int = 0, count: int = 1, **more: Any
) -> list[int]:
    """Enqueue messages of a key; return their ids."""
    return [int(id or 0) for id in store(connection, [key] * count, priority=priority, **more).ids]


def let_wait(ids: list[int], by: timedelta) -> None:
    """Have messages wait for so long already, and tell the router."""
    for message in Message.objects.filter(id__in=ids):
        Message.objects.filter(id=message.id).update(run_at=message.run_at - by)
    keys = Message.objects.filter(id__in=ids).values_list("key", flat=True)
    Lane.objects.filter(key__in=list(keys)).delete()


def ring(connection: Connection, *keys: str) -> None:
    for key in keys:
        connection.execute("INSERT INTO pgqueue_bell (channel, key) VALUES ('default', %s)", [key])


def ids(claims: list[Any]) -> list[int]:
    return [each.id for each in claims]


class TestATaskThatWaits:
    def test_keeps_no_messages_of_others_from_being_urgent(
        self, connection: Connection, turns: GovernedClaims
    ) -> None:
        MAIL.configure(urgent_first=True)
        for key in "abcdef":
            add(connection, key, count=3)
        add(connection, "x", priority=50, count=10, task="waits")
        beside = add(connection, "x", priority=50)
        behind = add(connection, "y", priority=50)
        TaskPause.objects.create(task="waits", until=timezone.now() + HOUR)

        first, *others = [turns.claim(1) for _ in range(3)]

        assert ids(first) == beside
        assert behind in [ids(each) for each in others]


class TestUrgentFirst:
    def test_passes_over_the_turns_of_all_keys(
        self, connection: Connection, turns: GovernedClaims
    ) -> None:
        MAIL.configure(urgent_first=True)
        for key in "abc":
            add(connection, key, count=3)
        urgent = add(connection, "z", priority=50)

        first, *others = turns.claim(2) + turns.claim(2)

        assert first.id == urgent[0]
        assert {each.key for each in others} == {"a", "b"}

    def test_reaches_a_worker_in_the_middle_of_a_round(
        self, connection: Connection, turns: GovernedClaims
    ) -> None:
        MAIL.configure(urgent_first=True)
        for key in "abcdef":
            add(connection, key, count=3)
        assert len(turns.claim(4)) == 4
        urgent = add(connection, "a", priority=100)

        assert ids(turns.claim(1)) == urgent

    def test_takes_the_highest_priority_of_a_lane_and_then_the_longest_waiting(
        self, connection: Connection, turns: GovernedClaims
    ) -> None:
        MAIL.configure(urgent_first=True)
        low = add(connection, "a", priority=50, count=2)
        high = add(connection, "a", priority=60)
        add(connection, "a", priority=49)

        assert [*ids(turns.claim(1)), *ids(turns.claim(1)), *ids(turns.claim(1))] == [*high, *low]

    def test_is_for_priorities_from_fifty_on(
        self, connection: Connection, turns: GovernedClaims
    ) -> None:
        MAIL.configure(urgent_first=True)
        first = add(connection, "a")
        route.route(connection, after=0)
        add(connection, "b", priority=49)

        assert ids(turns.claim(1)) == first

    def test_is_off_unless_the_channel_says_so(
        self, connection: Connection, turns: GovernedClaims
    ) -> None:
        first = add(connection, "a")
        route.route(connection, after=0)
        add(connection, "b", priority=100)

        assert ids(turns.claim(1)) == first
        assert not Lane.objects.filter(urgent_at__isnull=False).exists()

    def test_applies_to_messages_from_before_and_no_longer_when_it_is_off(
        self, connection: Connection, turns: GovernedClaims
    ) -> None:
        first = add(connection, "a", count=2)
        route.route(connection, after=0)
        urgent = add(connection, "b", priority=100, count=2)
        route.route(connection, after=0)
        MAIL.configure(urgent_first=True)
        assert ids(turns.claim(1)) == urgent[:1]

        MAIL.configure(urgent_first=False)

        assert ids(turns.claim(1)) == first[:1]

    def test_exceeds_no_limit(self, connection: Connection) -> None:
        limit(scope="channel", max_running=3)
        limit(max_running=1)
        MAIL.configure(urgent_first=True)
        for key in "abcde":
            add(connection, key, priority=100, count=2)
        turns = GovernedClaims(connection)

        claims = turns.claim(100) + turns.claim(100)

        assert sorted(Counter(each.key for each in claims).values()) == [1, 1, 1]

    def test_lets_others_in_where_the_urgent_keys_have_no_room(
        self, connection: Connection
    ) -> None:
        limit(max_running=1)
        MAIL.configure(urgent_first=True)
        add(connection, "a", priority=100, count=5)
        turns = GovernedClaims(connection)
        assert len(turns.claim(100)) == 1
        others = add(connection, "b", count=2)
        ring(connection, "a")

        assert ids(turns.claim(100)) == others[:1]

    def test_takes_an_ordered_message_at_its_place_only(
        self, connection: Connection, turns: GovernedClaims
    ) -> None:
        MAIL.configure(urgent_first=True)
        other = add(connection, "b")
        route.route(connection, after=0)
        first = add(connection, "a", ordered=True)
        add(connection, "a", priority=100, ordered=True)

        assert ids(turns.claim(1)) == other
        [claim] = turns.claim(100)
        assert claim.id == first[0]
        later = add(connection, "c")
        settle.complete(connection, [done(claim)])

        [urgent] = turns.claim(1)
        assert (urgent.key, urgent.priority) == ("a", 100)
        assert ids(turns.claim(1)) == later

    def test_keeps_its_place_where_it_is_too_heavy(self, connection: Connection) -> None:
        limit(scope="channel", max_running=3)
        MAIL.configure(urgent_first=True)
        add(connection, "a")
        turns = GovernedClaims(connection)
        [running] = turns.claim(100)
        urgent = add(connection, "b", priority=50, options='{"weight": 3}')
        add(connection, "a", count=3)

        assert turns.claim(100) == []
        settle.complete(connection, [done(running)])
        assert ids(turns.claim(100)) == urgent

    def test_is_over_for_a_lane_whose_urgent_messages_were_taken(
        self, connection: Connection, turns: GovernedClaims
    ) -> None:
        MAIL.configure(urgent_first=True)
        add(connection, "a", priority=50, count=2)
        add(connection, "a")

        turns.claim(1)
        assert Lane.objects.get(key="a").urgent_at
        turns.claim(1)
        assert Lane.objects.get(key="a").urgent_at is None

    def test_leaves_paused_channels_alone(
        self, connection: Connection, turns: GovernedClaims
    ) -> None:
        MAIL.configure(urgent_first=True)
        add(connection, "a", priority=100)
        MAIL.pause()

        assert turns.claim(100) == []


class TestAging:
    def test_lets_a_message_that_has_waited_pass_over_turns_and_priorities(
        self, connection: Connection, turns: GovernedClaims
    ) -> None:
        MAIL.configure(age_after=HOUR)
        old = add(connection, "a", priority=-100)
        add(connection, "a", priority=10, count=3)
        for key in "bc":
            add(connection, key, priority=49, count=3)
        let_wait(old, HOUR)
        ring(connection, "a")

        assert ids(turns.claim(1)) == old

    def test_needs_no_event_at_that_moment(
        self, connection: Connection, turns: GovernedClaims
    ) -> None:
        MAIL.configure(age_after=HOUR)
        for key in "abc":
            add(connection, key, count=5)
        assert [each.key for each in turns.claim(1)] == ["a"]
        connection.execute(
            "UPDATE pgqueue_lane SET urgent_at = urgent_at - interval '2 hours' WHERE key = 'a'"
        )
        connection.execute(
            "UPDATE pgqueue_message SET run_at = run_at - interval '2 hours' "
            "WHERE key = 'a' AND state = 'ready'"
        )

        assert [turns.claim(1)[0].key for _ in range(5)] == ["a", "a", "a", "a", "b"]

    def test_counts_as_priority_fifty(self, connection: Connection, turns: GovernedClaims) -> None:
        MAIL.configure(age_after=HOUR, urgent_first=True)
        old = add(connection, "a", priority=-5)
        fifty, sixty = add(connection, "a", priority=50), add(connection, "a", priority=60)
        let_wait(old, HOUR)
        ring(connection, "a")

        assert [turns.claim(1)[0].id for _ in range(3)] == [*sixty, *old, *fifty]

    def test_is_not_reached_before_that_time(
        self, connection: Connection, turns: GovernedClaims
    ) -> None:
        MAIL.configure(age_after=HOUR)
        first = add(connection, "b", priority=10)
        old = add(connection, "b", priority=-5)
        let_wait(old, HOUR - timedelta(minutes=1))
        ring(connection, "b")

        assert ids(turns.claim(1)) == first

    def test_of_a_steady_stream_of_urgent_messages_bounds_the_wait_of_all_others(
        self, connection: Connection, turns: GovernedClaims
    ) -> None:
        # Each claim takes one message, while one more urgent message comes: without aging, the
        # others would never start. The message that aged is older than the urgent ones.
        MAIL.configure(urgent_first=True)
        add(connection, "loud", priority=50, count=3)
        quiet = add(connection, "quiet", count=2)
        keys = []
        for number in range(8):
            add(connection, "loud", priority=50)
            if number == 4:
                MAIL.configure(age_after=HOUR)
                let_wait(quiet, HOUR)
                ring(connection, "quiet")
            keys += [each.key for each in turns.claim(1)]

        assert keys == ["loud"] * 4 + ["quiet"] * 2 + ["loud"] * 2


class TestALaneWithoutUrgentMessages:
    def test_keeps_its_turn_if_it_was_taken_for_an_urgent_one(
        self, connection: Connection, turns: GovernedClaims
    ) -> None:
        MAIL.configure(age_after=HOUR)
        [aged], fresh = add(connection, "a"), add(connection, "a")
        let_wait([aged], 2 * HOUR)
        Message.objects.filter(id=aged).update(expires_at=timezone.now() - HOUR)
        ring(connection, "a")
        route.route(connection, after=0)
        lane = Lane.objects.get()
        assert lane.urgent_at

        # Lanes with later turns were looked at already.
        found = claim_governed.claim(
            connection,
            "default",
            claim_governed.EVERY_TURN,
            1,
            worker_id=uuid4(),
            lease=HOUR,
            until=lane.turn_at + timedelta(milliseconds=1),
        )

        assert ids(found.claims) == fresh

    def test_is_taken_when_a_pause_with_an_end_is_over(
        self, connection: Connection, turns: GovernedClaims
    ) -> None:
        MAIL.configure(urgent_first=True)
        add(connection, "a")
        urgent = add(connection, "z", priority=50)
        MAIL.pause(until=HOUR)
        over = timezone.now() - HOUR
        connection.execute("UPDATE pgqueue_channel SET paused_until = %s", [over])

        assert ids(turns.claim(1)) == urgent


class TestFairness:
    def test_of_the_other_keys_stays_equal_beside_an_urgent_one(
        self, connection: Connection, turns: GovernedClaims
    ) -> None:
        # A tenth of the messages are urgent. The other keys still have one turn each in a round.
        MAIL.configure(urgent_first=True)
        for key in "abcd":
            add(connection, key, count=30)
        taken: Counter[str] = Counter()
        for number in range(40):
            if number % 10 == 0:
                add(connection, "z", priority=50)
            taken.update(each.key for each in turns.claim(1))

        assert taken == {"a": 9, "b": 9, "c": 9, "d": 9, "z": 4}


class TestConfiguration:
    @pytest.mark.parametrize("option", [{"urgent_first": True}, {"age_after": 60}])
    def test_needs_a_policy(self, connection: Connection, option: Any) -> None:
        limit(max_size=7)
        limit(key="a", max_running=7)

        with pytest.raises(InvalidChannel, match=r"needs a policy .*policy\(weight=1"):
            MAIL.configure(**option)

        MAIL.policy(weight=1, each_key=True)
        MAIL.configure(**option)

    @pytest.mark.parametrize(
        "option", [{"urgent_first": 1}, {"age_after": 0}, {"age_after": "soon"}]
    )
    def test_is_refused_by_name(self, connection: Connection, option: Any) -> None:
        with pytest.raises(InvalidChannel, match=next(iter(option))):
            MAIL.configure(**option)
