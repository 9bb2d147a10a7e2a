"""The planner of free lanes against a small model of the lanes in memory, without a database."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, NamedTuple
from unittest.mock import patch
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgqueue.claiming.free_lanes import EXPENSIVE, LOOK_AGAIN_COST_WHEN_IDLE, ClaimLanes
from pgqueue.engine.claim import Answer, Known, Met, Search
from tests.claims import PlannedClaims

Lane = tuple[str, str]

EPOCH = datetime(2025, 1, 1, tzinfo=UTC)

thorough = settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


class Message(NamedTuple):
    """Ordered as its lane is."""

    rank: int
    run_at: datetime
    id: int
    channel: str
    key: str

    @property
    def priority(self) -> int:
        return -self.rank


class Backlog:
    """What the claim statement would do to the lanes, and a check of all it is asked for."""

    def __init__(self) -> None:
        self.lanes: dict[Lane, list[Message]] = {}
        self.locked: set[int] = set()
        self.now = 1000.0
        self.asked = 0
        self.deep: set[Lane] = set()
        self.look_costs = 0.0
        self.looked = 0
        self._ids = 0

    def monotonic(self) -> float:
        return self.now

    def add(
        self,
        channel: str,
        key: str,
        *,
        rank: int = 0,
        minute: int = 0,
        seconds: float = 0,
        zone: tzinfo = UTC,
    ) -> None:
        self._ids += 1
        moment = (EPOCH + timedelta(minutes=minute, seconds=seconds)).astimezone(zone)
        insort(
            self.lanes.setdefault((channel, key), []),
            Message(rank, moment, self._ids, channel, key),
        )

    def add_deep(self, channel: str, key: str) -> None:
        """Add a lane that is never used up, nor longer than it must be."""
        self.deep.add((channel, key))
        for _ in range(15):
            self.add(channel, key)

    def steal(self, lane: Lane) -> None:
        """Let another worker take the head of a lane."""
        if self.lanes.get(lane):
            self.lanes[lane].pop(0)

    def befall(self, event: str, *details: Any) -> None:
        """Let something happen that is no doing of the worker's."""
        match event, details:
            case "add", [lane, rank, minute]:
                self.add(*lane, rank=rank, minute=minute)
            case "wait", [seconds]:
                self.now += seconds
            case "steal", [lane]:
                self.steal(lane)
            case "lock", [lane]:
                self.locked.update(each.id for each in self.lanes.get(lane, [])[::2])
            case "unlock", []:
                self.locked.clear()
            case _:
                raise AssertionError(f"nothing is known as {event}{details}")

    def channels(self) -> list[str]:
        self.looked += 1
        self.now += self.look_costs
        return sorted({channel for (channel, _), waiting in self.lanes.items() if waiting})

    def free(self) -> list[Message]:
        """Return what could be claimed."""
        return [each for lane in self.lanes.values() for each in lane if each.id not in self.locked]

    def take(self, request: ClaimLanes) -> Answer:
        known, searched, limit = request
        self.asked += 1
        self._check(known, searched, limit)
        due = [each for lane in known for each in self._after(lane)]
        met = {}
        for search in searched:
            keys = self._keys(search)
            if keys:
                met[search.channel] = Met(len(keys), keys[-1])
            for key in keys:
                due += self._heads((search.channel, key))[: max(1, search.share // len(keys))]
        claimed = sorted(due[:limit])
        for each in claimed:
            self.lanes[each.channel, each.key].remove(each)
            if (each.channel, each.key) in self.deep:
                self.add(each.channel, each.key)
        return Answer(list(claimed), met)  # type: ignore[arg-type]

    def _check(self, known: Sequence[Known], searched: Sequence[Search], limit: int) -> None:
        assert known or searched
        assert all(lane.quota >= 1 for lane in known)
        assert all(search.room >= 1 and search.share >= 1 for search in searched)
        assert sum(lane.quota for lane in known) + sum(each.share for each in searched) <= limit
        lanes = [(lane.channel, lane.key) for lane in known]
        assert len(lanes) == len(set(lanes))
        names = [search.channel for search in searched]
        assert len(names) == len(set(names))
        assert not set(names) & {lane.channel for lane in known}, "one lane might be asked twice"

    def _after(self, lane: Known) -> list[Message]:
        mark = (lane.rank, lane.run_at.astimezone(UTC), lane.id)  # as the database has it
        heads = self._heads((lane.channel, lane.key))
        return [each for each in heads if each[:3] > mark][: lane.quota]

    def _heads(self, lane: Lane) -> list[Message]:
        return [each for each in self.lanes.get(lane, []) if each.id not in self.locked]

    def _keys(self, search: Search) -> list[str]:
        keys = sorted(key for (name, key), waiting in self.lanes.items()
                      if waiting and name == search.channel)  # fmt: skip
        return [key for key in keys if search.after is None or key > search.after][: search.room]


def planned(model: Backlog) -> PlannedClaims:
    return PlannedClaims(model.channels, model.take, model.monotonic)


channels = st.sampled_from("abc")
keys = st.sampled_from(["", "k", "l", "m", "n"])
lanes = st.tuples(channels, keys)
limits = st.integers(1, 12)

events = st.lists(
    st.one_of(
        st.tuples(st.just("add"), lanes, st.integers(-2, 2), st.integers(0, 3)),
        st.tuples(st.just("claim"), limits),
        st.tuples(st.just("wait"), st.sampled_from([0.0, 0.01, 0.3, 5.0])),
        st.tuples(st.just("steal"), lanes),
        st.tuples(st.just("lock"), lanes),
        st.tuples(st.just("unlock")),
        st.tuples(st.just("reconnect")),
    ),
    max_size=60,
)


@thorough
@given(backlog=st.lists(st.tuples(lanes, st.integers(1, 8)), max_size=12), events=events)
def test_no_claims_means_that_nothing_is_there(
    backlog: list[tuple[Lane, int]], events: list[tuple[Any, ...]]
) -> None:
    model = Backlog()
    for lane, depth in backlog:
        for _ in range(depth):
            model.add(*lane)
    worker = planned(model)
    taken: Counter[int] = Counter()

    for event, *details in [*events, ("unlock",), *[("claim", 5)] * 30]:
        match event, details:
            case "reconnect", []:
                worker.forget()
            case "claim", [limit]:
                free, before = model.free(), model.asked
                claims = worker.claim(limit)
                taken.update(each.id for each in claims)
                assert len(claims) <= limit
                assert claims or not free, f"{len(free)} are free"
                # Each statement passes one lane at least, and each front is seen twice.
                assert model.asked - before <= 2 * (len(model.lanes) + 3) + 2
            case _:
                model.befall(event, *details)

    assert not taken or set(taken.values()) == {1}


@thorough
@given(events=events, look_costs=st.sampled_from([0.001, 0.05, 0.3, 7.0]), limit=limits)
def test_a_planner_that_spares_a_look_says_when_it_is_time(
    events: list[tuple[Any, ...]], look_costs: float, limit: int
) -> None:
    model = Backlog()
    model.look_costs = look_costs
    worker = planned(model)
    taken: Counter[int] = Counter()

    def claim(limit: int) -> bool:
        """Claim; say whether it was with success, or else everything was seen."""
        free = model.free()
        claims = worker.claim(limit, thoroughly=False)
        taken.update(each.id for each in claims)
        assert claims or not free or worker.wake_in is not None, f"{len(free)} are free"
        if claims or worker.wake_in is None:
            return True
        assert look_costs >= EXPENSIVE
        # A claim that finds the marks of nothing looks twice.
        assert worker.wake_in <= timedelta(
            seconds=min(LOOK_AGAIN_COST_WHEN_IDLE * 2.1 * look_costs, 10)
        )
        return False

    for event, *details in [*events, ("unlock",)]:
        match event, details:
            case "reconnect", []:
                worker.forget()
            case "claim", [limit]:
                claim(limit)
            case _:
                model.befall(event, *details)
    while model.free():
        if not claim(limit):
            model.now += seconds_until_it_is_time(worker)
            assert claim(limit), "it was time, and it did not look"

    assert not taken or set(taken.values()) == {1}


def seconds_until_it_is_time(worker: PlannedClaims) -> float:
    assert worker.wake_in is not None
    return worker.wake_in.total_seconds() + 0.001


class TestWhereALookIsExpensive:
    @pytest.fixture
    def model(self) -> Backlog:
        model = Backlog()
        model.look_costs = 0.1
        return model

    @pytest.fixture
    def worker(self, model: Backlog) -> PlannedClaims:
        """Return one that has emptied two lanes."""
        worker = planned(model)
        model.add("a", "")
        model.add("a", "k")
        while worker.claim(10, thoroughly=False):
            model.now += 0.01
        assert model.looked
        model.looked = 0
        return worker

    def test_what_comes_behind_the_mark_of_a_lane_is_found_without_one(
        self, model: Backlog, worker: PlannedClaims
    ) -> None:
        found = []
        for minute in range(1, 6):
            model.add("a", "", minute=minute)
            model.add("a", "k", minute=minute)
            found.append(len(worker.claim(10, thoroughly=False)))

        assert (found, model.looked) == ([2] * 5, 0)

    def test_what_committed_late_is_found_without_one(
        self, model: Backlog, worker: PlannedClaims
    ) -> None:
        model.add("a", "", seconds=-0.9)

        for _ in range(3):
            assert worker.claim(10, thoroughly=False) or model.looked
            model.add("a", "", seconds=-0.9)

        assert model.looked == 0

    def test_what_comes_elsewhere_is_found_when_it_is_time(
        self, model: Backlog, worker: PlannedClaims
    ) -> None:
        model.add("b", "")
        model.add("a", "", rank=-5)

        assert worker.claim(10, thoroughly=False) == []
        model.now += seconds_until_it_is_time(worker)
        assert len(worker.claim(10, thoroughly=False)) == 2
        assert model.looked == 1

    def test_a_mark_may_be_as_early_as_time_goes(
        self, model: Backlog, worker: PlannedClaims
    ) -> None:
        model.now += 10
        beginning = (datetime.min.replace(tzinfo=UTC) - EPOCH) // timedelta(minutes=1)

        for _ in range(2):
            model.add("a", "", minute=beginning)
            assert worker.claim(10, thoroughly=False)
            assert not worker.claim(10, thoroughly=False)

    def test_a_mark_of_the_second_after_the_clock_was_changed_is_no_hour_ahead(
        self, model: Backlog, worker: PlannedClaims
    ) -> None:
        # Behind a pooler times are in the session's zone.
        berlin = ZoneInfo("Europe/Berlin")
        summer = (datetime(2025, 3, 30, 1, tzinfo=UTC) - EPOCH) // timedelta(minutes=1)

        model.add("a", "", minute=summer, zone=berlin)
        assert worker.claim(10, thoroughly=False)
        assert not worker.claim(10, thoroughly=False)
        model.add("a", "", minute=summer + 1, zone=berlin)

        assert worker.claim(10, thoroughly=False)
        assert model.looked == 0

    def test_marks_stay_where_they_are_while_nothing_comes(
        self, model: Backlog, worker: PlannedClaims
    ) -> None:
        before = dict(worker.lanes._resting)

        for _ in range(3):
            assert not worker.claim(10, thoroughly=False)

        assert worker.lanes._resting == before
        assert model.looked == 0

    def test_while_looks_find_much_they_go_on(self, model: Backlog, worker: PlannedClaims) -> None:
        model.now += 10
        for number in range(30):
            model.add("b", f"{number}")

        assert [len(worker.claim(10, thoroughly=False)) for _ in range(3)] == [10] * 3
        model.add("c", "")
        assert worker.claim(10, thoroughly=False)

    def test_those_who_want_to_know_look_all_the_same(
        self, model: Backlog, worker: PlannedClaims
    ) -> None:
        model.add("b", "")

        assert len(worker.claim(10)) == 1

    def test_lanes_take_turns_though_a_claim_has_no_room_for_all(
        self, model: Backlog, worker: PlannedClaims
    ) -> None:
        for key in ("", "k"):
            model.add_deep("a", key)

        keys = [worker.claim(1, thoroughly=False)[0].key for _ in range(4)]

        assert sorted(keys) == ["", "", "k", "k"]
        assert model.looked == 0

    def test_so_many_lanes_are_kept_in_mind_and_no_more(
        self, model: Backlog, worker: PlannedClaims
    ) -> None:
        with patch("pgqueue.claiming.free_lanes.RESTING", 3):
            for number in range(10):
                model.add("a", f"{number}")
                model.now += 10
                while worker.claim(10, thoroughly=False):
                    model.now += 0.01

        assert list(worker.lanes._resting) == [("a", "7"), ("a", "8"), ("a", "9")]

    def test_a_planner_spares_none_on_a_new_connection(
        self, model: Backlog, worker: PlannedClaims
    ) -> None:
        model.add("b", "")
        worker.forget()

        assert len(worker.claim(10, thoroughly=False)) == 1


@thorough
@given(
    lanes=st.sets(lanes, min_size=1, max_size=15),
    shallow=st.sets(lanes, max_size=5),
    limits=st.lists(limits, min_size=1, max_size=4),
    steps=st.lists(st.sampled_from([0.0, 0.01, 0.1, 0.3, 3.0]), min_size=1, max_size=7),
)
def test_every_lane_has_its_turn_however_deep_the_others_are(
    lanes: set[Lane], shallow: set[Lane], limits: list[int], steps: list[float]
) -> None:
    model = Backlog()
    for lane in lanes:
        model.add_deep(*lane)
    worker = planned(model)
    waited = dict.fromkeys(lanes, 0)
    names = {channel for channel, _ in lanes}
    most = max(sum(channel == name for channel, _ in lanes) for name in names)
    # A round over the channels for each lane of the one that has most, and one for its end.
    patience = 2 * (len(names) * (most + 1) // min(*limits, len(names)) + 2)

    for turn in range(60):
        claims = worker.claim(limits[turn % len(limits)])
        for lane in shallow - lanes:
            model.add(*lane)
        model.now += steps[turn % len(steps)]
        served = {(each.channel, each.key) for each in claims}
        waited = {lane: 0 if lane in served else waited[lane] + 1 for lane in lanes}
        assert claims
        assert max(waited.values()) <= patience, "a lane starves"


def test_channels_that_were_served_long_ago_are_forgotten() -> None:
    model = Backlog()
    worker = planned(model)

    with patch("pgqueue.claiming.free_lanes.REMEMBERED", 3):
        for number in range(10):
            model.add(f"channel {number}", "")
            model.now += 1
            assert worker.claim(5)

    assert list(worker.lanes._served) == ["channel 7", "channel 8", "channel 9"]
