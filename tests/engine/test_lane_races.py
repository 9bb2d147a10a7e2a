"""Governed lanes at the critical moment, stepped by hand as in `test_races`.

Most are about bells: not rung, since the producer had not seen the policy; heard while a
claim decides otherwise; or rung for a lane that is just being removed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from psycopg import ClientCursor, Error

from pgqueue.claiming.governed_lanes import BESIDE_ANOTHER
from pgqueue.engine import cancel, dead, expire, held, lease, promote, route, settle
from pgqueue.engine import claim_governed as engine
from pgqueue.engine.cancel import CancelledIds
from pgqueue.engine.settle import Deferral
from pgqueue.engine.values import Claim, Lease
from pgqueue.models import Bell, Channel, History, Lane, Message, Policy
from pgqueue.states import Outcome, State
from tests.claims import GovernedClaims
from tests.eventually import eventually
from tests.factories import (
    LEASE,
    OVER,
    Connection,
    claim,
    done,
    enqueue,
    failure,
    hold,
    insert,
    limit,
    make_due,
    one,
    schedule,
    store,
)
from tests.stepping import Step

Stepping = Callable[..., Step]
Verb = Callable[[Connection], Any]

KEY = "k"
DELAY = timedelta(minutes=5)


def ids(claims: Sequence[Claim]) -> list[int]:
    return [each.id for each in claims]


def states() -> dict[int, str]:
    return dict(Message.objects.values_list("id", "state"))


def outcomes() -> dict[int, str]:
    return dict(History.objects.values_list("id", "outcome"))


def mark(connection: Connection) -> int | None:
    """Mark the lanes of all bells, as the next claim does first."""
    routed = route.route(connection, after=0)
    return None if routed is None else routed.after


def take(
    connection: Connection, channel: str = "default", *, most: int = 100, lease: timedelta = LEASE
) -> list[Claim]:
    """Claim once from the lanes that are marked."""
    return engine.claim(
        connection,
        channel,
        after=engine.EVERY_TURN,
        limit=most,
        worker_id=uuid4(),
        lease=lease,
    ).claims


def mark_and_take(connection: Connection, *, lease: timedelta = LEASE) -> list[Claim]:
    """Claim as a worker does that looks from the front."""
    mark(connection)
    return take(connection, lease=lease)


def lanes(connection: Connection) -> dict[str, str]:
    """Return the state of each lane, by its key."""
    return dict(connection.execute("SELECT key, state FROM pgqueue_lane").fetchall())


def start(connection: Connection, count: int = 1, **changed: Any) -> list[Claim]:
    """Run messages of a governed lane."""
    lease = changed.pop("lease", LEASE)
    stored = enqueue(connection, count, **{"key": KEY, **changed})
    claims = mark_and_take(connection, lease=lease)
    assert ids(claims) == stored, "others were ready in the channel's lanes"
    return claims


def complete(connection: Connection, claims: Sequence[Claim]) -> set[int]:
    return settle.complete(connection, [done(each) for each in claims])


class Between:
    """A connection that does something else just before it runs a statement."""

    def __init__(self, connection: Connection, statement: str, verb: Callable[[], Any]) -> None:
        self._connection = connection
        self._statement = statement
        self._verb = verb

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, query: str, *parameters: Any) -> Any:
        if query == self._statement:
            self._verb()
        return self._connection.execute(query, *parameters)


class Amid(Between):
    """A connection that does so once the statement sees what it will see, and has no row yet.

    A cursor takes its snapshot when it is declared, and locks each row as it is fetched.
    """

    def execute(self, query: str, *parameters: Any) -> Any:
        if query != self._statement:
            return self._connection.execute(query, *parameters)
        asked = ClientCursor(self._connection).mogrify(query, *parameters)
        self._connection.execute(f"DECLARE begun CURSOR FOR {asked}")
        self._verb()
        return self._connection.execute("FETCH ALL FROM begun")


class Ways:
    """How messages become ready: each prepares some, and returns their ids with the verb."""

    def __init__(self, connection: Connection, key: str, **columns: Any) -> None:
        self._connection = connection
        self._columns = {"key": key, **columns}

    def _reserved(self, count: int) -> tuple[list[int], Verb]:
        (reserved,) = one(
            self._connection,
            "SELECT array_agg(nextval('pgqueue_message_id_seq')) FROM generate_series(1, %s)",
            count,
        )
        columns = {"payloads": ["{}"] * count, **self._columns}
        return reserved, lambda session: store(session, ids=reserved, **columns)

    def _leased(self, until: str) -> Lease:
        worker_id = uuid4()
        id = insert(
            self._connection,
            state="running",
            attempt=1,
            worker_id=worker_id,
            claimed_at="2020-01-01",
            lease_until=until,
            **self._columns,
        )
        return Lease(id, 1, worker_id)

    def by_enqueueing(self) -> tuple[list[int], Verb]:
        return self._reserved(1)

    def by_enqueueing_many(self) -> tuple[list[int], Verb]:
        return self._reserved(3)

    def by_promotion(self) -> tuple[list[int], Verb]:
        delayed = schedule(self._connection, **self._columns)
        make_due(self._connection, delayed)
        return delayed, promote.promote

    def by_running_now(self) -> tuple[list[int], Verb]:
        delayed = schedule(self._connection, **self._columns)
        return delayed, lambda session: promote.run_now(session, delayed)

    def by_commit(self) -> tuple[list[int], Verb]:
        waiting = hold(self._connection, **self._columns)
        return waiting, lambda session: held.commit(session, waiting)

    def by_replay(self) -> tuple[list[int], Verb]:
        buried = [insert(self._connection, state="dead", **self._columns)]
        return buried, lambda session: dead.replay(session, buried)

    def by_retry(self) -> tuple[list[int], Verb]:
        running = self._leased("9999-01-01")
        return [running.id], lambda session: settle.retry(session, [failure(running)])

    def by_release(self) -> tuple[list[int], Verb]:
        running = self._leased("9999-01-01")
        return [running.id], lambda session: settle.release(session, [running])

    def by_rescue(self) -> tuple[list[int], Verb]:
        running = self._leased("2020-01-01")
        return [running.id], lambda session: lease.rescue(session, max_lost=3)


every_way_to_be_ready = pytest.mark.parametrize(
    "way", [name for name in vars(Ways) if name.startswith("by_")]
)
every_policy = pytest.mark.parametrize(
    "policy",
    [
        {"scope": "channel", "max_running": 1},
        {"scope": "each", "max_running": 1},
        {"scope": "key", "key": KEY, "max_running": 1},
        {"scope": "key", "key": "another", "weight": 2},
    ],
    ids=["of the channel", "of each key", "of its key", "of weights"],
)
every_way_to_make_room = pytest.mark.parametrize(
    "free",
    [
        lambda session, run: settle.complete(session, [done(run)]),
        lambda session, run: settle.retry(session, [failure(run, delay=DELAY)]),
        lambda session, run: settle.bury(session, [failure(run)]),
        lambda session, run: settle.defer(session, [Deferral(run, DELAY)]),
        lambda session, run: settle.release(session, [run]),
        lambda session, run: lease.rescue(session, max_lost=1),
    ],
    ids=["complete", "retry", "bury", "defer", "release", "rescue"],
)


class TestAPolicySavedMeanwhile:
    @every_policy
    @every_way_to_be_ready
    def test_governs_what_was_open_when_it_was_saved(
        self,
        connection: Connection,
        other: Connection,
        way: str,
        policy: dict[str, Any],
    ) -> None:
        becoming, verb = getattr(Ways(connection, KEY), way)()

        with connection.transaction():
            verb(connection)
            limit(**policy)
            mark(other)

        assert claim(other) == []
        assert route.adopt(other) == len(becoming)
        claims = mark_and_take(other)
        assert ids(claims) == becoming[: policy.get("max_running", 100)]

    def test_counts_what_was_claimed_before_it(
        self, connection: Connection, other: Connection
    ) -> None:
        first, second = enqueue(connection, 2, key=KEY)

        with connection.transaction():
            (running,) = claim(connection, limit=1)
            limit(max_running=1)
        route.adopt(other)
        meanwhile = mark_and_take(other)
        complete(connection, [running])

        assert (running.id, meanwhile) == (first, [])
        assert ids(mark_and_take(other)) == [second]

    def test_and_removed_again_leaves_nothing_behind(
        self, connection: Connection, other: Connection
    ) -> None:
        limit(max_running=1)

        with connection.transaction():
            becoming = enqueue(connection, 2, key=KEY)
            Policy.objects.all().delete()
            mark(other)

        # They still say that they are governed; their bell has rung.
        assert ids(mark_and_take(other)) == becoming

    @pytest.mark.parametrize(
        "before", [{"max_running": 1}, {"rate": 1, "per": timedelta(hours=1)}], ids=str
    )
    def test_wins_over_a_claim_that_obeyed_the_one_before(
        self,
        connection: Connection,
        other: Connection,
        third: Connection,
        step: Stepping,
        before: dict[str, Any],
    ) -> None:
        limit(**before)
        first, second = enqueue(connection, 2, key=KEY)
        mark(connection)

        with connection.transaction():
            taken = take(connection)
            Policy.objects.all().delete()
            marking = step(mark, other)
            marking.waits()
        marking.result()

        assert (ids(taken), lanes(other)) == ([first], {KEY: "runnable"})
        assert ids(take(other)) == [second]

    @pytest.mark.parametrize("scope", ["channel", "each"])
    def test_makes_no_claim_wait_before_its_commit(
        self, connection: Connection, other: Connection, scope: str
    ) -> None:
        limit(scope=scope, max_running=1)
        enqueue(connection, 3, key=KEY)

        with connection.transaction():
            connection.execute("UPDATE pgqueue_policy SET max_running = 3")
            before = mark_and_take(other)
        after = mark_and_take(other)

        assert (len(before), len(after)) == (1, 2)

    def test_that_a_settle_has_not_seen_is_made_good_by_claims(
        self, connection: Connection, other: Connection
    ) -> None:
        # The only bell that is not rung: it would take a lock to see the policy in time. So a lane
        # is not called saturated while something runs there that was claimed without one.
        enqueue(connection, 2, key=KEY)
        (running,) = claim(connection, limit=1)

        with connection.transaction():
            complete(connection, [running])
            limit(max_running=1)
            route.adopt(other)
            assert mark_and_take(other) == []

        assert len(take(other)) == 1

    @every_way_to_make_room
    def test_in_the_place_of_one_that_was_removed_hears_of_what_ran_under_that(
        self,
        connection: Connection,
        other: Connection,
        free: Callable[[Connection, Claim], Any],
    ) -> None:
        # A claim counts it as governed, and calls its lane saturated; its end sees no policy.
        limit(max_running=1)
        (running,) = start(connection, lease=OVER)
        (waiting,) = enqueue(connection, key=KEY, priority=1)
        Policy.objects.all().delete()

        with connection.transaction():
            free(connection, running)
            limit(max_running=1)
            meanwhile = mark_and_take(other)

        assert meanwhile == []
        assert ids(mark_and_take(other)) == [waiting]


class TestABellBesideAClaim:
    """The claim has seen what was there, and is about to commit what it made of it."""

    @every_way_to_be_ready
    def test_that_finds_nothing_more_is_answered_after_it(
        self,
        connection: Connection,
        other: Connection,
        third: Connection,
        step: Stepping,
        way: str,
    ) -> None:
        limit(max_running=100)
        enqueue(connection, key=KEY)
        mark(connection)
        becoming, verb = getattr(Ways(connection, KEY), way)()

        with connection.transaction():
            taken = take(connection)
            idle = lanes(connection)
            verb(third)
            marking = step(mark, other)
            marking.waits()
        marking.result()

        assert (len(taken), idle, lanes(other)) == (1, {KEY: "idle"}, {KEY: "runnable"})
        assert ids(take(other)) == becoming

    @every_way_to_make_room
    def test_that_finds_no_room_is_answered_after_it(
        self,
        connection: Connection,
        other: Connection,
        third: Connection,
        step: Stepping,
        free: Callable[[Connection, Claim], Any],
    ) -> None:
        limit(max_running=1)
        (running,) = start(connection, lease=OVER)
        (waiting,) = enqueue(connection, key=KEY, priority=1)
        mark(connection)

        with connection.transaction():
            taken = take(connection)
            saturated = lanes(connection)
            free(third, running)
            marking = step(mark, other)
            marking.waits()
        marking.result()

        assert (taken, saturated, lanes(other)) == ([], {KEY: "saturated"}, {KEY: "runnable"})
        assert ids(take(other)) == [waiting]

    def test_of_a_cancelled_run_is_answered_after_it(
        self, connection: Connection, other: Connection, third: Connection, step: Stepping
    ) -> None:
        limit(max_running=1)
        (running,) = start(connection)
        (waiting,) = enqueue(connection, key=KEY)
        cancel.cancel(third, [running.id])
        mark(connection)

        with connection.transaction():
            take(connection)
            settle.retry(third, [failure(running)])
            marking = step(mark, other)
            marking.waits()
        marking.result()

        assert outcomes() == {running.id: Outcome.CANCELLED}
        assert ids(take(other)) == [waiting]

    def test_that_is_rolled_back_is_answered_all_the_same(
        self, connection: Connection, other: Connection, step: Stepping
    ) -> None:
        limit(max_running=1)
        first, _ = enqueue(connection, 2, key=KEY)
        mark(connection)
        enqueue(connection, key=KEY)

        with connection.transaction(force_rollback=True):
            undone = take(connection)
            marking = step(mark, other)
            marking.waits()
        marking.result()

        assert ids(undone) == ids(take(other)) == [first]

    def test_that_is_over_costs_nothing(self, connection: Connection, other: Connection) -> None:
        # The claim took what the bell rang for; no claim had heard it yet.
        limit(max_running=100)
        enqueue(connection, key=KEY)
        mark(connection)
        enqueue(connection, key=KEY)

        taken = take(connection)
        again = mark_and_take(other)

        assert (len(taken), again, lanes(other)) == (2, [], {KEY: "idle"})


class TestClaimBesideClaim:
    def test_the_second_passes_over_the_lanes_of_the_first(
        self, connection: Connection, other: Connection
    ) -> None:
        limit(max_running=2)
        for key in ("a", "b"):
            enqueue(connection, 3, key=key)
        mark(connection)

        with connection.transaction():
            first = take(connection, most=1)
            second = take(other)
            nothing = take(other)

        assert [each.key for each in first + second] == ["a", "b", "b"]
        assert nothing == []

    @pytest.mark.parametrize("scope", ["channel", "each"])
    def test_both_together_never_exceed_the_limit(
        self, connection: Connection, other: Connection, scope: str
    ) -> None:
        limit(scope=scope, max_running=3)
        enqueue(connection, 9, key=KEY)
        mark(connection)

        with connection.transaction():
            first = take(connection, most=2)
            meanwhile = take(other)
        second = take(other)

        assert (len(first), len(meanwhile), len(second)) == (2, 0, 1)
        assert mark_and_take(connection) == []

    @pytest.mark.parametrize("scope", ["channel", "each"])
    def test_what_the_first_gives_up_is_there_for_the_second(
        self, connection: Connection, other: Connection, scope: str
    ) -> None:
        limit(scope=scope, max_running=1)
        enqueue(connection, 2, key=KEY)
        mark(connection)

        with connection.transaction(force_rollback=True):
            first = take(connection)
            meanwhile = take(other)
        second = take(other)

        assert (ids(first), meanwhile) == (ids(second), [])

    def test_a_gate_that_another_has_locked_is_passed_over_and_only_that(
        self, connection: Connection, other: Connection
    ) -> None:
        for channel in ("a", "b"):
            limit(channel, scope="channel", max_running=100)
            for key in ("k", "l"):
                enqueue(connection, channel=channel, key=key)
        mark(connection)

        with connection.transaction():
            first = take(connection, "a", most=1)
            of_a = take(other, "a")
            of_b = take(other, "b")

        assert (len(first), len(of_a), len(of_b)) == (1, 0, 2)
        assert len(take(other, "a")) == 1

    @pytest.mark.parametrize("scope", ["channel", "each"])
    def test_the_second_looks_again_soon_since_the_first_does_not_tell_what_it_leaves(
        self, connection: Connection, other: Connection, scope: str
    ) -> None:
        limit(scope=scope, max_running=9)
        enqueue(connection, 9, key=KEY)
        mark(connection)
        second = GovernedClaims(other)

        with connection.transaction():
            first = take(connection, most=2)
            meanwhile = second.claim(9)
            again_in = second.wake_in

        assert (len(first), meanwhile, again_in) == (2, [], BESIDE_ANOTHER)
        assert len(second.claim(9)) == 7

    def test_the_second_does_so_though_it_found_a_lane_that_none_had(
        self, connection: Connection, other: Connection
    ) -> None:
        limit(max_running=9)
        enqueue(connection, 9, key="a")
        (gone,) = enqueue(connection, key="b")
        mark(connection)
        cancel.cancel(connection, [gone])
        second = GovernedClaims(other)

        with connection.transaction():
            first = take(connection, most=1)
            meanwhile = second.claim(9)
            again_in = second.wake_in

        assert ([each.key for each in first], meanwhile, again_in) == (["a"], [], BESIDE_ANOTHER)
        assert len(second.claim(9)) == 8

    @pytest.mark.parametrize("scope", ["channel", "each"])
    def test_one_that_comes_after_another_used_up_a_rate_knows_until_when(
        self, connection: Connection, other: Connection, scope: str
    ) -> None:
        limit(scope=scope, rate=1, per=timedelta(hours=1))
        enqueue(connection, 2, key=KEY)
        mark(connection)
        late: Any = Between(other, engine.SQL["gate"], lambda: take(connection))
        worker = GovernedClaims(late)

        claims = worker.claim(9)

        assert claims == []
        assert worker.wake_in is not None

    def test_one_that_finds_the_policy_gone_behind_its_gate_looks_again_soon(
        self, connection: Connection
    ) -> None:
        limit(scope="channel", max_running=1)
        enqueue(connection, 2, key=KEY)
        removed: Any = Between(
            connection, engine.SQL["room"], lambda: Policy.objects.all().delete()
        )
        worker = GovernedClaims(removed)

        meanwhile = worker.claim(9)

        assert (meanwhile, worker.wake_in) == ([], BESIDE_ANOTHER)
        assert len(worker.claim(9)) == 2

    @pytest.mark.parametrize("scope", ["channel", "each"])
    def test_the_second_does_not_where_there_is_no_room(
        self, connection: Connection, other: Connection, scope: str
    ) -> None:
        limit(scope=scope, max_running=1)
        enqueue(connection, 2, key=KEY)
        mark_and_take(connection)
        second = GovernedClaims(other)

        assert (second.claim(9), second.wake_in) == ([], None)

    @pytest.mark.parametrize(
        ("scope", "statement"), [("each", "claim"), ("channel", "room")], ids=["lane", "gate"]
    )
    def test_what_ends_after_its_lock_is_counted_as_ended(
        self, connection: Connection, other: Connection, scope: str, statement: str
    ) -> None:
        # Lock, then look: who waits for the lock, or comes just then, must not count what was.
        limit(scope=scope, max_running=1)
        (running,) = start(connection)
        (waiting,) = enqueue(connection, key=KEY)
        mark(connection)
        stepped: Any = Between(
            connection, engine.SQL[statement], lambda: complete(other, [running])
        )

        claims = take(stepped)

        assert ids(claims) == [waiting]

    @pytest.mark.parametrize(
        ("scope", "statement"), [("each", "lanes"), ("channel", "gate")], ids=["lane", "gate"]
    )
    def test_what_another_started_while_its_lock_was_on_the_way_is_counted(
        self, connection: Connection, other: Connection, scope: str, statement: str
    ) -> None:
        # The lock is free again, and the lane still runnable: all that the statement itself can see
        # is from before.
        limit(scope=scope, max_running=3)
        enqueue(connection, 9, key=KEY)
        mark(connection)
        meanwhile: list[Claim] = []
        stepped: Any = Amid(
            connection, engine.SQL[statement], lambda: meanwhile.extend(take(other, most=2))
        )

        claims = take(stepped)

        assert (len(meanwhile), len(claims)) == (2, 1)
        assert mark_and_take(other) == []

    @pytest.mark.parametrize(
        ("scope", "statement"), [("each", "claim"), ("channel", "room")], ids=["lane", "gate"]
    )
    def test_no_other_comes_between_its_lock_and_its_look(
        self, connection: Connection, other: Connection, scope: str, statement: str
    ) -> None:
        limit(scope=scope, max_running=1)
        enqueue(connection, 2, key=KEY)
        mark(connection)
        between: list[Claim] = []
        stepped: Any = Between(
            connection, engine.SQL[statement], lambda: between.extend(take(other))
        )

        claims = take(stepped)

        assert (len(claims), between) == (1, [])

    def test_a_channel_that_was_paused_since_it_was_found_is_left_alone(
        self, connection: Connection
    ) -> None:
        limit(max_running=1)
        enqueue(connection, key=KEY)
        mark(connection)
        found = route.channels(connection, excluded=[])

        # Another worker may have taken the bell of that.
        Channel.objects.create(name="default", paused=True)

        assert (found, take(connection)) == (["default"], [])


class TestClaimBesideCancel:
    def test_it_passes_over_what_is_being_cancelled_and_the_lane_stays_awake(
        self, connection: Connection, other: Connection
    ) -> None:
        limit(max_running=100)
        gone, kept = enqueue(connection, 2, key=KEY)
        mark(other)

        with connection.transaction(force_rollback=True):
            cancel.cancel(connection, [gone])
            claims = take(other)
            marked = lanes(other)

        # No bell is rung for what was not cancelled after all.
        assert (ids(claims), marked) == ([kept], {KEY: "runnable"})
        assert ids(take(other)) == [gone]

    def test_the_lane_sleeps_once_that_is_done(
        self, connection: Connection, other: Connection
    ) -> None:
        limit(max_running=100)
        (gone,) = enqueue(connection, key=KEY)
        mark(other)

        with connection.transaction():
            cancel.cancel(connection, [gone])
            meanwhile = take(other)
        then = mark_and_take(other)

        assert (meanwhile, then, lanes(other)) == ([], [], {KEY: "idle"})

    def test_a_cancel_waits_for_it_and_asks_its_run(
        self, connection: Connection, other: Connection, step: Stepping
    ) -> None:
        limit(max_running=1)
        (id,) = enqueue(connection, key=KEY)
        mark(connection)

        with connection.transaction():
            take(connection)
            cancelling = step(cancel.cancel, other, [id])
            cancelling.waits()

        assert cancelling.result() == CancelledIds(set(), {id})

    @pytest.mark.parametrize("undone", [True, False], ids=["rolled back", "committed"])
    def test_of_an_ordered_head_waits_for_how_that_ends(
        self, connection: Connection, other: Connection, undone: bool
    ) -> None:
        head, second = enqueue(connection, 2, key=KEY, ordered=True)
        mark(other)

        with connection.transaction(force_rollback=undone):
            cancel.cancel(connection, [head])
            meanwhile = take(other)
            marked = lanes(other)

        assert (meanwhile, marked) == ([], {KEY: "runnable"})
        assert ids(take(other)) == [head if undone else second]


class TestSettleBesideRescue:
    def test_a_place_is_free_once_the_rescue_commits_and_the_late_settle_frees_none(
        self, connection: Connection, other: Connection, third: Connection
    ) -> None:
        limit(max_running=1)
        (lost,) = start(connection, lease=OVER)
        enqueue(connection, key=KEY)

        with connection.transaction():
            lease.rescue(connection, max_lost=3)
            settled = complete(third, [lost])
            meanwhile = mark_and_take(other)
        (again,) = mark_and_take(other)
        late = complete(third, [lost])

        assert (settled, meanwhile, late) == (set(), [], set())
        assert (again.id, again.attempt) == (lost.id, 2)
        assert mark_and_take(third) == []

    def test_a_rescue_passes_over_what_is_being_settled_which_then_makes_room(
        self, connection: Connection, other: Connection
    ) -> None:
        limit(max_running=1)
        (running,) = start(connection, lease=OVER)
        (waiting,) = enqueue(connection, key=KEY)

        with connection.transaction():
            complete(connection, [running])
            rescued = lease.rescue(other, max_lost=3)
            meanwhile = mark_and_take(other)

        assert (rescued, meanwhile) == ([], [])
        assert ids(mark_and_take(other)) == [waiting]


class TestRouters:
    def test_one_leaves_the_bells_to_the_other(
        self, connection: Connection, other: Connection
    ) -> None:
        limit(max_running=1)
        enqueue(connection, key=KEY)

        with connection.transaction():
            first = mark(connection)
            second = (mark(other), route.adopt(other), route.tidy(other))

        assert first is not None
        assert second == (None, None, 0)
        assert (mark(other), lanes(other)) == (0, {KEY: "runnable"})

    @pytest.mark.parametrize("waits", ["bell", "stray"])
    def test_one_looks_again_soon_since_the_other_does_not_tell_of_the_lanes(
        self, connection: Connection, other: Connection, waits: str
    ) -> None:
        limit(max_running=1)
        if waits == "bell":
            enqueue(connection, key=KEY)
        else:
            insert(connection, key=KEY)
            mark(connection)
        idle = GovernedClaims(other)

        with connection.transaction():
            mark(connection)
            route.adopt(connection)
            meanwhile = idle.claim(9)
            again_in = idle.wake_in

        assert (meanwhile, again_in) == ([], BESIDE_ANOTHER)
        assert len(idle.claim(9)) == 1

    def test_what_one_gave_up_is_there_for_the_next(
        self, connection: Connection, other: Connection
    ) -> None:
        limit(max_running=1)
        stored = enqueue(connection, key=KEY)

        with connection.transaction(force_rollback=True):
            mark(connection)

        assert ids(mark_and_take(other)) == stored

    def test_a_bell_that_rings_meanwhile_is_left_for_the_next_look(
        self, connection: Connection, other: Connection
    ) -> None:
        limit(max_running=100)
        enqueue(connection, key="a")

        with connection.transaction():
            last = mark(connection)
            enqueue(other, key="b")

        assert last is not None
        assert route.look(other, after=last).has_rung
        assert len(mark_and_take(other)) == 2

    def test_a_bell_whose_transaction_commits_late_is_found_from_the_front(
        self, connection: Connection, other: Connection
    ) -> None:
        limit(max_running=100)
        mark(other)

        with connection.transaction():
            enqueue(connection, key="late")
            enqueue(other, key="early")
            last = mark(other)

        assert last is not None
        assert not route.look(other, after=last).has_rung
        assert route.look(other, after=0).has_rung
        assert {each.key for each in mark_and_take(other)} == {"early", "late"}

    def test_do_not_wait_for_ever_for_a_worker_that_fell_silent_in_the_midst_of_a_claim(
        self, connection: Connection, other: Connection, step: Stepping
    ) -> None:
        # Stopped, or cut off: its server process would keep its lanes, and with them the router.
        limit(max_running=1)
        stored = enqueue(connection, key=KEY)
        mark(connection)
        enqueue(connection, key=KEY)
        default = one(connection, "SHOW idle_in_transaction_session_timeout")
        connection.execute("SET idle_in_transaction_session_timeout = '200ms'")

        with suppress(Error), connection.transaction():
            take(connection)
            marking = step(mark, other)
            marking.waits()
            marking.result()

        assert default == ("30s",)
        assert ids(take(other)) == stored


class TestALaneThatIsRemoved:
    @pytest.fixture
    def idle(self, connection: Connection) -> str:
        """A lane with neither work nor a past."""
        limit(max_running=1)
        complete(connection, start(connection))
        assert mark_and_take(connection) == []
        assert lanes(connection) == {KEY: "idle"}
        return KEY

    def test_is_made_again_by_a_bell_that_rang_meanwhile(
        self, connection: Connection, other: Connection, idle: str
    ) -> None:
        with connection.transaction():
            route.tidy(connection)
            stored = enqueue(other, key=idle)
            meanwhile = mark_and_take(other)

        assert (meanwhile, lanes(other)) == ([], {})
        assert ids(mark_and_take(other)) == stored

    def test_is_not_where_its_bell_has_rung_though_no_claim_has_heard_it(
        self, connection: Connection, idle: str
    ) -> None:
        stored = enqueue(connection, key=idle)
        route.tidy(connection)

        assert lanes(connection) == {idle: "idle"}
        assert ids(mark_and_take(connection)) == stored

    def test_is_not_removed_while_it_runs_or_is_claimed_from(
        self, connection: Connection, other: Connection, idle: str
    ) -> None:
        enqueue(connection, key=idle)
        mark(connection)

        with connection.transaction():
            (running,) = take(connection)
            route.tidy(other)
            meanwhile = lanes(other)
        route.tidy(other)

        assert (meanwhile, lanes(other)) == ({KEY: "runnable"}, {KEY: "saturated"})
        complete(other, [running])
        assert mark_and_take(other) == []
        route.tidy(other)
        assert lanes(other) == {}


class TestOrderedProducers:
    def test_go_on_where_the_first_gave_up(
        self, connection: Connection, other: Connection, step: Stepping
    ) -> None:
        with connection.transaction(force_rollback=True):
            enqueue(connection, key=KEY, ordered=True)
            second = step(enqueue, other, key=KEY, ordered=True)
            second.waits()

        stored = second.result()
        assert ids(mark_and_take(connection)) == stored

    @pytest.mark.parametrize("has_dedupe_keys", [False, True], ids=["copied", "deduplicated"])
    def test_of_several_lanes_never_deadlock(
        self,
        connection: Connection,
        other: Connection,
        third: Connection,
        step: Stepping,
        has_dedupe_keys: bool,
    ) -> None:
        def batch(session: Connection, *keys: str) -> Collection[int | None]:
            dedupe_keys = [str(uuid4()) for _ in keys] if has_dedupe_keys else None
            wanted = sorted(dedupe_keys) if dedupe_keys else None
            return store(session, keys, ordered=True, dedupe_keys=wanted).ids

        with connection.transaction():
            enqueue(connection, key="b", ordered=True)
            first = step(batch, other, "b", "a")
            first.waits()
            second = step(batch, third, "a", "b")
            second.waits()

        for each in (first.result(), second.result()):
            assert list(each) == sorted(each)
        assert Message.objects.count() == 5

    def test_keep_their_locks_while_they_store_many_though_they_began_no_transaction(
        self, connection: Connection, other: Connection, step: Stepping
    ) -> None:
        begun: list[Step] = []

        class Payloads(list[str]):
            """Encoded while they are stored: in the midst of it another producer comes."""

            def __iter__(self) -> Iterator[str]:
                yield self[0]
                begun.append(step(enqueue, other, key=KEY, ordered=True))
                begun[0].waits()
                yield self[1]

        stored = enqueue(connection, key=KEY, payloads=Payloads(["{}", "{}"]), ordered=True)

        assert [*stored, *begun[0].result()] == sorted(states())


class TestAnOrderedLane:
    def test_is_one_claims_at_a_time(self, connection: Connection, other: Connection) -> None:
        head, second = enqueue(connection, 2, key=KEY, ordered=True)
        mark(connection)

        with connection.transaction():
            first = take(connection)
            meanwhile = take(other)

        assert (ids(first), meanwhile) == ([head], [])
        assert mark_and_take(other) == []
        complete(connection, first)
        assert ids(mark_and_take(other)) == [second]

    @every_way_to_be_ready
    def test_is_awake_where_its_head_became_ready_beside_a_claim(
        self,
        connection: Connection,
        other: Connection,
        third: Connection,
        step: Stepping,
        way: str,
    ) -> None:
        limit(max_running=100)
        becoming, verb = getattr(Ways(connection, KEY, ordered=True), way)()
        enqueue(connection, key=KEY)
        mark(connection)

        with connection.transaction():
            taken = take(connection)
            idle = lanes(connection)
            verb(third)
            marking = step(mark, other)
            marking.waits()
        marking.result()

        assert (len(taken), idle) == (1, {KEY: "idle"})
        assert ids(take(other)) == becoming[:1]

    @pytest.mark.parametrize(
        "unblock",
        [
            lambda session, id: dead.discard(session, [id]),
            lambda session, id: Channel.objects.create(name="default", on_dead="skip"),
        ],
        ids=["discarded", "to be skipped"],
    )
    def test_goes_on_where_its_dead_head_was_removed_beside_a_claim(
        self,
        connection: Connection,
        other: Connection,
        third: Connection,
        step: Stepping,
        unblock: Callable[[Connection, int], Any],
    ) -> None:
        blocking = insert(connection, key=KEY, ordered=True, governed=True, state="dead")
        stored = enqueue(connection, key=KEY, ordered=True)
        mark(connection)

        with connection.transaction():
            blocked = take(connection)
            idle = lanes(connection)
            unblock(third, blocking)
            marking = step(mark, other)
            marking.waits()
        marking.result()

        assert (blocked, idle) == ([], {KEY: "idle"})
        assert ids(take(other)) == stored

    def test_stops_behind_a_head_that_dies_beside_a_claim(
        self, connection: Connection, other: Connection
    ) -> None:
        (head,) = start(connection, ordered=True)
        (second,) = enqueue(connection, key=KEY, ordered=True)

        with connection.transaction():
            settle.bury(connection, [failure(head)])
            meanwhile = mark_and_take(other)
        blocked = mark_and_take(other)

        assert (meanwhile, blocked) == ([], [])
        assert states() == {head.id: State.DEAD, second: State.READY}

    @pytest.mark.parametrize("is_first", ["replay", "claim"])
    def test_never_runs_a_replayed_message_beside_another(
        self,
        connection: Connection,
        other: Connection,
        third: Connection,
        step: Stepping,
        is_first: str,
    ) -> None:
        Channel.objects.create(name="default", on_dead="skip")
        replayed = insert(connection, key=KEY, ordered=True, governed=True, state="dead")
        second, last = enqueue(connection, 2, key=KEY, ordered=True)
        mark(connection)

        if is_first == "replay":
            with connection.transaction():
                dead.replay(connection, [replayed])
                (running,) = take(other)
        else:
            with connection.transaction():
                (running,) = take(connection)
                dead.replay(other, [replayed])
                marking = step(mark, third)
                marking.waits()
            marking.result()

        assert (running.id, mark_and_take(other)) == (second, [])
        complete(other, [running])
        (again,) = mark_and_take(other)
        assert again.id == replayed, "at its old place"
        complete(other, [again])
        assert ids(mark_and_take(other)) == [last]

    def test_is_awake_where_its_held_head_expired_beside_a_claim(
        self, connection: Connection, other: Connection, third: Connection, step: Stepping
    ) -> None:
        hold(connection, key=KEY, ordered=True, held_for=OVER)
        (second,) = enqueue(connection, key=KEY, ordered=True)
        mark(connection)

        with connection.transaction():
            blocked = take(connection)
            expire.expire(third)
            marking = step(mark, other)
            marking.waits()
        marking.result()

        assert blocked == []
        assert ids(take(other)) == [second]


class TestHeldBesideExpiry:
    """The message's own end comes before the hold's: both may be its fate."""

    @pytest.fixture
    def late(self, connection: Connection) -> int:
        (late,) = hold(connection, key=KEY, expires_after=OVER)
        return late

    @pytest.mark.parametrize("verb", [held.commit, held.abandon])
    def test_what_was_not_expired_after_all_can_be_decided(
        self,
        connection: Connection,
        other: Connection,
        step: Stepping,
        late: int,
        verb: Callable[..., set[int]],
    ) -> None:
        with connection.transaction(force_rollback=True):
            expire.expire(connection)
            second = step(verb, other, [late])
            second.waits()

        assert second.result() == {late}

    def test_a_commit_asked_for_in_time_holds_though_it_waited_beyond_the_deadline(
        self, connection: Connection, other: Connection, third: Connection, step: Stepping
    ) -> None:
        (id,) = hold(connection)

        with connection.transaction():
            held.extend(connection, [id], hold=timedelta(seconds=0.5))
            committing = step(held.commit, other, [id])
            committing.waits()
            query = "SELECT lease_until < clock_timestamp() FROM pgqueue_message"
            eventually(lambda: one(connection, query)[0], what="it has a deadline")
            expired = expire.expire(third)

        assert (expired, committing.result()) == (0, {id})
        assert states() == {id: State.READY}

    def test_a_commit_after_the_deadline_does_not_wait_and_finds_nothing(
        self, connection: Connection, other: Connection
    ) -> None:
        (id,) = hold(connection, held_for=OVER)

        with connection.transaction(force_rollback=True):
            expire.expire(connection)
            committed = held.commit(other, [id])

        assert (committed, expire.expire(other)) == (set(), 1)

    @pytest.mark.parametrize("is_governed", [False, True])
    def test_what_was_claimed_in_time_does_not_expire(
        self, connection: Connection, other: Connection, third: Connection, is_governed: bool
    ) -> None:
        if is_governed:
            limit(max_running=1)
        (id,) = enqueue(connection, key=KEY, expires_after=timedelta(seconds=0.5))
        mark(connection)

        with connection.transaction():
            claims = take(connection) if is_governed else claim(connection)
            query = "SELECT expires_at < clock_timestamp() FROM pgqueue_message"
            eventually(lambda: one(third, query)[0], what="it ends")
            expired = (expire.expire(other), expire.expire(connection))

        assert (ids(claims), expired, expire.expire(other)) == ([id], (0, 0), 0)


class TestManyBells:
    """As `enqueue_many` rings them for many keys at once."""

    def test_of_one_channel_keep_no_other_waiting(
        self, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(route, "BATCH", 50)
        limit("flood", max_running=1)
        route.route(connection, after=0)
        store(connection, [str(number) for number in range(400)], channel="flood")
        (late,) = enqueue(connection, channel="orders", key="a", ordered=True)

        routed = route.route(connection, after=0)

        assert routed
        assert ids(claim_of(connection, "orders")) == [late]
        assert Bell.objects.count() == 401 - 50 - 25 - 1
        while Bell.objects.exists():  # none is passed over
            assert routed
            routed = route.route(connection, after=routed.after)
        assert Lane.objects.filter(channel="flood", state="runnable").count() == 400

    def test_that_commit_late_are_taken_all_the_same(
        self, connection: Connection, other: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Their ids are lower than those that were taken: looks at the front find them."""
        monkeypatch.setattr(route, "BATCH", 10)
        limit("flood", max_running=1)
        route.route(connection, after=0)
        with other.transaction():
            store(other, ["late"], channel="orders", ordered=True)
            store(connection, [str(number) for number in range(30)], channel="flood")
            route.route(connection, after=0)

        route.route(connection, after=0)

        assert len(claim_of(connection, "orders")) == 1


def claim_of(connection: Connection, channel: str) -> list[Claim]:
    """Claim from governed lanes that are runnable by now."""
    return engine.claim(
        connection, channel, engine.EVERY_TURN, 10, worker_id=uuid4(), lease=LEASE
    ).claims


class TestARoute:
    @pytest.mark.parametrize(("is_pooled", "waits"), [(False, "off"), (True, "on")])
    def test_waits_for_a_flush_behind_a_pooler_only(
        self, connection: Connection, is_pooled: bool, waits: str
    ) -> None:
        limit(max_running=1, key=KEY)
        enqueue(connection, key=KEY)
        if is_pooled:
            connection.prepare_threshold = None
        with connection.transaction():
            mark(connection)
            within = one(connection, "SHOW synchronous_commit")

        assert lanes(connection) == {KEY: "runnable"}
        assert within == (waits,)
        assert one(connection, "SHOW synchronous_commit") == ("on",)
