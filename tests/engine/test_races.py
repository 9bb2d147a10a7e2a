"""Two or three sessions at the critical moment, stepped by hand.

A session that holds something is in a transaction that the test has open. One that is to wait
for it runs in a thread, and the test goes on once PostgreSQL says that it waits. What runs in
no thread waits for what never comes, or its lock_timeout ends the test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import Any

import pytest
from django.db import connection as django_connection
from django.db import connections, transaction
from psycopg import IsolationLevel

from pgqueue.engine import cancel, dead, held, lease, promote, settle
from pgqueue.engine.cancel import CancelledIds
from pgqueue.engine.settle import Deferral, Finish
from pgqueue.engine.values import Claim
from pgqueue.models import History, Message
from pgqueue.states import Outcome, State
from tests.factories import (
    LEASE,
    OVER,
    Connection,
    bury,
    claim,
    done,
    enqueue,
    failure,
    hold,
    make_due,
    one,
    run,
    schedule,
)
from tests.stepping import Step

Stepping = Callable[..., Step]
DELAY = timedelta(minutes=5)

NOTHING = CancelledIds(set(), set())


def complete(connection: Connection, claims: Sequence[Claim]) -> set[int]:
    return settle.complete(connection, [done(each) for each in claims])


def retry(connection: Connection, claims: Sequence[Claim]) -> set[int]:
    return settle.retry(connection, [failure(each, delay=DELAY) for each in claims])


def give_up(connection: Connection, claims: Sequence[Claim]) -> set[int]:
    return settle.bury(connection, [failure(each) for each in claims])


def defer(connection: Connection, claims: Sequence[Claim]) -> set[int]:
    return settle.defer(connection, [Deferral(each, DELAY) for each in claims])


def discard(connection: Connection, claims: Sequence[Claim]) -> set[int]:
    ends = [Finish(each, Outcome.DISCARDED, None, 0) for each in claims]
    return settle.finish(connection, ends)


def rescue(connection: Connection) -> set[int]:
    return {each.id for each in lease.rescue(connection, max_lost=3)}


with_and_without_statistics = pytest.mark.parametrize(
    "statistics", ["SELECT 1", "ANALYZE pgqueue_message"], ids=["", "analyzed"]
)
every_settle = pytest.mark.parametrize(
    "verb", [complete, retry, give_up, defer, discard], ids=lambda verb: verb.__name__
)


def outcomes() -> dict[int, str]:
    return dict(History.objects.values_list("id", "outcome"))


def states() -> dict[int, str]:
    return dict(Message.objects.values_list("id", "state"))


class TestClaimBesideClaim:
    def test_the_second_passes_over_what_the_first_takes(
        self, connection: Connection, other: Connection
    ) -> None:
        ids = enqueue(connection, 4)

        with connection.transaction():
            first = claim(connection, limit=2)
            second = claim(other)

        assert [each.id for each in first + second] == ids

    def test_what_the_first_gives_up_is_there_with_the_same_attempt(
        self, connection: Connection, other: Connection
    ) -> None:
        enqueue(connection)

        with connection.transaction(force_rollback=True):
            (first,) = claim(connection)
            meanwhile = claim(other)
        (second,) = claim(other)

        assert meanwhile == []
        assert (first.attempt, second.attempt) == (1, 1)
        assert first.worker_id != second.worker_id

    def test_a_claim_lost_in_a_crash_settles_nothing(
        self, connection: Connection, other: Connection
    ) -> None:
        # A claim is not flushed: after a crash its message is ready again, and the next
        # claim gives the same attempt number out.
        (lost,) = run(connection)
        connection.execute(
            "UPDATE pgqueue_message SET state = 'ready', attempt = attempt - 1, "
            "worker_id = NULL, lease_until = NULL, claimed_at = NULL"
        )
        (again,) = claim(other)

        assert again.attempt == lost.attempt
        for verb in (complete, retry, give_up, defer, discard):
            assert verb(connection, [lost]) == set()
        assert lease.extend(connection, [lost], lease=LEASE) == {}
        assert not lease.lock(connection, lost)
        assert complete(other, [again]) == {again.id}


class TestClaimBesideCancel:
    def test_a_claim_passes_over_what_is_being_cancelled(
        self, connection: Connection, other: Connection
    ) -> None:
        gone, kept = enqueue(connection, 2)

        with connection.transaction():
            cancel.cancel(connection, [gone])
            claims = claim(other)

        assert [each.id for each in claims] == [kept]
        assert outcomes() == {gone: Outcome.CANCELLED}

    def test_what_was_not_cancelled_after_all_can_be_claimed(
        self, connection: Connection, other: Connection
    ) -> None:
        (id,) = enqueue(connection)

        with connection.transaction(force_rollback=True):
            cancel.cancel(connection, [id])
            meanwhile = claim(other)

        assert meanwhile == []
        assert [each.id for each in claim(other)] == [id]

    def test_a_cancel_waits_for_a_claim_and_asks_its_run(
        self, connection: Connection, other: Connection, step: Stepping
    ) -> None:
        (id,) = enqueue(connection)

        with connection.transaction():
            (held,) = claim(connection)
            cancelling = step(cancel.cancel, other, [id])
            cancelling.waits()

        assert cancelling.result() == CancelledIds(set(), {id})
        assert lease.extend(connection, [held], lease=LEASE) == {id: True}

    def test_a_cancel_ends_what_was_not_claimed_after_all(
        self, connection: Connection, other: Connection, step: Stepping
    ) -> None:
        (id,) = enqueue(connection)

        with connection.transaction(force_rollback=True):
            claim(connection)
            cancelling = step(cancel.cancel, other, [id])
            cancelling.waits()

        assert cancelling.result() == CancelledIds({id}, set())
        assert outcomes() == {id: Outcome.CANCELLED}


class TestSettleBesideRescue:
    @every_settle
    def test_a_rescue_passes_over_what_is_being_settled(
        self, connection: Connection, other: Connection, verb: Callable[..., set[int]]
    ) -> None:
        claims = run(connection, 2, lease=OVER)

        with connection.transaction():
            verb(connection, claims[:1])
            rescued = rescue(other)

        assert rescued == {claims[1].id}
        assert rescue(other) == set()

    @every_settle
    def test_a_settle_passes_over_what_is_being_rescued_and_is_fenced_off_then(
        self, connection: Connection, other: Connection, verb: Callable[..., set[int]]
    ) -> None:
        claims = run(connection, 2, lease=OVER)

        with connection.transaction():
            rescue(connection)
            meanwhile = (verb(other, claims), lease.valid(other, claims))
        then = (verb(other, claims), lease.valid(other, claims))

        assert meanwhile == (set(), {each.id: False for each in claims})
        assert then == (set(), {})
        assert set(states().values()) == {State.READY}
        assert outcomes() == {}

    @every_settle
    def test_a_settle_goes_on_where_the_rescue_gave_up(
        self, connection: Connection, other: Connection, verb: Callable[..., set[int]]
    ) -> None:
        claims = run(connection, 2, lease=OVER)

        with connection.transaction(force_rollback=True):
            rescue(connection)
            meanwhile = verb(other, claims)

        assert meanwhile == set()
        assert verb(other, claims) == {each.id for each in claims}

    def test_a_settle_is_fenced_off_though_another_worker_claimed_meanwhile(
        self, connection: Connection, other: Connection
    ) -> None:
        (lost,) = run(connection, lease=OVER)

        with connection.transaction():
            rescue(connection)
            (again,) = claim(connection)
            meanwhile = (complete(other, [lost]), lease.valid(other, [lost]))
        then = (complete(other, [lost]), lease.valid(other, [lost, again]))

        assert meanwhile == (set(), {lost.id: False})
        assert then == (set(), {again.id: False})
        assert complete(connection, [again]) == {again.id}


class TestSettleBesideCancel:
    @every_settle
    def test_a_settle_passes_over_what_is_being_cancelled_and_settles_the_others(
        self, connection: Connection, other: Connection, verb: Callable[..., set[int]]
    ) -> None:
        asked, free = run(connection, 2)

        with connection.transaction():
            cancel.cancel(connection, [asked.id])
            settled = verb(other, [asked, free])
            kept = lease.valid(other, [asked, free])

        assert settled == {free.id}
        assert kept == {asked.id: False}

    @pytest.mark.parametrize("verb", [retry, give_up, defer])
    def test_a_run_that_failed_meanwhile_ends_as_asked(
        self, connection: Connection, other: Connection, verb: Callable[..., set[int]]
    ) -> None:
        (held,) = run(connection)

        with connection.transaction():
            cancel.cancel(connection, [held.id])
            meanwhile = verb(other, [held])

        assert (meanwhile, verb(other, [held])) == (set(), {held.id})
        assert outcomes() == {held.id: Outcome.CANCELLED}

    def test_a_run_that_succeeded_meanwhile_succeeds(
        self, connection: Connection, other: Connection
    ) -> None:
        (held,) = run(connection)

        with connection.transaction():
            cancel.cancel(connection, [held.id])
            meanwhile = complete(other, [held])

        assert (meanwhile, complete(other, [held])) == (set(), {held.id})
        message = History.objects.get()
        assert (message.outcome, message.cancel_requested_at is None) == ("succeeded", False)

    @every_settle
    def test_a_run_ends_as_it_ended_where_the_cancel_was_given_up(
        self, connection: Connection, other: Connection, verb: Callable[..., set[int]]
    ) -> None:
        (held,) = run(connection)

        with connection.transaction(force_rollback=True):
            cancel.cancel(connection, [held.id])
            meanwhile = verb(other, [held])

        assert (meanwhile, verb(other, [held])) == (set(), {held.id})
        assert Outcome.CANCELLED not in outcomes().values()

    def test_a_cancel_waits_for_a_settle_and_finds_nothing(
        self, connection: Connection, other: Connection, step: Stepping
    ) -> None:
        (held,) = run(connection)

        with connection.transaction():
            complete(connection, [held])
            cancelling = step(cancel.cancel, other, [held.id])
            cancelling.waits()

        assert cancelling.result() == NOTHING
        assert outcomes() == {held.id: Outcome.SUCCEEDED}

    def test_a_cancel_leaves_what_a_settle_buried(
        self, connection: Connection, other: Connection, step: Stepping
    ) -> None:
        (held,) = run(connection)

        with connection.transaction():
            give_up(connection, [held])
            cancelling = step(cancel.cancel, other, [held.id])
            cancelling.waits()

        assert cancelling.result() == NOTHING
        assert states() == {held.id: State.DEAD}

    @pytest.mark.parametrize("verb", [retry, defer])
    def test_a_cancel_ends_what_a_settle_gave_back(
        self,
        connection: Connection,
        other: Connection,
        step: Stepping,
        verb: Callable[..., set[int]],
    ) -> None:
        (held,) = run(connection)

        with connection.transaction():
            verb(connection, [held])
            cancelling = step(cancel.cancel, other, [held.id])
            cancelling.waits()

        assert cancelling.result() == CancelledIds({held.id}, set())
        assert outcomes() == {held.id: Outcome.CANCELLED}

    def test_two_cancels_end_it_once(
        self, connection: Connection, other: Connection, step: Stepping
    ) -> None:
        ids = enqueue(connection, 2)

        with connection.transaction():
            cancel.cancel(connection, ids)
            second = step(cancel.cancel, other, ids)
            second.waits()

        assert second.result() == NOTHING
        assert len(outcomes()) == 2


class TestHeartbeatBesideSettle:
    def test_a_heartbeat_never_waits_whatever_is_locked(
        self, connection: Connection, other: Connection
    ) -> None:
        claims = run(connection, 4)
        other.execute("SET lock_timeout = '1ms'")

        with connection.transaction():
            complete(connection, claims[:1])
            retry(connection, claims[1:2])
            cancel.cancel(connection, [claims[2].id])
            held = lease.extend(other, claims[::-1], lease=LEASE)

        # None of that was committed: they still are held.
        assert held == {each.id: False for each in claims}

    def test_a_settle_passes_over_what_is_being_renewed_and_it_is_held(
        self, connection: Connection, other: Connection
    ) -> None:
        claims = run(connection, 3)

        with connection.transaction():
            lease.extend(connection, claims[1:], lease=2 * LEASE)
            settled = complete(other, claims[::-1])
            held = lease.valid(other, claims)

        assert settled == {claims[0].id}
        assert held == {each.id: False for each in claims[1:]}
        assert complete(other, claims) == held.keys()

    def test_what_was_settled_between_its_two_looks_is_not_held(
        self, connection: Connection, other: Connection, third: Connection
    ) -> None:
        settled, kept = run(connection, 2)

        with connection.transaction():
            lease.lock(connection, kept)
            complete(other, [settled])
            held = lease.extend(third, [settled, kept], lease=LEASE)

        assert held == {kept.id: False}

    def test_a_rescue_passes_over_a_lease_that_is_being_renewed(
        self, connection: Connection, other: Connection
    ) -> None:
        claims = run(connection, 2, lease=OVER)

        with connection.transaction():
            lease.extend(connection, claims, lease=LEASE)
            rescued = rescue(other)

        assert (rescued, rescue(other)) == (set(), set())


@with_and_without_statistics
@every_settle
def test_a_settle_does_not_wait_and_skips_no_more_than_is_locked(
    connection: Connection,
    other: Connection,
    third: Connection,
    verb: Callable[..., set[int]],
    statistics: str,
) -> None:
    enqueue(connection, 1000, channel="backlog")
    claims = run(connection, 200)
    connection.execute(statistics)
    asked = {each.id for each in claims[::50]}
    held = {each.id for each in claims[1::50]}

    with connection.transaction(), third.transaction():
        cancel.cancel(connection, asked)
        for each in claims[1::50]:
            lease.lock(third, each)
        settled = verb(other, claims[::-1])

    assert settled == {each.id for each in claims} - asked - held


class TestTheOrderOfLocks:
    """Whatever waits for several rows locks them by their ids, in whatever order it is asked."""

    def moved(self, connection: Connection, ids: Sequence[int]) -> None:
        # Lets the rows lie in the table in the opposite order of their ids.
        for id in reversed(ids):
            change = "UPDATE pgqueue_message SET metadata = '{\"a\": 1}' WHERE id = %s"
            connection.execute(change, [id])

    def check(
        self,
        verb: Callable[[Connection], Any],
        ids: Sequence[int],
        holder: Connection,
        waiter: Connection,
        witness: Connection,
        step: Stepping,
        statistics: str,
    ) -> None:
        self.moved(witness, ids)
        witness.execute(statistics)
        # An index would give the ids in their order by chance.
        for scan in ("indexscan", "indexonlyscan", "bitmapscan"):
            waiter.execute(f"SET enable_{scan} = off")
        with holder.transaction():
            holder.execute("SELECT 1 FROM pgqueue_message WHERE id = %s FOR UPDATE", [min(ids)])
            waiting = step(verb, waiter)
            waiting.waits()
            free = witness.execute(
                "SELECT id FROM pgqueue_message WHERE id = ANY (%s) FOR UPDATE SKIP LOCKED",
                [list(ids)],
            ).fetchall()
        waiting.result()
        assert len(free) == len(ids) - 1, "it locked a later one before the first"

    @with_and_without_statistics
    @pytest.mark.parametrize(
        ("verb", "make"),
        [
            (cancel.cancel, enqueue),
            (promote.run_now, schedule),
            (dead.replay, bury),
            (dead.discard, bury),
            (held.commit, hold),
            (held.abandon, hold),
            (lease.release, lambda session, count: [each.id for each in run(session, count)]),
        ],
        ids=["cancel", "run_now", "replay", "discard", "commit", "abandon", "release"],
    )
    @pytest.mark.parametrize("turned", [False, True])
    def test_holds_for_what_people_do(
        self,
        connection: Connection,
        other: Connection,
        third: Connection,
        step: Stepping,
        verb: Callable[..., Any],
        make: Callable[..., list[int]],
        turned: bool,
        statistics: str,
    ) -> None:
        ids = make(connection, 5)
        asked = ids[::-1] if turned else ids

        self.check(
            lambda session: verb(session, asked), ids, connection, other, third, step, statistics
        )

    @with_and_without_statistics
    def test_holds_in_a_large_table(
        self,
        connection: Connection,
        other: Connection,
        third: Connection,
        step: Stepping,
        statistics: str,
    ) -> None:
        enqueue(connection, 5000, channel="backlog")
        ids = [each.id for each in run(connection, 200)]

        self.check(
            lambda session: cancel.cancel(session, ids[::-1]),
            ids,
            connection,
            other,
            third,
            step,
            statistics,
        )

    def test_does_not_deadlock(self, connect: Callable[..., Connection]) -> None:
        rounds = 40
        connections = [connect() for _ in range(4)]

        for _ in range(rounds):
            claims = run(connections[0], 30)
            ids = [each.id for each in claims]
            with ThreadPoolExecutor() as threads:
                ends: list[Future[Any]] = [
                    threads.submit(complete, connections[0], claims[::-2]),
                    threads.submit(cancel.cancel, connections[1], ids),
                    threads.submit(lease.extend, connections[2], claims[::-1], lease=LEASE),
                    threads.submit(retry, connections[3], claims[::-3]),
                ]
            for end in ends:
                end.result()  # raises what it raised: no deadlock
            connections[0].execute("DELETE FROM pgqueue_message")


class TestDeadLetters:
    def test_a_discard_waits_for_a_replay_and_finds_none(
        self, connection: Connection, other: Connection, step: Stepping
    ) -> None:
        ids = bury(connection, 2)

        with connection.transaction():
            dead.replay(connection, ids)
            discarding = step(dead.discard, other, ids)
            discarding.waits()

        assert discarding.result() == set()
        assert set(states().values()) == {State.READY}

    def test_a_replay_waits_for_a_discard_and_finds_none(
        self, connection: Connection, other: Connection, step: Stepping
    ) -> None:
        ids = bury(connection, 2)

        with connection.transaction():
            dead.discard(connection, ids)
            replaying = step(dead.replay, other, ids)
            replaying.waits()

        assert replaying.result() == set()
        assert set(outcomes().values()) == {Outcome.DISCARDED}

    def test_two_replays_replay_once(
        self, connection: Connection, other: Connection, step: Stepping
    ) -> None:
        ids = bury(connection, 2)

        with connection.transaction():
            first = dead.replay(connection, ids)
            second = step(dead.replay, other, ids)
            second.waits()

        assert (first, second.result()) == (set(ids), set())

    def test_a_cancel_ends_what_is_replayed(
        self, connection: Connection, other: Connection, step: Stepping
    ) -> None:
        ids = bury(connection, 2)

        with connection.transaction():
            dead.replay(connection, ids)
            cancelling = step(cancel.cancel, other, ids)
            cancelling.waits()

        assert cancelling.result() == CancelledIds(set(ids), set())

    def test_the_old_worker_of_a_replayed_one_settles_nothing(
        self, connection: Connection, other: Connection
    ) -> None:
        (held,) = run(connection, lease=OVER)
        lease.rescue(connection, max_lost=1)
        dead.replay(connection, [held.id])
        (again,) = claim(other, worker_id=held.worker_id)

        assert again.attempt == held.attempt + 1
        assert complete(connection, [held]) == set()
        assert complete(other, [again]) == {held.id}


class TestDelayedMessages:
    def test_the_promoter_passes_over_what_is_being_cancelled(
        self, connection: Connection, other: Connection
    ) -> None:
        gone, due = schedule(connection, 2)
        make_due(connection, [gone, due])

        with connection.transaction():
            cancel.cancel(connection, [gone])
            promoted = promote.promote(other)

        assert promoted == 1
        assert states() == {due: State.READY}

    def test_a_cancel_waits_for_the_promoter_and_ends_it_all_the_same(
        self, connection: Connection, other: Connection, step: Stepping
    ) -> None:
        ids = schedule(connection, 2)
        make_due(connection, ids)

        with connection.transaction():
            promote.promote(connection)
            cancelling = step(cancel.cancel, other, ids)
            cancelling.waits()

        assert cancelling.result() == CancelledIds(set(ids), set())

    def test_run_now_waits_for_the_promoter_and_finds_nothing_to_do(
        self, connection: Connection, other: Connection, step: Stepping
    ) -> None:
        ids = schedule(connection, 2)
        make_due(connection, ids)

        with connection.transaction():
            promote.promote(connection)
            running = step(promote.run_now, other, ids)
            running.waits()

        assert running.result() == set()
        assert set(states().values()) == {State.READY}

    def test_the_promoter_passes_over_what_is_being_run_now(
        self, connection: Connection, other: Connection
    ) -> None:
        ids = schedule(connection, 2)
        make_due(connection, ids)

        with connection.transaction():
            promote.run_now(connection, ids[:1])
            promoted = promote.promote(other)

        assert promoted == 1
        assert set(states().values()) == {State.READY}

    def test_two_promoters_share_what_is_due(
        self, connection: Connection, other: Connection
    ) -> None:
        make_due(connection, schedule(connection, 5))

        with connection.transaction():
            first = promote.promote(connection, limit=2)
            second = promote.promote(other)

        assert (first, second) == (2, 3)


class TestTwoRescuers:
    def test_share_what_is_lost(self, connection: Connection, other: Connection) -> None:
        claims = run(connection, 5, lease=OVER)

        with connection.transaction():
            first = {each.id for each in lease.rescue(connection, max_lost=3, limit=2)}
            second = rescue(other)

        assert first | second == {each.id for each in claims}
        assert not first & second

    def test_charge_a_loss_once(self, connection: Connection, other: Connection) -> None:
        run(connection, lease=OVER)

        with connection.transaction():
            rescue(connection)
            rescue(other)
        rescue(other)

        assert Message.objects.get().lost == 1


class TestAnAtomicTask:
    """It locks its own row, works, and settles in the same transaction."""

    @pytest.fixture(params=IsolationLevel)
    def task(self, connection: Connection, request: pytest.FixtureRequest) -> Connection:
        connection.isolation_level = request.param
        return connection

    def test_settles_though_it_was_beaten_for_meanwhile(
        self, task: Connection, other: Connection
    ) -> None:
        (held,) = run(other, lease=OVER)

        with task.transaction():
            assert lease.lock(task, held)
            (effect,) = enqueue(task, channel="effect")
            assert lease.extend(other, [held], lease=LEASE) == {held.id: False}
            assert rescue(other) == set()
            assert complete(task, [held]) == {held.id}

        assert outcomes() == {held.id: Outcome.SUCCEEDED}
        assert states() == {effect: State.READY}

    @every_settle
    def test_settles_though_a_cancel_waits_for_it(
        self,
        task: Connection,
        other: Connection,
        third: Connection,
        step: Stepping,
        verb: Callable[..., set[int]],
    ) -> None:
        # Who waits for a row stands first in the queue for it: not before who has it.
        (held,) = run(other)

        with task.transaction():
            lease.lock(task, held)
            cancelling = step(cancel.cancel, third, [held.id])
            cancelling.waits()
            assert verb(task, [held]) == {held.id}

        has_ended = verb in (complete, discard, give_up)
        assert cancelling.result() == (NOTHING if has_ended else CancelledIds({held.id}, set()))

    def test_that_is_rolled_back_keeps_its_lease(self, task: Connection, other: Connection) -> None:
        (held,) = run(other)

        with task.transaction(force_rollback=True):
            lease.lock(task, held)
            complete(task, [held])

        assert lease.extend(other, [held], lease=LEASE) == {held.id: False}

    def test_is_told_where_it_and_another_cancel_each_other(
        self, connection: Connection, other: Connection, step: Stepping
    ) -> None:
        one, two = run(connection, 2)
        both_hold = Barrier(2)

        def task(session: Connection, mine: Claim, theirs: Claim) -> CancelledIds:
            with session.transaction():
                lease.lock(session, mine)
                both_hold.wait(20)
                return cancel.cancel(session, [theirs.id])

        tasks = [step(task, connection, one, two), step(task, other, two, one)]
        errors = [each.future.exception(20) for each in tasks]

        # PostgreSQL chooses one; the other goes on. Neither message is lost.
        assert sorted(type(error).__name__ for error in errors) == ["DeadlockDetected", "NoneType"]
        assert set(states().values()) == {State.RUNNING}

    def test_of_djangos_settles_in_its_transaction(self, other: Connection) -> None:
        (held,) = run(other, lease=OVER)

        with transaction.atomic():
            django_connection.ensure_connection()
            assert lease.lock(django_connection.connection, held)
            (effect,) = enqueue(django_connection, channel="effect")
            assert rescue(other) == set()
            assert settle.retry(django_connection.connection, [failure(held)]) == {held.id}

        assert states() == {held.id: State.READY, effect: State.READY}


class TestADatabaseThatIsStricterByDefault:
    """Its transactions are REPEATABLE READ or SERIALIZABLE, unless one says otherwise."""

    @pytest.fixture(params=["repeatable read", "serializable"])
    def strict(self, request: pytest.FixtureRequest) -> Iterator[str]:
        settings = connections["default"].settings_dict
        level = request.param.replace(" ", "\\ ")
        connections.databases["strict"] = {
            **settings,
            "OPTIONS": {
                **settings["OPTIONS"],
                "options": f"-c default_transaction_isolation={level}",
            },
        }
        yield "strict"
        connections["strict"].close()
        del connections["strict"]
        del connections.databases["strict"]

    def test_lets_workers_wait_for_each_other(
        self,
        connection: Connection,
        connect: Callable[..., Connection],
        step: Stepping,
        strict: str,
    ) -> None:
        ids = enqueue(connection, 2)

        with connection.transaction():
            claim(connection)
            cancelling = step(cancel.cancel, connect(strict), ids)
            cancelling.waits()

        assert cancelling.result() == CancelledIds(set(), set(ids))

    def test_lets_a_claim_see_what_was_committed_since_though_a_pooler_keeps_no_setting(
        self,
        connection: Connection,
        connect: Callable[..., Connection],
        monkeypatch: pytest.MonkeyPatch,
        strict: str,
    ) -> None:
        monkeypatch.setattr("pgqueue.database.connections._server", lambda connection: (0, False))
        pooled = connect(strict)
        query = "SELECT count(*) FROM pgqueue_message"

        with pooled.transaction():
            before = one(pooled, query)
            enqueue(connection)
            after = one(pooled, query)

        assert (before, after) == ((0,), (1,))

    def test_lets_producers_enqueue(self, connection: Connection, strict: str) -> None:
        with transaction.atomic(using=strict):
            (first,) = enqueue(connections[strict])
            claims = run(connection, channel="other")
            complete(connection, claims)
            (second,) = enqueue(connections[strict])

        assert [each.id for each in claim(connection)] == [first, second]
