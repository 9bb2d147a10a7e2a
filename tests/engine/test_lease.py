"""Leases: renewed by those who run, taken away from those who fell silent."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from psycopg import OperationalError

from pgqueue.claiming.registration import WorkerIds
from pgqueue.duties.rescue import Rescue
from pgqueue.engine import cancel, dead, lease, operate, settle
from pgqueue.engine.values import Claim, Lease
from pgqueue.models import History, Message
from pgqueue.states import State
from tests.claims import GovernedClaims
from tests.factories import (
    LEASE,
    OVER,
    Connection,
    Listening,
    claim,
    done,
    enqueue,
    failure,
    one,
    register,
    run,
)
from tests.stepping import Step

MINUTE = timedelta(minutes=1)


def left(connection: Connection) -> dict[int, timedelta]:
    """Return how much of each lease is left, whether or not it is in the past."""
    rows = connection.execute(
        "SELECT id, lease_until - clock_timestamp() FROM pgqueue_message WHERE state = 'running'"
    )
    return dict(rows.fetchall())


def updates(connection: Connection) -> tuple[int, int]:
    """Return how many rows this session updated, and how many of them in place (HOT)."""
    updated, in_place = one(
        connection,
        "SELECT pg_stat_get_xact_tuples_updated(t), pg_stat_get_xact_tuples_hot_updated(t) "
        "FROM (VALUES ('pgqueue_message'::regclass)) AS v (t)",
    )
    return updated, in_place


class TestACheckpoint:
    def test_changes_what_it_names(self, connection: Connection) -> None:
        first, second = run(connection, 2)

        assert lease.checkpoint(connection, first, progress="[1]")
        assert lease.checkpoint(connection, first, progress=None, payload='"new"', body=b"b")

        message = Message.objects.get(pk=first.id)
        assert (message.progress, message.payload, bytes(message.body or b"")) == (
            [1],
            "new",
            b"b",
        )
        untouched = Message.objects.get(pk=second.id)
        assert (untouched.progress, untouched.payload) == (None, {})

    @pytest.mark.parametrize("changed", [{"attempt": 2}, {"worker_id": uuid4()}, {"id": -1}])
    def test_is_refused_to_a_worker_that_lost_the_lease(
        self, connection: Connection, changed: dict[str, Any]
    ) -> None:
        [mine] = run(connection)

        held = lease.checkpoint(connection, mine.lease._replace(**changed), progress="[1]")

        assert not held
        assert Message.objects.get().progress is None

    def test_is_refused_once_the_run_is_over(self, connection: Connection) -> None:
        [mine] = run(connection)
        settle.bury(connection, [failure(mine)])

        assert not lease.checkpoint(connection, mine, progress="[1]")


class TestExtending:
    def test_renews_what_is_held(self, connection: Connection) -> None:
        claims = run(connection, 3, lease=timedelta(seconds=5))

        held = lease.extend(connection, claims, lease=MINUTE)

        assert held == {each.id: False for each in claims}
        assert all(timedelta(seconds=50) < each <= MINUTE for each in left(connection).values())

    def test_takes_the_clock_of_the_statement(self, connection: Connection) -> None:
        claims = run(connection)

        with connection.transaction():
            connection.execute("SELECT pg_sleep(0.05)")
            lease.extend(connection, claims, lease=MINUTE)
            (until,) = one(connection, "SELECT lease_until - now() FROM pgqueue_message")

        assert until >= MINUTE + timedelta(seconds=0.05)

    @pytest.mark.parametrize("part", ["id", "attempt", "worker_id", "state"])
    def test_is_fenced_by(self, connection: Connection, part: str) -> None:
        (held,) = run(connection)
        (other,) = run(connection, channel="other")
        wrong = {
            "id": Lease(other.id, held.attempt, held.worker_id),
            "attempt": Lease(held.id, held.attempt + 1, held.worker_id),
            "worker_id": Lease(held.id, held.attempt, uuid4()),
            "state": held.lease,
        }[part]
        if part == "state":
            connection.execute("UPDATE pgqueue_message SET state = 'ready'")
        before = list(Message.objects.order_by("id").values())

        assert lease.extend(connection, [wrong], lease=MINUTE) == {}
        assert list(Message.objects.order_by("id").values()) == before

    def test_leaves_out_what_was_lost(self, connection: Connection) -> None:
        rescued, settled, kept = run(connection, 3)
        connection.execute(
            "UPDATE pgqueue_message SET lease_until = 'epoch' WHERE id = %s", [rescued.id]
        )
        lease.rescue(connection, max_lost=3)
        settle.complete(connection, [done(settled)])

        held = lease.extend(connection, [rescued, settled, kept], lease=MINUTE)

        assert held == {kept.id: False}

    def test_brings_the_request_to_cancel(self, connection: Connection) -> None:
        asked, spared = run(connection, 2)
        cancel.cancel(connection, [asked.id])

        held = lease.extend(connection, [asked, spared], lease=MINUTE)

        assert held == {asked.id: True, spared.id: False}

    def test_passes_over_locked_rows_and_says_that_they_are_held(
        self, connection: Connection, other: Connection
    ) -> None:
        locked, asked, free = run(connection, 3, lease=timedelta(seconds=5))
        cancel.cancel(connection, [asked.id])

        with other.transaction():
            assert lease.lock(other, locked)
            assert lease.lock(other, asked)
            held = lease.extend(connection, [locked, asked, free], lease=MINUTE)
            remaining = left(connection)

        assert held == {locked.id: False, asked.id: True, free.id: False}
        assert max(remaining[locked.id], remaining[asked.id]) <= timedelta(seconds=5)
        assert remaining[free.id] > timedelta(seconds=50)

    def test_holds_on_to_a_lease_that_is_over_but_not_taken(self, connection: Connection) -> None:
        claims = run(connection, lease=OVER)

        assert lease.extend(connection, claims, lease=MINUTE) == {claims[0].id: False}
        assert lease.rescue(connection, max_lost=3) == []

    def test_touches_no_index(self, connection: Connection) -> None:
        claims = run(connection, 5)
        connection.execute("VACUUM pgqueue_message")
        updated, without_index = updates(connection)

        lease.extend(connection, claims, lease=MINUTE)

        assert updates(connection) == (updated + 5, without_index + 5)

    def test_may_be_of_none_or_of_ten_thousand(self, connection: Connection) -> None:
        claims = run(connection, 10_000)

        assert lease.extend(connection, [], lease=MINUTE) == {}
        assert len(lease.extend(connection, claims, lease=MINUTE)) == 10_000


class TestHolding:
    def test_locks_the_row_until_the_transaction_ends(
        self, connection: Connection, other: Connection
    ) -> None:
        (held,) = run(connection, lease=OVER)

        with other.transaction():
            assert lease.lock(other, held)
            rescued = lease.rescue(connection, max_lost=3)
        rescued_after = lease.rescue(connection, max_lost=3)

        assert rescued == []
        assert [each.id for each in rescued_after] == [held.id]

    @pytest.mark.parametrize("part", ["id", "attempt", "worker_id", "state"])
    def test_is_fenced_by(self, connection: Connection, part: str) -> None:
        (held,) = run(connection)
        wrong = {
            "id": Lease(held.id + 1, held.attempt, held.worker_id),
            "attempt": Lease(held.id, held.attempt + 1, held.worker_id),
            "worker_id": Lease(held.id, held.attempt, uuid4()),
            "state": held.lease,
        }[part]
        if part == "state":
            connection.execute("UPDATE pgqueue_message SET state = 'ready'")

        assert not lease.lock(connection, wrong)


class TestLettingGo:
    def test_ends_the_transaction_that_holds_the_lock(
        self, connection: Connection, other: Connection
    ) -> None:
        [mine] = run(connection)
        with pytest.raises(OperationalError), connection.transaction():
            lock = lease.lock(connection, mine)
            assert lock

            lease.let_go(other, [lock])
            released = settle.release(other, [mine])
            connection.execute("SELECT 1")

        assert released == {mine.id}

    def test_leaves_alone_who_has_the_process_since(
        self, connection: Connection, other: Connection
    ) -> None:
        first, second = run(connection, 2)
        with connection.transaction():
            lock = lease.lock(connection, first)
        assert lock

        with connection.transaction():
            lease.lock(connection, second)
            lease.let_go(other, [lock])

            assert settle.release(other, [second]) == set()


class TestBeginning:
    def test_waits_a_moment_for_who_has_it_locked(
        self, connection: Connection, other: Connection, step: Callable[..., Step]
    ) -> None:
        [mine] = run(connection)
        with other.transaction():
            lease.lock(other, mine)  # as a heartbeat does for as long as its commit takes
            beginning = step(lease.begin, connection, [mine])
            time.sleep(0.1)

        assert beginning.result() == {mine.id}
        assert began(connection) == [True]

    def test_goes_on_beside_who_takes_longer(
        self, connection: Connection, other: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(lease, "BEGINNING", 0.1)
        locked, free = run(connection, 2)
        with other.transaction():
            lease.lock(other, locked)
            still = lease.begin(connection, [locked, free])

        assert still == {locked.id, free.id}
        assert began(connection) == [False, True]

    def test_says_what_is_held_no_longer(self, connection: Connection) -> None:
        lost, kept = run(connection, 2)
        connection.execute("UPDATE pgqueue_message SET attempt = 2 WHERE id = %s", [lost.id])

        assert lease.begin(connection, [lost, kept]) == {kept.id}


def began(connection: Connection) -> list[bool]:
    rows = connection.execute("SELECT started_at IS NOT NULL FROM pgqueue_message ORDER BY id")
    return [began for (began,) in rows]


def set_clock_back(connection: Connection, by: timedelta) -> None:
    """Let everything that is stored come from the future."""
    connection.execute("UPDATE pgqueue_message SET lease_until = lease_until + %s", [by])


class TestALeaseFromTheFuture:
    """The server's clock was ahead, or the server after a failover has one that is behind."""

    def test_ends_its_length_from_now(self, connection: Connection) -> None:
        (lost,) = run(connection, lease=MINUTE)
        set_clock_back(connection, timedelta(hours=1))

        assert lease.are_any_over(connection)
        assert lease.rescue(connection, max_lost=3) == []

        assert MINUTE - timedelta(seconds=5) < left(connection)[lost.id] <= MINUTE
        assert not lease.are_any_over(connection)
        connection.execute("UPDATE pgqueue_message SET lease_until = lease_until - %s", [MINUTE])
        assert [each.id for each in lease.rescue(connection, max_lost=3)] == [lost.id]

    def test_is_renewed_by_a_worker_that_lives(self, connection: Connection) -> None:
        (held,) = run(connection, lease=MINUTE)
        set_clock_back(connection, timedelta(hours=1))

        assert lease.extend(connection, [held], lease=MINUTE) == {held.id: False}

        assert left(connection)[held.id] <= MINUTE
        assert lease.rescue(connection, max_lost=3) == []

    @pytest.mark.parametrize("verb", ["claim", "extend", "prolong", "checkpoint"])
    def test_is_none_that_was_asked_for_as_a_long_one(
        self, connection: Connection, verb: str
    ) -> None:
        hour = timedelta(hours=1)
        (held,) = run(connection, lease=hour if verb == "claim" else MINUTE)
        if verb == "extend":
            lease.extend(connection, [held], lease=hour)
        elif verb == "prolong":
            lease.prolong(connection, held, hour)
        elif verb == "checkpoint":
            lease.checkpoint(connection, held, progress=None, extend=hour)

        lease.extend(connection, [held], lease=MINUTE)  # a heartbeat
        assert lease.rescue(connection, max_lost=3) == []

        assert left(connection)[held.id] > timedelta(minutes=59)

    def test_is_cut_where_its_row_is_free(self, connection: Connection, other: Connection) -> None:
        run(connection, lease=MINUTE)
        set_clock_back(connection, timedelta(hours=1))

        with other.transaction():
            other.execute("SELECT FROM pgqueue_message FOR UPDATE")
            assert lease.rescue(connection, max_lost=3) == []
            assert min(left(connection).values()) > timedelta(minutes=59)
        lease.rescue(connection, max_lost=3)

        assert max(left(connection).values()) <= MINUTE

    def test_makes_no_dead_worker_live(self, connection: Connection) -> None:
        register(connection)
        connection.execute(
            "UPDATE pgqueue_worker SET last_seen = last_seen + interval '1 hour', "
            "notify_until = last_seen + interval '1 hour 20 s'"
        )

        Rescue(lease=LEASE, max_lost=3).run(connection)

        seen, wish = one(
            connection,
            "SELECT clock_timestamp() - last_seen, notify_until - clock_timestamp() "
            "FROM pgqueue_worker",
        )
        assert timedelta() < seen < MINUTE
        assert wish <= timedelta(seconds=20)


class TestRelease:
    """An operator's: a worker is dead though its lease goes on, or its run is stuck."""

    def test_makes_it_ready_and_counts_nothing(self, connection: Connection) -> None:
        (held, other_one) = run(connection, 2)

        assert lease.release(connection, [held.id, 999]) == {held.id}

        message = Message.objects.get(pk=held.id)
        assert (message.state, message.lost, message.failures) == (State.READY, 0, 0)
        assert Message.objects.get(pk=other_one.id).state == State.RUNNING

    @pytest.mark.parametrize("state", [each for each in State if each != State.RUNNING])
    def test_is_of_what_runs(self, connection: Connection, state: State) -> None:
        (id,) = enqueue(connection)
        connection.execute("UPDATE pgqueue_message SET state = %s", [state])

        assert lease.release(connection, [id]) == set()

        assert Message.objects.get().state == state

    def test_fences_off_who_had_it(self, connection: Connection) -> None:
        (held,) = run(connection)
        lease.release(connection, [held.id])

        assert lease.extend(connection, [held], lease=LEASE) == {}
        assert settle.complete(connection, [done(held)]) == set()
        (again,) = claim(connection, worker_id=held.worker_id)
        assert settle.complete(connection, [done(held)]) == set()
        assert settle.complete(connection, [done(again)]) == {held.id}

    def test_ends_what_was_to_be_cancelled(self, connection: Connection) -> None:
        (held,) = run(connection)
        cancel.cancel(connection, [held.id])

        assert lease.release(connection, [held.id]) == {held.id}

        assert History.objects.get().outcome == "cancelled"

    def test_lets_the_next_of_its_lane_run(self, connection: Connection) -> None:
        (held, _) = enqueue(connection, 2, key="k", ordered=True)
        governed = GovernedClaims(connection)
        assert [each.id for each in governed.claim(9)] == [held]
        assert governed.claim(9) == []

        lease.release(connection, [held])

        assert [each.id for each in governed.claim(9)] == [held]

    def test_waits_for_a_settle_and_finds_nothing_to_do(
        self, connection: Connection, other: Connection, step: Callable[..., Step]
    ) -> None:
        (held,) = run(connection)

        with connection.transaction():
            settle.complete(connection, [done(held)])
            releasing = step(lease.release, other, [held.id])
            releasing.waits()

        assert releasing.result() == set()
        assert History.objects.get().outcome == "succeeded"

    def test_is_passed_over_by_a_settle_that_comes_too_late(
        self, connection: Connection, other: Connection
    ) -> None:
        (held,) = run(connection)

        with connection.transaction():
            lease.release(connection, [held.id])
            assert settle.complete(other, [done(held)]) == set()
            assert lease.valid(other, [held]) == {held.id: False}  # so far
        assert lease.valid(other, [held]) == {}

        assert Message.objects.get().state == State.READY

    def test_leaves_out_what_an_atomic_task_has_locked(
        self, connection: Connection, other: Connection
    ) -> None:
        locked, free = run(connection, 2)

        with other.transaction():
            lease.lock(other, locked)
            with connection.transaction():
                operated = operate.unless_locked(connection, operate.release, [locked.id, free.id])

        assert operated == operate.Operated(done=frozenset([free.id]), busy=frozenset([locked.id]))


class TestRescue:
    def test_is_of_leases_that_are_over(self, connection: Connection) -> None:
        (lost,) = run(connection, lease=OVER, task="one")
        run(connection)

        rescued = lease.rescue(connection, max_lost=3)

        assert rescued == [(lost.id, "one", "ready")]

    def test_is_of_leases_that_were_over_when_its_transaction_began(
        self, connection: Connection
    ) -> None:
        # The rescuer knows of no outage until then; one that begins now would end them all.
        with connection.transaction():
            run(connection, lease=timedelta(milliseconds=1))
            connection.execute("SELECT pg_sleep(0.01)")
            too_soon = lease.rescue(connection, max_lost=3)

        assert too_soon == []
        assert len(lease.rescue(connection, max_lost=3)) == 1

    @pytest.mark.parametrize("state", [each for each in State if each != State.RUNNING])
    def test_is_of_nothing_else(self, connection: Connection, state: State) -> None:
        run(connection, lease=OVER)
        connection.execute("UPDATE pgqueue_message SET state = %s", [state])

        assert lease.rescue(connection, max_lost=3) == []

    def test_gives_the_first_loss_its_old_place_at_once(self, connection: Connection) -> None:
        (lost,) = run(connection, lease=OVER)
        (behind,) = enqueue(connection)

        lease.rescue(connection, max_lost=3)

        message = Message.objects.get(pk=lost.id)
        assert (message.state, message.run_at) == (State.READY, lost.run_at)
        assert (message.worker_id, message.lease_until) == (None, None)
        assert (message.lost, message.failures, message.attempt) == (1, 0, 1)
        assert [each.id for each in claim(connection)] == [lost.id, behind]

    def test_lets_each_further_loss_wait_longer(self, connection: Connection) -> None:
        enqueue(connection)
        waits = []
        for _ in range(14):
            lease.begin(connection, claim(connection, lease=OVER))
            lease.rescue(connection, max_lost=100)
            message = Message.objects.get()
            waits.append((message.run_at - moment(message.errors[-1]["at"])).total_seconds())
            assert (message.state == State.READY) == (len(waits) == 1)
            connection.execute("UPDATE pgqueue_message SET state = 'ready'")

        assert waits[1:] == [*(2.0**n for n in range(1, 12)), 3600, 3600]

    def test_never_waits_for_more_than_it_can_count(self, connection: Connection) -> None:
        run(connection, lease=OVER)
        connection.execute("UPDATE pgqueue_message SET lost = 2000000000, started_at = claimed_at")

        lease.rescue(connection, max_lost=2_100_000_000)

        assert Message.objects.get().state == State.SCHEDULED

    @pytest.mark.parametrize("max_lost", [1, 2, 3])
    def test_buries_what_lost_too_many_workers(self, connection: Connection, max_lost: int) -> None:
        enqueue(connection)
        states = []
        for _ in range(max_lost):
            connection.execute("UPDATE pgqueue_message SET state = 'ready'")
            lease.begin(connection, claim(connection, lease=OVER))
            states += [each.state for each in lease.rescue(connection, max_lost=max_lost)]

        message = Message.objects.get()
        assert states == ["ready", "scheduled"][: max_lost - 1] + ["dead"]
        assert (message.state, message.lost, message.failures) == (State.DEAD, max_lost, 0)
        assert len(message.errors) == max_lost

    def test_says_in_an_error_what_happened(self, connection: Connection) -> None:
        (lost,) = run(connection, lease=OVER)

        lease.rescue(connection, max_lost=3)

        (error,) = Message.objects.get().errors
        assert set(error) == {"attempt", "worker", "at", "class", "message", "traceback"}
        assert (error["attempt"], error["worker"]) == (1, str(lost.worker_id))
        assert error["class"] == "pgqueue.exceptions.LeaseLost"

    def test_starts_to_count_again_after_a_replay(self, connection: Connection) -> None:
        (lost,) = run(connection, lease=OVER)
        lease.rescue(connection, max_lost=1)
        dead.replay(connection, [lost.id])
        claim(connection, lease=OVER)

        (rescued,) = lease.rescue(connection, max_lost=2)

        assert rescued.state == "ready"

    def test_goes_on_counting_losses_after_a_failure(self, connection: Connection) -> None:
        run(connection, lease=OVER)
        lease.rescue(connection, max_lost=2)
        (held,) = claim(connection)
        settle.retry(connection, [failure(held)])
        lease.begin(connection, claim(connection, lease=OVER))

        (rescued,) = lease.rescue(connection, max_lost=2)

        assert rescued.state == "dead"

    def test_passes_over_locked_rows(self, connection: Connection, other: Connection) -> None:
        atomic, lost = run(connection, 2, lease=OVER)

        with other.transaction():
            lease.lock(other, atomic)
            rescued = lease.rescue(connection, max_lost=3)

        assert [each.id for each in rescued] == [lost.id]

    def test_holds_its_limit(self, connection: Connection) -> None:
        run(connection, 10, lease=OVER)

        counts = [len(lease.rescue(connection, max_lost=3, limit=4)) for _ in range(4)]

        assert counts == [4, 4, 2, 0]

    def test_tells_workers_that_wait_for_the_channel(
        self, connection: Connection, other: Connection
    ) -> None:
        run(connection, 3, lease=OVER)
        register(connection, notify_for=MINUTE)
        listening = Listening(other)

        lease.rescue(connection, max_lost=3)

        assert listening.heard() == ["default"]

    def test_writes_a_whole_row_of_history_where_a_cancel_was_asked(
        self, connection: Connection
    ) -> None:
        (held,) = run(connection, lease=OVER, key="k", payloads=["[1]"])
        cancel.cancel(connection, [held.id])

        (rescued,) = lease.rescue(connection, max_lost=3)

        ended = History.objects.get()
        assert rescued == (held.id, "tests.task", "cancelled")
        assert (ended.key, ended.payload, ended.attempt) == ("k", [1], 1)
        assert ended.worker_id == held.worker_id

    def test_ends_the_lease_of_who_comes_too_late(self, connection: Connection) -> None:
        claims = run(connection, 2, lease=OVER)
        lease.rescue(connection, max_lost=3)

        assert lease.extend(connection, claims, lease=LEASE) == {}
        assert not lease.lock(connection, claims[0])
        assert settle.complete(connection, [done(each) for each in claims]) == set()


def moment(text: Any) -> datetime:
    return datetime.fromisoformat(text)


class TestWhatHadNotBegun:
    """A message that lost a worker before is charged with the next one only if it was run there."""

    @pytest.fixture
    def suspects(self, connection: Connection) -> list[Claim]:
        run(connection, 3, lease=OVER)
        lease.rescue(connection, max_lost=3)
        return claim(connection, lease=OVER)

    def test_is_ready_again_and_charged_with_nothing(
        self, connection: Connection, suspects: list[Claim]
    ) -> None:
        lease.begin(connection, suspects[:1])

        rescued = lease.rescue(connection, max_lost=3)

        assert {each.id: each.state for each in rescued} == {
            suspects[0].id: "scheduled",
            suspects[1].id: "ready",
            suspects[2].id: "ready",
        }
        rows = Message.objects.order_by("pk").values_list("lost", "failures", "attempt")
        assert list(rows) == [(2, 0, 2), (1, 0, 2), (1, 0, 2)]
        assert [len(each.errors) for each in Message.objects.order_by("pk")] == [2, 1, 1]

    def test_is_known_by_its_last_claim(
        self, connection: Connection, suspects: list[Claim]
    ) -> None:
        lease.begin(connection, suspects)
        settle.release(connection, suspects)
        claim(connection, lease=OVER)

        rescued = lease.rescue(connection, max_lost=2)

        assert {each.state for each in rescued} == {"ready"}

    def test_is_cancelled_all_the_same_if_it_was_to_be(
        self, connection: Connection, suspects: list[Claim]
    ) -> None:
        cancel.cancel(connection, [suspects[0].id])

        rescued = lease.rescue(connection, max_lost=3)

        assert {each.id: each.state for each in rescued}[suspects[0].id] == "cancelled"

    def test_is_never_what_another_worker_claimed_since(
        self, connection: Connection, suspects: list[Claim]
    ) -> None:
        lease.rescue(connection, max_lost=3)
        claim(connection)

        lease.begin(connection, suspects)

        assert not Message.objects.filter(started_at__isnull=False).exists()


class TestRescueFrom:
    """A process that is known to be dead, with ids of which the first twelve bytes are alike."""

    FIRST, LAST = UUID(int=0xABC0_0000_0000), UUID(int=0xABC0_FFFF_FFFF)

    def test_is_of_all_that_it_claimed_whatever_its_leases_say(
        self, connection: Connection
    ) -> None:
        inside = [self.FIRST, UUID(int=self.FIRST.int + 7), self.LAST]
        outside = [UUID(int=self.FIRST.int - 1), UUID(int=self.LAST.int + 1)]
        for worker_id in [*inside, *outside]:
            run(connection, worker_id=worker_id)

        rescued = lease.rescue_from(connection, self.FIRST, self.LAST, max_lost=3)

        assert [each.state for each in rescued] == ["ready"] * 3
        left = Message.objects.filter(state=State.RUNNING)
        assert set(left.values_list("worker_id", flat=True)) == set(outside)

    def test_charges_them_as_any_rescue_does(self, connection: Connection) -> None:
        run(connection, worker_id=self.FIRST)

        (rescued,) = lease.rescue_from(connection, self.FIRST, self.LAST, max_lost=1)

        assert rescued.state == "dead"
        assert Message.objects.get().lost == 1

    def test_leaves_what_is_locked_and_says_that_it_is_there(
        self, connection: Connection, other: Connection
    ) -> None:
        run(connection, worker_id=self.FIRST)
        bounds = (self.FIRST, self.LAST)
        with other.transaction():
            other.execute("SELECT FROM pgqueue_message FOR UPDATE")
            locked = lease.rescue_from(connection, *bounds, max_lost=3)
            are_any_left = lease.are_any_of(connection, *bounds)

        rescued = lease.rescue_from(connection, *bounds, max_lost=3)

        assert (locked, are_any_left, len(rescued)) == ([], True, 1)
        assert not lease.are_any_of(connection, *bounds)


class TestGivingBack:
    """What a worker was given under an id that it had before, and was not told of."""

    def test_makes_it_ready_and_charges_nothing(self, connection: Connection) -> None:
        ids = WorkerIds()
        before, now = ids.next(), ids.next()
        (told,) = run(connection, worker_id=before)
        (untold,) = run(connection, worker_id=before)
        (later,) = run(connection, worker_id=now)
        (others,) = run(connection)
        bounds = ids.before(now)
        assert bounds

        given = lease.give_back(connection, *bounds, known=[told.id])

        assert [(each.id, each.state) for each in given] == [(untold.id, "ready")]
        message = Message.objects.get(pk=untold.id)
        assert (message.lost, message.failures, message.errors) == (0, 0, [])
        running = Message.objects.filter(state=State.RUNNING).order_by("pk")
        assert [each.pk for each in running] == [told.id, later.id, others.id]

    def test_of_a_first_id_is_of_nothing(self) -> None:
        ids = WorkerIds()

        assert ids.before(ids.next()) is None
