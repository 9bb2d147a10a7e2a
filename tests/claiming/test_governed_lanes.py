"""The planner of governed lanes against lanes in memory, without a database."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgqueue.claiming.governed_lanes import BESIDE_ANOTHER, GovernedLanes, Turn
from pgqueue.engine.claim_governed import EVERY_TURN, GovernedClaims
from pgqueue.engine.route import Look, Routed

START = datetime(2025, 1, 1, tzinfo=UTC)
NOTHING = Look(has_rung=False, has_policies=False, wake_in=None)


class Rounds:
    """What the statement of a turn would do: each channel has lanes in the order of their turns.

    A lane that was served gets the last turn. One without room keeps its turn and gives nothing.
    """

    def __init__(self, **channels: dict[str, int]) -> None:
        self._now = START
        self.waiting = {name: dict(lanes) for name, lanes in channels.items()}
        self.turns: dict[str, dict[str, datetime]] = {}
        for name, lanes in channels.items():
            self.turns[name] = {key: self.tick() for key in lanes}
        self.without_room: set[tuple[str, str]] = set()
        self.locked: set[str] = set()
        self.asked: list[Turn] = []

    def tick(self) -> datetime:
        self._now += timedelta(seconds=1)
        return self._now

    def channels(self) -> list[str]:
        return [name for name, lanes in self.waiting.items() if any(lanes.values())]

    def claim(self, turn: Turn) -> GovernedClaims:
        self.asked.append(turn)
        if turn.channel in self.locked:
            return GovernedClaims([], is_beside_another=True)
        turns, waiting = self.turns[turn.channel], self.waiting[turn.channel]
        reached: Any = None
        claims: list[Any] = []
        looked_at = self.tick()
        for key, turn_at in sorted(turns.items(), key=lambda item: item[1]):
            is_asked = turn_at >= turn.after and (turn.until is None or turn_at < turn.until)
            if not is_asked or not waiting[key]:
                continue
            reached = turn_at
            turns[key] = self.tick()  # looked at, with room or without: to the end
            if (turn.channel, key) not in self.without_room:
                waiting[key] -= 1
                claims.append((turn.channel, key))
            if len(claims) == turn.limit or not claims:
                break
        return GovernedClaims(claims, reached, looked_at if reached else None)


def claim(lanes: GovernedLanes, rounds: Rounds, limit: int, *, now: float = 0) -> list[Any]:
    """Do the turns of one claim."""
    lanes.begin(now)
    lanes.looked(NOTHING)
    if lanes.must_find_channels:
        lanes.found(rounds.channels())
    lanes.is_up_to_date(now)
    claims: list[Any] = []
    while turn := lanes.plan(limit - len(claims)):
        served = rounds.claim(turn)
        claims += served.claims
        lanes.learn(turn, served)
    return claims


def test_channels_get_equal_shares() -> None:
    rounds = Rounds(a={"x": 100}, b={"x": 100, "y": 100}, c={"x": 100})
    lanes, found = GovernedLanes(), Counter[str]()

    for second in range(20):
        found.update(channel for channel, _ in claim(lanes, rounds, 3, now=second))

    assert found == {"a": 20, "b": 20, "c": 20}


def test_a_channel_that_was_served_waits_for_the_others() -> None:
    rounds = Rounds(a={"x": 9}, b={"x": 9}, c={"x": 9})
    lanes = GovernedLanes()

    served = [claim(lanes, rounds, 1, now=1 + second / 1000)[0][0] for second in range(6)]

    assert served == ["a", "b", "c", "a", "b", "c"]


def test_a_round_goes_on_where_the_last_claim_has_ended() -> None:
    rounds = Rounds(a={"x": 9, "y": 9})
    lanes = GovernedLanes()

    claim(lanes, rounds, 1, now=1)
    claim(lanes, rounds, 1, now=1.001)

    first, second = rounds.asked
    assert first.after == EVERY_TURN
    assert second.after > START


def test_a_look_from_the_front_reads_every_turn_again() -> None:
    rounds = Rounds(a={"x": 9, "y": 9})
    lanes = GovernedLanes()
    claim(lanes, rounds, 1, now=1)

    lanes.forget()
    claim(lanes, rounds, 1, now=1.001)

    assert [turn.after for turn in rounds.asked] == [EVERY_TURN, EVERY_TURN]


def test_lanes_without_room_are_passed_over_once() -> None:
    rounds = Rounds(a={"x": 9, "y": 9, "z": 1})
    rounds.without_room = {("a", "x"), ("a", "y")}

    claims = claim(GovernedLanes(), rounds, 5)

    assert claims == [("a", "z")]
    assert len(rounds.asked) <= 4


def test_lanes_that_have_no_room_end_the_claim() -> None:
    rounds = Rounds(a={"x": 9, "y": 9})
    rounds.without_room = {("a", "x"), ("a", "y")}

    assert claim(GovernedLanes(), rounds, 5) == []
    assert len(rounds.asked) <= 3


def test_a_channel_that_is_locked_is_looked_at_again_soon() -> None:
    rounds = Rounds(a={"x": 9})
    rounds.locked = {"a"}
    lanes = GovernedLanes()

    assert claim(lanes, rounds, 5) == []
    lanes.ended_with_nothing(None)
    assert lanes.wake_in == BESIDE_ANOTHER
    lanes.ended_with_nothing(timedelta(milliseconds=1))
    assert lanes.wake_in == timedelta(milliseconds=1)


def test_nothing_to_wait_for_is_no_wake_up() -> None:
    lanes = GovernedLanes()

    assert claim(lanes, Rounds(), 5) == []
    lanes.ended_with_nothing(None)
    assert lanes.wake_in is None


def test_bells_and_ripe_rates_are_routed() -> None:
    lanes = GovernedLanes()
    lanes.begin(1)

    for look, must in (
        (NOTHING, False),
        (NOTHING._replace(has_rung=True), True),
        (NOTHING._replace(wake_in=timedelta()), True),
        (NOTHING._replace(wake_in=timedelta(seconds=1)), False),
    ):
        lanes.looked(look)
        assert lanes.must_route is must

    lanes.routed(Routed(7, frozenset(), has_marked=False))
    assert lanes.bell == 7
    lanes.routed(None)  # another session is routing
    assert lanes.bell == 7
    lanes.ended_with_nothing(None)
    assert lanes.wake_in == BESIDE_ANOTHER


@pytest.mark.parametrize(
    ("routed", "must"),
    [
        (Routed(7, frozenset(), has_marked=True), True),
        (Routed(7, frozenset({"default"}), has_marked=False), False),
        (None, True),
    ],
    ids=["a lane", "a step of a flow", "by another worker"],
)
def test_channels_are_found_anew_where_a_lane_was_marked(routed: Routed | None, must: bool) -> None:
    lanes = GovernedLanes()
    lanes.begin(1)
    lanes.is_up_to_date(1)

    lanes.begin(1.001)
    lanes.looked(NOTHING._replace(has_rung=True))
    lanes.routed(routed)
    is_asked = lanes.must_find_channels
    lanes.begin(1.002)

    assert is_asked is must
    assert not lanes.must_find_channels


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    lanes=st.dictionaries(
        st.sampled_from("abc"),
        st.dictionaries(st.sampled_from("xyz"), st.integers(0, 9), max_size=3),
        max_size=3,
    ),
    limits=st.lists(st.integers(1, 8), min_size=1, max_size=5),
)
def test_claims_take_everything_once_and_no_more_than_their_limit(
    lanes: dict[str, dict[str, int]], limits: list[int]
) -> None:
    planner, rounds = GovernedLanes(), Rounds(**lanes)
    expected = {
        (channel, key): count
        for channel, each in lanes.items()
        for key, count in each.items()
        if count
    }
    taken: Counter[tuple[str, str]] = Counter()

    # Each limit, and then until nothing is left; an empty claim looks from the front again.
    for number in range(len(limits) + sum(expected.values()) + 2):
        limit = limits[number % len(limits)]
        claims = claim(planner, rounds, limit, now=number / 1000)
        assert len(claims) <= limit
        taken.update(claims)
        if not claims:
            planner.forget()

    assert taken == expected
