"""Deferrals that pause a channel or a lane: those of tasks that raise RateLimited."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from pgqueue import Channel as Operated
from pgqueue.engine import claim as claims
from pgqueue.engine import expire, route, settle
from pgqueue.engine.settle import Deferral, Pause
from pgqueue.engine.values import Claim
from pgqueue.models import Channel, Lane, Message, TaskPause
from tests.claims import FreeClaims, GovernedClaims
from tests.factories import LEASE, Connection, claim, enqueue
from tests.factories import run as start

DELAY = timedelta(minutes=5)
PAST, FAR = datetime(2001, 1, 1, tzinfo=UTC), datetime(2999, 1, 1, tzinfo=UTC)


def pause(connection: Connection, held: Claim, *, key: str | None = None) -> set[int]:
    pause = Pause(held.channel, key)
    return settle.defer(connection, [Deferral(held, DELAY, pauses=pause)])


def let_it_end() -> None:
    Lane.objects.filter(paused_until__isnull=False).update(paused_until=PAST, wake_at=PAST)


def keys(claimed: list[Claim]) -> list[str]:
    return sorted(each.key for each in claimed)


class TestOfAChannel:
    def test_holds_for_a_claim_that_begins_after_its_commit_and_for_no_earlier_one(
        self, connection: Connection, other: Connection
    ) -> None:
        first, second = start(connection, 2)
        enqueue(connection, 3)

        with connection.transaction():
            pause(connection, first)
            before = claim(other, limit=1)
        after = claim(other)

        assert (len(before), after) == (1, [])
        # A message that another session has claimed goes on.
        assert settle.defer(connection, [Deferral(second, DELAY)]) == {second.id}

    @pytest.mark.parametrize(
        ("before", "is_longer"),
        [
            ({"paused": False}, True),
            ({"paused": True}, False),
            ({"paused": True, "paused_until": FAR}, False),
            ({"paused": True, "paused_until": PAST}, True),
        ],
    )
    def test_makes_a_pause_longer_and_never_shorter(
        self, connection: Connection, before: dict[str, Any], is_longer: bool
    ) -> None:
        held = start(connection, 2)
        Channel.objects.create(name="default", handler="a.b", **before)

        pauses = [Deferral(each, DELAY, pauses=Pause(each.channel)) for each in held]
        settle.defer(connection, pauses)

        row = Channel.objects.get()
        assert (row.is_paused, row.handler) == (True, "a.b")
        assert (row.paused_until != before.get("paused_until")) == is_longer

    def test_is_none_while_its_message_is_locked_or_after_its_lease(
        self, connection: Connection, other: Connection
    ) -> None:
        (held,) = start(connection)

        with other.transaction():
            other.execute("SELECT FROM pgqueue_message WHERE id = %s FOR UPDATE", [held.id])
            locked = pause(connection, held)
        settle.release(connection, [held])
        late = pause(connection, held)

        assert (locked, late) == (set(), set())
        assert not Channel.objects.exists()

    def test_leaves_nothing_if_its_deferral_fails(self, connection: Connection) -> None:
        (held,) = start(connection)

        with pytest.raises(psycopg.DataError):
            deferral = Deferral(held, DELAY, "no JSON", pauses=Pause(held.channel))
            settle.defer(connection, [deferral])

        assert not Channel.objects.exists()


class TestOfAFreeLane:
    def test_holds_for_a_claim_that_begins_after_its_commit_and_for_no_earlier_one(
        self, connection: Connection, other: Connection
    ) -> None:
        (held,) = start(connection, key="a")
        enqueue(connection, 3, key="a")
        enqueue(connection, 1, key="b")

        with connection.transaction():
            pause(connection, held, key="a")
            before = claim(other, limit=1)
        after = claim(other)

        assert (keys(before), keys(after)) == (["a"], ["b"])

    def test_waits_for_no_claim_and_holds_for_known_lanes(
        self, connection: Connection, other: Connection
    ) -> None:
        (held,) = start(connection, key="a")
        enqueue(connection, 9, key="a")
        worker = FreeClaims(connection)

        with connection.transaction():
            in_flight = worker.claim(2)
            pause(other, held, key="a")
            later = worker.claim(2)

        assert (keys(in_flight), later) == (["a", "a"], [])

    def test_holds_for_messages_that_are_enqueued_later(self, connection: Connection) -> None:
        (held,) = start(connection, key="a")
        pause(connection, held, key="a")

        enqueue(connection, key="a")

        assert claim(connection) == []

    def test_is_seen_by_a_claim_at_once(self, connection: Connection) -> None:
        (held,) = start(connection, key="a")
        enqueue(connection, 1, key="a")
        pause(connection, held, key="a")
        given: dict[str, Any] = {"limit": 9, "worker_id": uuid4(), "lease": LEASE}

        while_paused = claims.claim_at_once(connection, "default", **given)
        let_it_end()

        assert while_paused == []
        assert keys(claims.claim_at_once(connection, "default", **given)) == ["a"]

    def test_is_over_at_its_end_and_leaves_no_lane(self, connection: Connection) -> None:
        (held,) = start(connection, key="a")
        enqueue(connection, 1, key="a")
        pause(connection, held, key="a")
        let_it_end()

        assert keys(claim(connection)) == ["a"]

        GovernedClaims(connection).claim(9)
        assert not Lane.objects.filter(paused_until__isnull=False).exists()
        Message.objects.all().delete()
        route.tidy(connection)
        assert not Lane.objects.exists()

    def test_wakes_a_worker_at_its_end(self, connection: Connection) -> None:
        (held,) = start(connection, key="a")
        pause(connection, held, key="a")
        worker = GovernedClaims(connection)

        worker.claim(9)

        assert worker.wake_in is not None
        assert DELAY / 2 < worker.wake_in <= DELAY

    def test_is_not_shortened_by_a_later_one(self, connection: Connection) -> None:
        first, second = start(connection, 2, key="a")
        pause(connection, first, key="a")
        ends = list(Lane.objects.values_list("paused_until", "wake_at"))

        shorter = Deferral(second, DELAY / 5, pauses=Pause("default", "a"))
        settle.defer(connection, [shorter])

        assert list(Lane.objects.values_list("paused_until", "wake_at")) == ends


@pytest.mark.parametrize("ordered", [False, True])
class TestOfAGovernedLane:
    @pytest.fixture
    def held(self, connection: Connection, ordered: bool) -> Claim:
        if not ordered:
            Operated("default").policy(max_running=5, each_key=True)
        enqueue(connection, 1, key="a", ordered=ordered)
        (held,) = GovernedClaims(connection).claim(9)
        enqueue(connection, 2, key="a", ordered=ordered)
        enqueue(connection, 1, key="b", ordered=ordered)
        return held

    def test_holds_until_its_end(self, connection: Connection, held: Claim) -> None:
        pause(connection, held, key="a")

        while_paused = GovernedClaims(connection).claim(9)
        let_it_end()
        Message.objects.filter(state="scheduled").update(state="ready", run_at=PAST)

        assert keys(while_paused) == ["b"]
        assert set(keys(GovernedClaims(connection).claim(9))) == {"a"}

    def test_holds_although_the_router_marks_the_lane(
        self, connection: Connection, held: Claim
    ) -> None:
        pause(connection, held, key="a")
        # As after a change of a policy.
        Lane.objects.filter(key="a").update(state="runnable", wake_at=None)

        assert keys(GovernedClaims(connection).claim(9)) == ["b"]

        lane = Lane.objects.get(key="a")
        assert (lane.state, lane.wake_at) == ("throttled", lane.paused_until)

    def test_waits_for_the_claim_in_flight_and_holds_for_the_next(
        self, connection: Connection, other: Connection, held: Claim, step: Any
    ) -> None:
        with connection.transaction():
            in_flight = GovernedClaims(connection).claim(9)
            pausing = step(pause, other, held, key="a")
            pausing.waits()
        pausing.result()
        enqueue(connection, 1, key="a", ordered=held.ordered)

        assert "b" in keys(in_flight)
        assert GovernedClaims(connection).claim(9) == []


@pytest.mark.parametrize("is_governed", [False, True])
class TestOfATask:
    @pytest.fixture
    def held(self, connection: Connection, is_governed: bool) -> Claim:
        if is_governed:
            Operated("default").policy(max_running=50)
        enqueue(connection, 1, task="a")
        (held,) = self.claim(connection, is_governed)
        enqueue(connection, 2, task="a")
        enqueue(connection, 1, task="b")
        return held

    def claim(self, connection: Connection, is_governed: bool, limit: int = 9) -> list[Claim]:
        return (GovernedClaims if is_governed else FreeClaims)(connection).claim(limit)

    def test_holds_for_a_claim_that_begins_after_its_commit_and_for_no_earlier_one(
        self, connection: Connection, other: Connection, held: Claim, is_governed: bool
    ) -> None:
        with connection.transaction():
            settle.defer(connection, [Deferral(held, DELAY, pauses=Pause(task="a"))])
            before = self.claim(other, is_governed, 1)
        after = self.claim(other, is_governed)

        assert [each.task for each in before] == ["a"]
        assert [each.task for each in after] == ["b"]

    def test_is_over_at_its_end_and_removed_by_the_duty(
        self, connection: Connection, held: Claim, is_governed: bool
    ) -> None:
        settle.defer(connection, [Deferral(held, DELAY, pauses=Pause(task="a"))])
        TaskPause.objects.update(until=PAST)
        TaskPause.objects.create(task="c", until=FAR)

        claimed = self.claim(connection, is_governed)

        assert sorted(each.task for each in claimed) == ["a", "a", "b"]
        assert expire.resume(connection) == 1
        assert TaskPause.objects.get().task == "c"

    def test_is_not_shortened_by_a_later_one(
        self, connection: Connection, held: Claim, is_governed: bool
    ) -> None:
        TaskPause.objects.create(task="a", until=FAR)

        settle.defer(connection, [Deferral(held, DELAY, pauses=Pause(task="a"))])

        assert TaskPause.objects.get().until == FAR
