"""How runs end: each verb is fenced, and what it writes is complete."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from django.db import connection as django_connection
from django.db import transaction

from pgqueue.engine import cancel, dead, lease, lookup, partitions, settle
from pgqueue.engine.cancel import CancelledIds
from pgqueue.engine.settle import Deferral, Failure
from pgqueue.engine.values import Claim, Lease
from pgqueue.models import History, Message
from pgqueue.states import Outcome, State
from tests.factories import (
    Connection,
    Listening,
    bury,
    claim,
    done,
    enqueue,
    failure,
    insert,
    one,
    register,
)
from tests.factories import run as start

Verb = Callable[[Connection, Sequence[Lease | Claim]], set[int]]

DELAY = timedelta(minutes=5)


def complete(connection: Connection, leases: Sequence[Lease | Claim]) -> set[int]:
    return settle.complete(connection, [done(each) for each in leases])


def retry(connection: Connection, leases: Sequence[Lease | Claim]) -> set[int]:
    return settle.retry(connection, [failure(each, delay=DELAY) for each in leases])


def retry_now(connection: Connection, leases: Sequence[Lease | Claim]) -> set[int]:
    return settle.retry(connection, [failure(each) for each in leases])


def give_up(connection: Connection, leases: Sequence[Lease | Claim]) -> set[int]:
    return settle.bury(connection, [failure(each) for each in leases])


def defer(connection: Connection, leases: Sequence[Lease | Claim]) -> set[int]:
    return settle.defer(connection, [Deferral(each, DELAY) for each in leases])


def release(connection: Connection, leases: Sequence[Lease | Claim]) -> set[int]:
    return settle.release(connection, leases)


every_verb = pytest.mark.parametrize(
    "verb", [complete, retry, retry_now, give_up, defer, release], ids=lambda verb: verb.__name__
)
every_failing_verb = pytest.mark.parametrize(
    "verb", [retry, retry_now, give_up, defer, release], ids=lambda verb: verb.__name__
)
STATES: dict[Any, State | None] = {
    complete: None,
    retry: State.SCHEDULED,
    retry_now: State.READY,
    give_up: State.DEAD,
    defer: State.SCHEDULED,
    release: State.READY,
}


@every_verb
class TestEveryVerb:
    def test_changes_what_it_holds(self, connection: Connection, verb: Verb) -> None:
        claims = start(connection, 3)

        settled = verb(connection, claims)

        assert settled == {each.id for each in claims}
        states = set(Message.objects.values_list("state", flat=True))
        assert states == {STATES[verb]} - {None}
        assert not Message.objects.exclude(worker_id=None, lease_until=None).exists()

    @pytest.mark.parametrize("part", ["id", "attempt", "worker_id", "state"])
    def test_is_fenced_by(self, connection: Connection, verb: Verb, part: str) -> None:
        (held,) = start(connection)
        (other,) = start(connection, channel="other")
        wrong: Lease = {
            "id": Lease(other.id, held.attempt, held.worker_id),
            "attempt": Lease(held.id, held.attempt - 1, held.worker_id),
            "worker_id": Lease(held.id, held.attempt, uuid4()),
            "state": held.lease,
        }[part]
        if part == "state":
            # No verb leaves the rest of the fence in place; nothing may rely on that.
            connection.execute("UPDATE pgqueue_message SET state = 'ready'")
        before = list(Message.objects.order_by("id").values())

        settled = verb(connection, [wrong])

        assert settled == set()
        assert list(Message.objects.order_by("id").values()) == before
        assert not History.objects.exists()

    def test_settles_the_others_where_one_lease_is_lost(
        self, connection: Connection, verb: Verb
    ) -> None:
        lost, *kept = start(connection, 3)
        connection.execute(
            "UPDATE pgqueue_message SET lease_until = 'epoch' WHERE id = %s", [lost.id]
        )
        lease.rescue(connection, max_lost=3)

        settled = verb(connection, [kept[1], lost, kept[0]])

        assert settled == {each.id for each in kept}
        assert Message.objects.get(pk=lost.id).lost == 1

    def test_done_twice_does_nothing_the_second_time(
        self, connection: Connection, verb: Verb
    ) -> None:
        claims = start(connection, 2)
        verb(connection, claims)
        before = list(Message.objects.order_by("id").values()), History.objects.count()

        settled = verb(connection, claims)

        assert settled == set()
        assert (list(Message.objects.order_by("id").values()), History.objects.count()) == before

    def test_of_one_lease_twice_in_a_batch_is_as_of_one(
        self, connection: Connection, verb: Verb
    ) -> None:
        (held,) = start(connection)

        settled = verb(connection, [held, held])

        assert settled == {held.id}
        assert Message.objects.count() + History.objects.count() == 1

    def test_of_nothing_does_nothing(self, connection: Connection, verb: Verb) -> None:
        start(connection)

        assert verb(connection, []) == set()

    def test_may_be_of_ten_thousand(self, connection: Connection, verb: Verb) -> None:
        claims = start(connection, 10_000)
        # By statistics of an empty table, ten thousand rows may be joined by nested loops.
        connection.execute("ANALYZE pgqueue_message")

        settled = verb(connection, claims)

        assert len(settled) == 10_000

    def test_takes_the_rest_of_its_transaction_along(
        self, connection: Connection, verb: Verb
    ) -> None:
        claims = start(connection, 2)

        with connection.transaction(force_rollback=True):
            settled = verb(connection, claims)

        assert len(settled) == 2
        assert Message.objects.filter(state=State.RUNNING).count() == 2
        assert not History.objects.exists()


class TestTwoRunsOfOneMessageInABatch:
    """The worker lost the lease, claimed the message again, and both runs ended meanwhile."""

    @pytest.fixture
    def stale(self, connection: Connection) -> Claim:
        (stale,) = start(connection)
        connection.execute("UPDATE pgqueue_message SET lease_until = 'epoch'")
        lease.rescue(connection, max_lost=3)
        return stale

    @pytest.fixture
    def fresh(self, connection: Connection, stale: Claim) -> Claim:
        (fresh,) = claim(connection, worker_id=stale.worker_id)
        return fresh

    @pytest.mark.parametrize("turned", [False, True])
    def test_leave_one_row_of_history_and_it_is_the_second_ones(
        self, connection: Connection, stale: Claim, fresh: Claim, turned: bool
    ) -> None:
        batch = [done(stale, '"stale"', finished=1), done(fresh, '"fresh"', finished=2)]

        settle.complete(connection, batch[::-1] if turned else batch)

        assert list(History.objects.values_list("attempt", "result")) == [(2, "fresh")]

    @pytest.mark.parametrize("turned", [False, True])
    def test_are_retried_as_the_second_one_says(
        self, connection: Connection, stale: Claim, fresh: Claim, turned: bool
    ) -> None:
        batch = [
            Failure(stale, '{"class": "Stale"}', 0, timedelta(hours=1)),
            Failure(fresh, '{"class": "Fresh"}', 0),
        ]

        settle.retry(connection, batch[::-1] if turned else batch)

        message = Message.objects.get()
        assert (message.state, message.failures) == (State.READY, 1)
        assert message.errors[-1]["class"] == "Fresh"

    @pytest.mark.parametrize("turned", [False, True])
    def test_are_buried_with_the_second_ones_error(
        self, connection: Connection, stale: Claim, fresh: Claim, turned: bool
    ) -> None:
        batch = [failure(stale, '{"class": "Stale"}'), failure(fresh, '{"class": "Fresh"}')]

        settle.bury(connection, batch[::-1] if turned else batch)

        assert Message.objects.get().errors[-1]["class"] == "Fresh"

    @pytest.mark.parametrize("turned", [False, True])
    def test_are_deferred_as_the_second_one_says(
        self, connection: Connection, stale: Claim, fresh: Claim, turned: bool
    ) -> None:
        batch = [Deferral(stale, timedelta(hours=1)), Deferral(fresh, timedelta())]

        settle.defer(connection, batch[::-1] if turned else batch)

        assert Message.objects.get().state == State.READY


class TestComplete:
    def test_moves_every_column_into_history(self, connection: Connection) -> None:
        (id,) = enqueue(
            connection,
            channel="c",
            key="k",
            task="t",
            payloads=['{"p": 1}'],
            metadata='{"m": 2}',
            options='{"o": 3}',
            priority=4,
            max_attempts=6,
        )
        connection.execute(
            "UPDATE pgqueue_message SET body = '\\x00ff', expires_at = '2100-01-01', failures = 7, "
            "lost = 8, dedupe_key = 'd', progress = '[9]', errors = '[10]', parent_id = 11, "
            "ordered = true"
        )
        (held,) = claim(connection, "c")
        cancel.cancel(connection, [id])
        before: dict[str, Any] = dict(Message.objects.values().get())

        settle.complete(connection, [done(held, '{"r": 12}')])

        ended: dict[str, Any] = dict(History.objects.values().get())
        moved = {name: value for name, value in before.items() if name in ended}
        assert set(before) - set(moved) == {
            *("rank", "state", "governed", "lease_until", "lease_for", "debounced")
        }
        for column in moved:
            if column != "started_at":
                assert ended[column] == before[column], column
        assert ended["cancel_requested_at"] and ended["worker_id"] == held.worker_id
        assert (ended["outcome"], ended["result"]) == (Outcome.SUCCEEDED, {"r": 12})
        assert not Message.objects.exists()

    def test_says_when_it_ran_by_the_databases_clock(self, connection: Connection) -> None:
        (held,) = start(connection)
        connection.execute(
            "UPDATE pgqueue_message SET claimed_at = claimed_at - interval '1 minute'"
        )

        settle.complete(connection, [done(held, started=0.25, finished=1.5)])

        ended = History.objects.get()
        assert ended.claimed_at and ended.started_at
        assert ended.started_at - ended.claimed_at == timedelta(seconds=0.25)
        assert ended.finished_at - ended.claimed_at == timedelta(seconds=1.5)

    def test_never_ends_in_the_future(self, connection: Connection) -> None:
        # A worker whose monotonic clock runs fast, or a database whose clock was set back.
        (held,) = start(connection)

        settle.complete(connection, [done(held, started=9 * 86400, finished=10 * 86400)])

        (now,) = one(connection, "SELECT clock_timestamp()")
        ended = History.objects.get()
        assert ended.started_at and ended.started_at <= ended.finished_at <= now

    def test_notes_the_transaction(self, connection: Connection) -> None:
        (held,) = start(connection)

        with connection.transaction():
            complete(connection, [held])
            (txid,) = one(connection, "SELECT pg_current_xact_id()::text")

        assert History.objects.get().txid == int(txid)

    def test_of_some_with_and_some_without_a_result(self, connection: Connection) -> None:
        claims = start(connection, 4)
        results = ["1", None, "null", '{"a": [1.5, "\\u00e9"]}']

        settle.complete(
            connection, [done(each, result) for each, result in zip(claims, results, strict=True)]
        )

        texts = connection.execute("SELECT result::text FROM pgqueue_history ORDER BY id")
        assert [text for (text,) in texts] == ["1", None, "null", '{"a": [1.5, "é"]}']

    @pytest.mark.parametrize("result", ['"{a,b}"', '"NULL"', '"\\\\"', '"\\"\'%s%%"', '""'])
    def test_takes_results_for_what_they_are(self, connection: Connection, result: str) -> None:
        (held,) = start(connection)

        settle.complete(connection, [done(held, result)])

        assert History.objects.get().result == json.loads(result)

    def test_succeeds_though_it_was_to_be_cancelled(self, connection: Connection) -> None:
        (held,) = start(connection)
        cancel.cancel(connection, [held.id])

        complete(connection, [held])

        assert History.objects.get().outcome == Outcome.SUCCEEDED

    def test_of_a_run_that_ended_long_ago_is_written_all_the_same(
        self, connection: Connection
    ) -> None:
        # The database was away for days; no worker made partitions for those, or they were purged.
        (held,) = start(connection)
        (other,) = start(connection, channel="other")
        connection.execute(
            "UPDATE pgqueue_message SET claimed_at = claimed_at - interval '50 days' WHERE id = %s",
            [held.id],
        )

        settled = settle.complete(connection, [done(held, finished=1), done(other)])

        assert settled == {held.id, other.id}


class TestRetry:
    def test_charges_a_failure_and_waits(self, connection: Connection) -> None:
        (held,) = start(connection)

        retry(connection, [held])

        message = Message.objects.get()
        assert (message.state, message.failures, message.attempt) == (State.SCHEDULED, 1, 1)
        (error,) = message.errors
        assert error["class"] == "Oops"
        assert message.run_at - datetime.fromisoformat(error["at"]) == DELAY
        assert message.started_at == message.claimed_at

    def test_waits_for_its_delay_alone_however_long_its_lease_was(
        self, connection: Connection
    ) -> None:
        (held,) = start(connection)
        lease.extend(connection, [held], lease=timedelta(hours=5))

        retry(connection, [held])

        message = Message.objects.get()
        assert message.lease_until is None
        assert message.run_at - datetime.fromisoformat(message.errors[0]["at"]) == DELAY

    def test_without_delay_is_ready_behind_what_waits(self, connection: Connection) -> None:
        (held,) = start(connection)
        (waiting,) = enqueue(connection)

        retry_now(connection, [held])

        assert [each.id for each in claim(connection)] == [waiting, held.id]

    def test_each_by_its_own_delay_and_error(self, connection: Connection) -> None:
        claims = start(connection, 3)
        delays = [timedelta(), timedelta(seconds=0.001), timedelta(days=400)]

        settle.retry(
            connection,
            [
                Failure(each, f'{{"n": {n}}}', 0, delay)
                for n, (each, delay) in enumerate(zip(claims, delays, strict=True))
            ],
        )

        messages = list(Message.objects.order_by("id"))
        assert [each.state for each in messages] == ["ready", "scheduled", "scheduled"]
        assert [each.errors[0]["n"] for each in messages] == [0, 1, 2]
        for each, delay in zip(messages, delays, strict=True):
            assert each.run_at - datetime.fromisoformat(each.errors[0]["at"]) == delay

    def test_waits_no_longer_than_a_date_can_tell(self, connection: Connection) -> None:
        # A backoff that grows without bounds, or counts in the wrong unit.
        endless, other = start(connection, 2)

        settled = settle.retry(
            connection, [failure(endless, delay=timedelta.max), failure(other, delay=DELAY)]
        )

        assert settled == {endless.id, other.id}
        assert {each.state for each in Message.objects.all()} == {State.SCHEDULED}

    def test_keeps_the_first_error_and_the_last_nine(self, connection: Connection) -> None:
        enqueue(connection)

        for n in range(1, 15):
            (held,) = claim(connection)
            settle.retry(connection, [Failure(held, f'{{"n": {n}}}', 0)])

        message = Message.objects.get()
        assert [each["n"] for each in message.errors] == [1, *range(6, 15)]
        assert (message.failures, message.attempt) == (14, 14)

    def test_keeps_the_first_error_and_the_last_nine_of_the_lost_too(
        self, connection: Connection
    ) -> None:
        enqueue(connection)
        connection.execute("UPDATE pgqueue_message SET errors = (SELECT jsonb_agg(n) "
                           "FROM generate_series(1, 10) n)")  # fmt: skip
        start_over = claim(connection, lease=timedelta(seconds=-1))

        lease.rescue(connection, max_lost=1)

        errors = Message.objects.get().errors
        assert start_over
        assert errors[:9] == [1, *range(3, 11)]
        assert errors[9]["class"] == "pgqueue.exceptions.LeaseLost"

    def test_tells_workers_that_wait_for_the_channel_if_it_is_ready(
        self, connection: Connection, other: Connection
    ) -> None:
        register(connection, channels=["told"], notify_for=timedelta(minutes=1))
        listening = Listening(other)
        later = start(connection, channel="told")
        ready = [*start(connection, 2, channel="told"), *start(connection, channel="untold")]
        listening.heard()

        retry(connection, later)
        before = listening.heard()
        retry_now(connection, ready)

        assert (before, listening.heard()) == ([], ["told"])


class TestBury:
    def test_keeps_a_dead_letter_with_its_error(self, connection: Connection) -> None:
        (held,) = start(connection)
        connection.execute(
            "UPDATE pgqueue_message SET claimed_at = claimed_at - interval '1 minute'"
        )

        settle.bury(connection, [Failure(held, '{"class": "Oops"}', 0.5)])

        message = Message.objects.get()
        assert (message.state, message.failures, message.worker_id) == (State.DEAD, 1, None)
        assert message.errors[0]["class"] == "Oops" and message.errors[0]["at"]
        assert message.started_at and message.claimed_at
        assert message.started_at - message.claimed_at == timedelta(seconds=0.5)
        assert not claim(connection)


class TestDefer:
    def test_charges_nothing(self, connection: Connection) -> None:
        (held,) = start(connection)

        defer(connection, [held])

        message = Message.objects.get()
        assert (message.state, message.failures, message.lost) == (State.SCHEDULED, 0, 0)
        assert (message.attempt, message.errors) == (1, [])
        assert message.run_at > held.run_at + DELAY

    def test_without_delay_gives_its_old_place_back(self, connection: Connection) -> None:
        (held,) = start(connection)
        (behind,) = enqueue(connection)

        release(connection, [held])

        assert [each.id for each in claim(connection)] == [held.id, behind]
        assert Message.objects.get(pk=held.id).run_at == held.run_at

    def test_tells_workers_that_wait_for_the_channel(
        self, connection: Connection, other: Connection
    ) -> None:
        register(connection, notify_for=timedelta(minutes=1))
        listening = Listening(other)
        held = start(connection)
        listening.heard()

        release(connection, held)

        assert listening.heard() == ["default"]


class TestACancelRequest:
    @every_failing_verb
    def test_is_obeyed_however_else_the_run_ended(self, connection: Connection, verb: Verb) -> None:
        asked, spared = start(connection, 2)
        cancel.cancel(connection, [asked.id])

        settled = verb(connection, [asked, spared])

        ended = History.objects.get()
        assert settled == {asked.id, spared.id}
        assert (ended.pk, ended.outcome, ended.worker_id) == (
            asked.id,
            Outcome.CANCELLED,
            asked.worker_id,
        )
        assert ended.cancel_requested_at
        assert ended.cancel_requested_at <= ended.finished_at
        assert Message.objects.get().pk == spared.id

    def test_is_obeyed_where_the_worker_died(self, connection: Connection) -> None:
        asked, spared = start(connection, 2, lease=timedelta(seconds=-1))
        cancel.cancel(connection, [asked.id])

        rescued = lease.rescue(connection, max_lost=3)

        assert {each.id: each.state for each in rescued} == {
            asked.id: "cancelled",
            spared.id: "ready",
        }
        assert History.objects.get().outcome == Outcome.CANCELLED

    def test_keeps_the_time_when_it_was_first_made(self, connection: Connection) -> None:
        (held,) = start(connection)
        cancel.cancel(connection, [held.id])
        first = Message.objects.get().cancel_requested_at

        cancel.cancel(connection, [held.id])

        assert Message.objects.get().cancel_requested_at == first


class TestCancel:
    @pytest.mark.parametrize("state", [State.HELD, State.SCHEDULED, State.READY])
    def test_ends_what_waits(self, connection: Connection, state: State) -> None:
        id = insert(connection, state=state)

        cancelled = cancel.cancel(connection, [id])

        assert cancelled == CancelledIds({id}, set())
        assert History.objects.get().outcome == Outcome.CANCELLED
        assert not Message.objects.exists()

    def test_only_asks_what_runs(self, connection: Connection) -> None:
        (held,) = start(connection)

        cancelled = cancel.cancel(connection, [held.id])

        message = Message.objects.get()
        assert cancelled == CancelledIds(set(), {held.id})
        assert (message.state, message.worker_id) == (State.RUNNING, held.worker_id)
        assert message.cancel_requested_at

    def test_knows_nothing_of_what_has_ended(self, connection: Connection) -> None:
        (held,) = start(connection)
        complete(connection, [held])

        assert cancel.cancel(connection, [held.id, 2**62]) == CancelledIds(set(), set())

    def test_may_be_of_ten_thousand_or_of_none(self, connection: Connection) -> None:
        ids = enqueue(connection, 10_000)

        assert cancel.cancel(connection, []) == CancelledIds(set(), set())
        assert cancel.cancel(connection, [*ids, *ids[:5]]) == CancelledIds(set(ids), set())
        assert History.objects.count() == 10_000


class TestADeadLetter:
    def test_may_be_replayed_under_a_new_attempt(self, connection: Connection) -> None:
        (id,) = bury(connection)
        dying = Message.objects.get()

        replayed = dead.replay(connection, [id])

        message = Message.objects.get()
        assert replayed == {id}
        assert (message.state, message.attempt) == (State.READY, 1)
        assert (message.failures, message.lost) == (0, 0)
        assert message.errors == dying.errors
        assert message.run_at > dying.run_at
        (again,) = claim(connection)
        assert again.attempt == 2

    def test_may_be_discarded(self, connection: Connection) -> None:
        ids = bury(connection, 2)

        discarded = dead.discard(connection, ids)

        assert discarded == set(ids)
        assert {each.outcome for each in History.objects.all()} == {Outcome.DISCARDED}
        assert History.objects.get(pk=ids[0]).errors[0]["class"] == "Oops"
        assert not Message.objects.exists()

    @pytest.mark.parametrize("verb", [dead.replay, dead.discard])
    @pytest.mark.parametrize("state", [each for each in State if each != State.DEAD])
    def test_is_all_that_they_touch(
        self, connection: Connection, verb: Callable[..., set[int]], state: State
    ) -> None:
        id = insert(connection, state=state, attempt=1, worker_id=UUID(int=1))
        before = Message.objects.values().get()

        changed = verb(connection, [id])

        assert changed == set()
        assert Message.objects.values().get() == before

    def test_tells_workers_that_wait_when_it_is_replayed(
        self, connection: Connection, other: Connection
    ) -> None:
        register(connection, notify_for=timedelta(minutes=1))
        ids = bury(connection, 2)
        listening = Listening(other)

        dead.replay(connection, ids)

        assert listening.heard() == ["default"]


def today(connection: Connection) -> date:
    day: date = one(connection, "SELECT (statement_timestamp() AT TIME ZONE 'UTC')::date")[0]
    return day


def drop_today(connection: Connection) -> None:
    # A test that runs at midnight may miss its day; it then shows nothing, and passes.
    connection.execute(f"DROP TABLE IF EXISTS pgqueue_history_{today(connection):%Y%m%d}")


class TestAMissingPartition:
    @pytest.fixture(autouse=True)
    def _made_again(self, connection: Connection) -> Any:
        yield
        partitions.ensure(connection)

    @every_verb
    def test_is_made_and_the_settle_repeated(self, connection: Connection, verb: Verb) -> None:
        claims = start(connection, 2)
        cancel.cancel(connection, [each.id for each in claims])
        drop_today(connection)

        settled = verb(connection, claims)

        assert settled == {each.id for each in claims}
        assert History.objects.count() == 2

    def test_is_made_though_the_statements_were_prepared_before(
        self, connection: Connection, other: Connection
    ) -> None:
        claims = start(connection, 20)
        for each in claims[:10]:
            complete(connection, [each])
            assert lookup.find(other, each.id)
        drop_today(connection)

        settled = [complete(connection, [each]) for each in claims[10:]]

        assert settled == [{each.id} for each in claims[10:]]
        assert all(lookup.find(other, each.id) for each in claims[10:])

    def test_is_made_for_a_cancel(self, connection: Connection) -> None:
        ids = enqueue(connection, 2)
        drop_today(connection)

        assert cancel.cancel(connection, ids).ended == set(ids)
        assert History.objects.count() == 2

    def test_is_made_for_a_discard(self, connection: Connection) -> None:
        ids = bury(connection, 2)
        drop_today(connection)

        assert dead.discard(connection, ids) == set(ids)
        assert History.objects.count() == 2

    def test_is_made_for_a_rescue_that_cancels(self, connection: Connection) -> None:
        held, *rest = start(connection, 2, lease=timedelta(seconds=-1))
        cancel.cancel(connection, [held.id])
        drop_today(connection)

        rescued = lease.rescue(connection, max_lost=3)

        assert {each.id for each in rescued} == {held.id, rest[0].id}
        assert History.objects.get().pk == held.id

    def test_undoes_nothing_of_the_transaction_around(self, connection: Connection) -> None:
        (held,) = start(connection)
        drop_today(connection)

        with connection.transaction():
            (effect,) = enqueue(connection, channel="effect")
            settled = complete(connection, [held])

        assert settled == {held.id}
        assert History.objects.get().pk == held.id
        assert Message.objects.get().pk == effect

    def test_goes_with_the_transaction_around(self, connection: Connection) -> None:
        (held,) = start(connection)
        drop_today(connection)

        with connection.transaction(force_rollback=True):
            complete(connection, [held])
        settled = complete(connection, [held])

        assert settled == {held.id}
        assert History.objects.get().pk == held.id

    def test_is_made_in_a_transaction_of_djangos(self, connection: Connection) -> None:
        (held,) = start(connection)
        drop_today(connection)

        with transaction.atomic():
            (effect,) = enqueue(django_connection, channel="effect")
            settled = complete(django_connection.connection, [held])

        assert settled == {held.id}
        assert History.objects.get().pk == held.id
        assert Message.objects.get().pk == effect

    def test_is_made_though_nothing_came_before_in_a_transaction_of_djangos(
        self, connection: Connection
    ) -> None:
        ids = enqueue(connection, 2)
        drop_today(connection)
        django_connection.ensure_connection()

        with transaction.atomic():
            cancelled = cancel.cancel(django_connection.connection, ids[:1])
            cancel.cancel(django_connection.connection, ids[1:])
            transaction.set_rollback(True)

        assert cancelled.ended == {ids[0]}
        assert Message.objects.count() == 2, "it was committed behind Django's back"
        assert not History.objects.exists()

    def test_is_not_what_it_takes_for_a_transaction_of_djangos_to_be_undone(
        self, connection: Connection
    ) -> None:
        # No day is missing, and nothing came before: psycopg must not begin, and commit, a
        # transaction of its own where Django is in one that it has sent nothing of yet.
        ids = enqueue(connection, 2)
        django_connection.ensure_connection()

        with transaction.atomic():
            cancel.cancel(django_connection.connection, ids)
            transaction.set_rollback(True)

        assert Message.objects.count() == 2, "it was committed behind Django's back"
        assert not History.objects.exists()

    def test_that_cannot_be_made_fails_and_loses_nothing(
        self, connection: Connection, other: Connection
    ) -> None:
        (held,) = start(connection)
        drop_today(connection)

        with other.transaction():
            # Someone rewrites history; a settle waits no longer than its lock_timeout.
            other.execute("LOCK TABLE pgqueue_history IN SHARE UPDATE EXCLUSIVE MODE")
            connection.execute("SET statement_timeout = '200ms'")
            with pytest.raises(psycopg.errors.QueryCanceled):
                complete(connection, [held])
        connection.execute("RESET statement_timeout")

        assert complete(connection, [held]) == {held.id}


def test_a_day_is_that_of_utc_whatever_the_sessions_time_zone(connection: Connection) -> None:
    connection.execute("SET TIME ZONE 'Pacific/Kiritimati'")  # 14 hours ahead
    (held,) = start(connection)
    connection.execute("SET DateStyle = 'SQL, DMY'")
    drop_today(connection)

    complete(connection, [held])

    row = connection.execute("SELECT tableoid::regclass::text FROM pgqueue_history").fetchone()
    assert row == (f"pgqueue_history_{datetime.now(UTC):%Y%m%d}",)
