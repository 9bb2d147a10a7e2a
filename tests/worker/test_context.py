"""What a task may ask for while it runs: each task here does one such thing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from time import monotonic
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock
from uuid import uuid4

import psycopg
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction

from pgqueue import TaskContext, flow, signals, task
from pgqueue.calls.outcomes import Closed, Ending, HandedBack, Retried
from pgqueue.claiming.run_counts import Tally
from pgqueue.database.connections import Session, connect
from pgqueue.engine import cancel
from pgqueue.exceptions import (
    Cancel,
    Defer,
    Discard,
    InvalidTask,
    LeaseLost,
    Retry,
    TaskTimeout,
)
from pgqueue.models import History, Message
from pgqueue.states import Outcome, State
from pgqueue.worker import atomic
from pgqueue.worker.handlers import Handlers
from pgqueue.worker.leases import LeasedMessage, Leases
from pgqueue.worker.quarantine import Quarantine
from pgqueue.worker.runner import Runner
from pgqueue.worker.settler import Settler
from pgqueue.worker.timeouts import Timeouts
from pgqueue.worker.wakeups import Wakeups
from tests import flow_jobs
from tests.eventually import eventually
from tests.factories import claim

pytestmark = pytest.mark.django_db(transaction=True)

seen: list[Any] = []
"""What tasks saw, in the order they did."""


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    seen.clear()


@pytest.fixture
def commit_fails_twice() -> Iterator[None]:
    """A worker that settles learns only as it commits that others were in its way."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            CREATE SEQUENCE commits;  -- which no rollback turns back
            CREATE FUNCTION fail_to_commit() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF nextval('commits') <= 2 THEN
                    RAISE EXCEPTION USING ERRCODE = 'serialization_failure';
                END IF;
                RETURN NULL;
            END $$;
            CREATE CONSTRAINT TRIGGER fail_to_commit AFTER DELETE ON pgqueue_message
            DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fail_to_commit();
            """
        )
    yield
    with connection.cursor() as cursor:
        cursor.execute("DROP FUNCTION fail_to_commit CASCADE; DROP SEQUENCE commits")


def drain() -> None:
    call_command("runworker", "--drain", verbosity=1)


def row(context: TaskContext) -> Any:
    return Message.objects.filter(pk=context.id)


def wait_until_cancelled(context: TaskContext) -> None:
    row(context).cancel()
    eventually(lambda: context.cancelled)


def run(message: LeasedMessage) -> Ending:
    """Run a message here, as one of a worker's threads would."""
    quarantine = Quarantine("default", Leases(), max_lost=3)
    return Runner("default", Timeouts(), Handlers("default"), quarantine, Tally()).run(message)


def claim_one() -> LeasedMessage:
    with connect("default", name="test") as session:
        (claimed,) = claim(session)
    return LeasedMessage(claimed, monotonic())


# --- Progress


@task(takes_context=True, backoff=[0])
def count_to(context: TaskContext, goal: int) -> int:
    count = (context.progress or 0) + 1
    context.checkpoint(count)
    assert context.progress == count
    seen.append(count)
    if count < goal:
        raise ValueError(f"{count} is not enough")
    return count


@task(takes_context=True, backoff=[0])
async def count_to_async(context: TaskContext, goal: int) -> int:
    count = (context.progress or 0) + 1
    await context.acheckpoint(count)
    if count < goal:
        raise ValueError(f"{count} is not enough")
    return count


@task(takes_context=True, max_attempts=2, backoff=[0])
def note_for_ever(context: TaskContext, more: int = 0) -> None:
    seen.append(context.progress)
    if len(seen) > 20:
        raise Discard("it runs for ever")
    extra = more if context.progress is None else 0
    context.checkpoint("noted", extra_attempts=extra)
    raise ValueError("and fails")


@task(takes_context=True, max_attempts=2, backoff=[0])
def note_in_vain(context: TaskContext) -> None:
    seen.append(context.progress)
    if len(seen) > 20:
        raise Discard("it runs for ever")
    with transaction.atomic():
        context.checkpoint("noted", extra_attempts=1)
        raise ValueError("after the checkpoint")


@task(takes_context=True)
def note_any(context: TaskContext, kind: str) -> None:
    context.checkpoint({"object": object(), "long": "x" * 70_000, "none": None}[kind])
    seen.append(context.progress)


@task(takes_context=True)
def lose_the_lease(context: TaskContext, verb: str) -> None:
    if context.attempt > 1:
        return
    row(context).update(state=State.READY, worker_id=None, lease_until=None)
    try:
        context.checkpoint(1) if verb == "checkpoint" else context.extend(1)
    except LeaseLost as error:
        seen.append(str(error))
        raise


@task(takes_context=True, timeout=0.1, max_attempts=1)
def ignore_the_timeout(context: TaskContext, verb: str) -> None:
    try:
        while True:
            context.run.overdue  # noqa: B018
    except TaskTimeout:
        seen.append("ignored")
    context.checkpoint(1) if verb == "checkpoint" else context.extend(1)
    seen.append("leased on")


class TestACheckpoint:
    @pytest.mark.parametrize("counting", [count_to, count_to_async])
    def test_is_where_the_next_run_begins(self, counting: Any) -> None:
        result = counting.enqueue(3)

        drain()

        result.refresh()
        assert (result.return_value, result.failures) == (3, 2)
        assert History.objects.get().progress == 3

    def test_keeps_the_attempts_bounded(self) -> None:
        note_for_ever.enqueue()

        drain()

        message = Message.objects.get()
        assert (message.state, message.failures, message.max_attempts) == (State.DEAD, 2, 2)
        assert seen == [None, "noted"]

    def test_may_add_attempts_of_its_message(self) -> None:
        note_for_ever.using(max_attempts=1).enqueue(more=2)  # in the last attempt

        drain()

        message = Message.objects.get()
        assert (message.state, message.failures, message.max_attempts) == (State.DEAD, 3, 3)

    @pytest.mark.parametrize("is_atomic", [False, True])
    def test_vanishes_with_the_transaction_it_is_in(self, is_atomic: bool) -> None:
        note_in_vain.using(atomic=is_atomic).enqueue()

        drain()

        message = Message.objects.get()
        assert (message.state, message.failures, message.max_attempts) == (State.DEAD, 2, 2)
        assert seen == [None, None]

    def test_may_note_nothing_again(self) -> None:
        note_any.enqueue("none")

        drain()

        assert seen == [None]

    @pytest.mark.parametrize("kind", ["object", "long"])
    def test_that_cannot_be_stored_says_whose_it_is_and_is_not_tried_again(self, kind: str) -> None:
        note_any.enqueue(kind)

        drain()

        (error,) = Message.objects.get(state=State.DEAD).errors
        assert error["class"] == "pgqueue.exceptions.InvalidProgress"
        assert error["message"].startswith(f"the progress of {note_any.name}")

    @pytest.mark.parametrize("verb", ["checkpoint", "extend"])
    def test_says_so_when_the_lease_was_lost(self, verb: str) -> None:
        result = lose_the_lease.enqueue(verb)

        drain()

        result.refresh()
        assert (result.status, result.attempt, result.failures) == (Outcome.SUCCEEDED, 2, 0)
        assert seen == [
            f"{lose_the_lease.name} #{result.id} is not this run's any more: its lease ran out, "
            "or it was settled elsewhere. Nothing more of this run is recorded."
        ]

    @pytest.mark.parametrize("verb", ["checkpoint", "extend"])
    def test_keeps_no_lease_of_a_task_that_ignores_its_timeout(self, verb: str) -> None:
        ignore_the_timeout.enqueue(verb)

        drain()

        assert seen == ["ignored"]
        (error,) = Message.objects.get(state=State.DEAD).errors
        assert error["class"] == "pgqueue.exceptions.TaskTimeout"

    def test_takes_no_attempts_away(self) -> None:
        note_for_ever.enqueue(more=-1)

        drain()

        (error,) = Message.objects.get(state=State.DEAD).errors[:1]
        assert error["message"].startswith("extra_attempts=-1: ")


# --- Leases


@task(takes_context=True)
def extend(context: TaskContext, *seconds: float) -> list[float]:
    return [extended(context, each) for each in seconds]


@task(takes_context=True)
async def extend_async(context: TaskContext, seconds: float) -> list[float]:
    await context.aextend(seconds)
    return [await sync_to_async(lease_left)(context)]


@task(takes_context=True)
def extend_by_a_checkpoint(context: TaskContext, seconds: float) -> list[float]:
    context.checkpoint("noted", extend=timedelta(seconds=seconds))
    return [lease_left(context)]


def extended(context: TaskContext, seconds: float) -> float:
    context.extend(seconds)
    return lease_left(context)


def lease_left(context: TaskContext) -> float:
    lease_until = row(context).get().lease_until
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement_timestamp()")
        return float((lease_until - cursor.fetchone()[0]).total_seconds())


class TestALease:
    @pytest.mark.parametrize("extending", [extend, extend_async, extend_by_a_checkpoint])
    def test_lasts_as_long_as_the_run_asks_for(self, extending: Any) -> None:
        result = extending.enqueue(600)

        drain()

        result.refresh()
        (left,) = result.return_value
        assert 590 < left <= 600

    def test_never_becomes_shorter(self) -> None:
        result = extend.enqueue(600, 1, -600)

        drain()

        result.refresh()
        assert all(590 < left <= 600 for left in result.return_value)

    def test_may_be_asked_for_longer_than_time_goes(self) -> None:
        result = extend.enqueue(timedelta.max.total_seconds() / 2)

        drain()

        result.refresh()
        assert result.return_value[0] > 3e9


# --- Deferring


def leave_one_more(context: TaskContext) -> int:
    Group.objects.create(name=f"run {context.attempt}")
    return (context.progress or 0) + 1


@task(takes_context=True, max_attempts=1)
def repeat(context: TaskContext, goal: int = 3) -> int:
    count = leave_one_more(context)
    if count < goal:
        try:
            raise ValueError("as a cause")
        except Exception as error:
            raise Defer(0, progress=count) from error
    return count


@task(takes_context=True, max_attempts=1)
async def repeat_async(context: TaskContext, goal: int = 3) -> int:
    count = await sync_to_async(leave_one_more)(context)
    if count < goal:
        context.defer(0, count)
    return count


@task(takes_context=True, max_attempts=1)
def repeat_carefully(context: TaskContext) -> None:
    try:
        if context.attempt < 2:
            context.defer(0)
    except Exception:
        seen.append("swallowed")


@task(takes_context=True)
def come_back(context: TaskContext, seconds: float) -> None:
    context.checkpoint("kept")
    context.defer(seconds)


@task(takes_context=True, atomic=True, max_attempts=1)
def swallow_and_defer(context: TaskContext) -> None:
    Group.objects.create(name="effect")
    try:
        Group.objects.create(name="effect")
    except IntegrityError:
        context.defer(0, progress="noted")


@task(takes_context=True, max_attempts=1)
def defer_what_cannot_be_stored(context: TaskContext) -> None:
    context.defer(0, progress=object())


WAYS = [
    pytest.param({}, id="plain"),
    pytest.param({"atomic": True}, id="atomic"),
    pytest.param({"timeout": 60}, id="timed"),
    pytest.param({"timeout": 60, "atomic": "serializable"}, id="timed and atomic"),
]


class TestDeferring:
    @pytest.mark.parametrize("ways", WAYS)
    @pytest.mark.parametrize("repeating", [repeat, repeat_async])
    def test_runs_it_again_uncharged_and_keeps_what_it_did(self, repeating: Any, ways: Any) -> None:
        result = repeating.using(**ways).enqueue()

        drain()

        result.refresh()
        ended = History.objects.get()
        assert (result.return_value, ended.attempt) == (3, 3)
        assert (ended.failures, ended.lost, ended.errors, ended.progress) == (0, 0, [], 2)
        assert Group.objects.count() == 3

    def test_for_ever_is_not_poison(self) -> None:
        result = repeat.enqueue(goal=30)

        drain()

        result.refresh()
        assert (result.status, result.attempt, result.failures) == (Outcome.SUCCEEDED, 30, 0)

    def test_is_not_swallowed_by_a_task_that_catches_every_exception(self) -> None:
        result = repeat_carefully.enqueue()

        drain()

        result.refresh()
        assert (seen, result.attempt) == ([], 2)

    @pytest.mark.parametrize("is_atomic", [False, True])
    def test_waits_as_long_as_it_says_and_keeps_what_was_noted(self, is_atomic: bool) -> None:
        come_back.using(atomic=is_atomic).enqueue(600)

        drain()

        message = Message.objects.get()
        assert (message.state, message.progress) == (State.SCHEDULED, "kept")
        assert 590 < (message.run_at - message.claimed_at).total_seconds() < 610

    def test_wakes_a_watcher_of_the_clock_whichever_process_wrote_it(self) -> None:
        come_back.using(atomic=True).enqueue(600)
        message, told = claim_one(), []
        settler = Settler(
            Session("default", name="test"),
            Leases(),
            Tally(),
            Wakeups(
                Mock(wake=lambda: told.append("member ended")),
                Mock(look_early=lambda: told.append("delayed")),
            ),
        )

        settler.put(message, run(message))
        settler.tick()

        settler.finish()
        assert told == ["delayed"]

    def test_of_a_broken_transaction_is_a_failure(self) -> None:
        swallow_and_defer.enqueue()

        drain()

        message = Message.objects.get()
        assert (message.state, message.failures, message.progress) == (State.DEAD, 1, None)
        assert message.errors[0]["class"].endswith("TransactionManagementError")
        assert not Group.objects.exists()

    def test_with_what_cannot_be_stored_is_a_failure(self) -> None:
        defer_what_cannot_be_stored.enqueue()

        drain()

        (error,) = Message.objects.get(state=State.DEAD).errors
        assert error["class"] == "pgqueue.exceptions.InvalidProgress"
        assert "context.defer(0, progress=object())" in error["traceback"]


# --- Ending otherwise


ENDS: dict[str, Any] = {
    "retry": Retry,
    "retry later": lambda: Retry(timedelta(minutes=10)),
    "discard": lambda: Discard("why not"),
    "cancel": lambda: Cancel("why not"),
}


@task(max_attempts=2, backoff=[0])
def end(how: str) -> None:
    Group.objects.create(name=f"effect {uuid4()}")
    try:
        raise ValueError("the cause")
    except Exception as error:
        raise ENDS[how]() from error


@task(max_attempts=2, backoff=[0])
async def end_async(how: str) -> None:
    await Group.objects.acreate(name=f"effect {uuid4()}")
    try:
        raise ValueError("the cause")
    except Exception as error:
        raise ENDS[how]() from error


every_way = pytest.mark.parametrize("ways", WAYS)
each_end = pytest.mark.parametrize("ending", [end, end_async])


class TestATaskThat:
    @every_way
    @each_end
    def test_retries_has_failed_each_time(self, ending: Any, ways: Any) -> None:
        ending.using(**ways).enqueue("retry")

        drain()

        message = Message.objects.get()
        assert (message.state, message.failures) == (State.DEAD, 2)
        assert message.errors[0]["class"] == "pgqueue.exceptions.Retry"
        assert message.errors[0]["message"] == "The task asked to be tried again."
        assert "ValueError: the cause" in message.errors[0]["traceback"]
        assert Group.objects.count() == (0 if "atomic" in ways else 2)

    def test_says_when_to_be_tried_again_waits_so_long(self) -> None:
        end.enqueue("retry later")

        outcome = run(claim_one())

        assert isinstance(outcome, Retried)
        assert outcome.delay == timedelta(minutes=10)

    @every_way
    @each_end
    @pytest.mark.parametrize(
        ("how", "outcome"), [("discard", Outcome.DISCARDED), ("cancel", Outcome.CANCELLED)]
    )
    def test_gives_up_ends_so_and_says_why(
        self, ending: Any, ways: Any, how: str, outcome: Outcome
    ) -> None:
        result = ending.using(**ways).enqueue(how)

        drain()

        result.refresh()
        assert (result.status, result.failures) == (outcome, 0)
        assert [error.message for error in result.errors] == ["why not"]
        assert History.objects.get().started_at is not None
        assert Group.objects.count() == (0 if "atomic" in ways else 1)


# --- Being cancelled


@task(takes_context=True, max_attempts=1)
def be_cancelled(context: TaskContext, end: str) -> str:
    wait_until_cancelled(context)
    if end == "cancel":
        raise Cancel("as asked")
    if end == "raise":
        raise ValueError("in the middle")
    if end == "defer":
        context.defer(0)
    return "done all the same"


@task(takes_context=True, max_attempts=1)
async def be_cancelled_async(context: TaskContext, clean_up: float = 0) -> None:
    try:
        await sync_to_async(row(context).cancel)()
        await asyncio.sleep(60)
    finally:
        seen.append("told")
        await asyncio.sleep(clean_up)
        seen.append("cleaned up")


@task(takes_context=True, max_attempts=1)
async def be_cancelled_in_sync_code(context: TaskContext) -> None:
    await sync_to_async(wait_until_cancelled)(context)
    await asyncio.sleep(60)


@task(takes_context=True, max_attempts=1)
async def do_not_mind(context: TaskContext) -> str:
    try:
        await sync_to_async(row(context).cancel)()
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        return "done all the same"
    return "never told"


@task(max_attempts=1)
async def cancel_oneself() -> None:
    raise asyncio.CancelledError


class TestAMessageThatIsToBeCancelled:
    @pytest.fixture(autouse=True)
    def _beats_often(self, settings: Any) -> None:
        settings.PGQUEUE = {"LEASE": 0.6}

    @pytest.mark.parametrize(
        ("end", "errors"),
        [("cancel", ["as asked"]), ("raise", ["in the middle"]), ("defer", [])],
    )
    def test_is_once_its_run_ends(self, end: str, errors: list[str]) -> None:
        result = be_cancelled.enqueue(end)

        drain()

        result.refresh()
        assert (result.status, result.failures) == (Outcome.CANCELLED, 0)
        assert [error.message for error in result.errors] == errors

    def test_has_succeeded_if_its_task_returns(self) -> None:
        results = [be_cancelled.enqueue("return"), do_not_mind.enqueue()]

        drain()

        for result in results:
            result.refresh()
            assert (result.status, result.return_value) == (Outcome.SUCCEEDED, "done all the same")

    @pytest.mark.parametrize("ways", [{}, {"timeout": 60}])
    def test_stops_its_coroutine(self, ways: Any) -> None:
        result = be_cancelled_async.using(**ways).enqueue()

        drain()

        result.refresh()
        assert (result.status, result.errors) == (Outcome.CANCELLED, [])
        assert seen == ["told", "cleaned up"]

    def test_stops_its_coroutine_after_what_that_runs_in_a_thread(self) -> None:
        result = be_cancelled_in_sync_code.enqueue()

        drain()

        result.refresh()
        assert (result.status, result.errors) == (Outcome.CANCELLED, [])

    def test_lets_its_coroutine_clean_up_whatever_heartbeats_say(self) -> None:
        be_cancelled_async.enqueue(clean_up=0.8)  # several heartbeats

        drain()

        assert seen == ["told", "cleaned up"]

    def test_is_announced_as_what_it_becomes(self) -> None:
        outcomes = []
        signals.task_finished.connect(hear := lambda ending, **kw: outcomes.append(ending.word))
        be_cancelled.enqueue("raise")
        be_cancelled_async.enqueue()

        drain()

        signals.task_finished.disconnect(hear)
        assert outcomes == ["cancelled", "cancelled"]


def test_a_coroutine_that_cancels_itself_unasked_has_failed() -> None:
    cancel_oneself.enqueue()

    drain()

    message = Message.objects.get()
    assert (message.state, message.failures) == (State.DEAD, 1)
    assert message.errors[0]["class"] == "asyncio.exceptions.CancelledError"


# --- Atomic tasks that meet others


@task(atomic=True)
def isolation() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SHOW transaction_isolation")
        return str(cursor.fetchone()[0])


@task(atomic="repeatable read", max_attempts=1, takes_context=True)
def change_what_others_change(context: TaskContext, times: int, how: str = "raise") -> int:
    """Meet another transaction's change `times` times; leave an effect and a hook each time."""
    seen.append(context.progress)
    calls = len(seen)
    context.checkpoint(calls)
    Group.objects.create(name=f"effect {calls}")
    transaction.on_commit(lambda: Group.objects.create(name=f"hook {calls}"))
    if calls <= times:
        with connect("default", name="test") as other:
            assert not is_free(other, context), "its row is not locked"
            other.execute("UPDATE auth_group SET name = name || '!' WHERE name LIKE 'shared%'")
    try:
        Group.objects.filter(name__startswith="shared").update(name="shared by us")
    except Exception:
        if how == "hide":
            raise ValueError("something else") from None
        if how == "discard":
            raise Discard("busy") from None
        raise
    return calls


@task(atomic="serializable", takes_context=True)
def decide_from_a_count(context: TaskContext) -> int:
    """Do what another transaction does, too: each may only where the other does not."""
    seen.append("run")
    count = Group.objects.count()
    if len(seen) == 1:
        with connect("default", name="test") as other, other.transaction():
            other.execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
            other.execute("SELECT count(*) FROM auth_group")
            other.execute("INSERT INTO auth_group (name) VALUES ('theirs')")
    Group.objects.create(name="ours")
    return count


@task(atomic=True, max_attempts=1, takes_context=True)
async def meet_a_deadlock(context: TaskContext, times: int) -> None:
    seen.append("run")
    if len(seen) <= times:
        await sync_to_async(raise_in_the_server)("40P01")


def raise_in_the_server(code: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{code}'; END $$")


def is_free(session: psycopg.Connection[Any], context: TaskContext) -> bool:
    found = session.execute(
        "SELECT id FROM pgqueue_message WHERE id = %s FOR UPDATE SKIP LOCKED", [context.claim.id]
    )
    return found.fetchone() is not None


@task(takes_context=True, atomic=True)
def give_away(context: TaskContext) -> None:
    Group.objects.create(name="given")
    row(context).update(state=State.READY, worker_id=None, lease_until=None)


def run_while_locked(leased: LeasedMessage) -> Ending:
    """Run a message that an operator cancels in a transaction that stays open, and rolls back."""
    with (
        closing(connect("default", name="test")) as operator,
        ThreadPoolExecutor(1) as pool,
        operator.transaction(force_rollback=True),
    ):
        cancel.cancel(operator, [leased.claim.id])
        return pool.submit(run, leased).result(10)


class TestAnAtomicTask:
    @pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
    def test_is_isolated_as_it_says(self, level: Any) -> None:
        result = isolation.using(atomic=level).enqueue()

        drain()

        result.refresh()
        assert result.return_value == level

    @pytest.mark.parametrize("level", [True, "repeatable read", "serializable"])
    def test_waits_for_no_transaction_that_has_its_message_locked(self, level: Any) -> None:
        isolation.using(atomic=level).enqueue()
        leased = claim_one()

        assert isinstance(run_while_locked(leased), HandedBack)
        assert not leased.lost
        assert isinstance(run(leased), Closed)
        assert History.objects.get().outcome == Outcome.SUCCEEDED

    def test_that_has_grown_waits_for_no_transaction_that_has_its_message_locked(self) -> None:
        with flow("grows") as f:
            f.enqueue(flow_jobs.grow.using(max_attempts=2), 1)
        leased = claim_one()

        assert isinstance(run_while_locked(leased), Retried)
        assert not leased.lost
        assert isinstance(run(leased), Closed)
        assert Message.objects.count() == 2

    def test_is_isolated_only_as_postgresql_can(self) -> None:
        with pytest.raises(InvalidTask, match="one of read committed, repeatable read, serial"):
            isolation.using(atomic="snapshot")  # type: ignore[arg-type]

    @pytest.mark.parametrize("how", ["raise", "hide"])
    def test_runs_again_at_once_where_others_were_in_its_way(self, how: str) -> None:
        Group.objects.create(name="shared")
        started, finished = [], []
        signals.task_started.connect(start := lambda **kw: started.append(1))
        signals.task_finished.connect(finish := lambda ending, **kw: finished.append(ending.word))
        result = change_what_others_change.enqueue(2, how)

        drain()

        signals.task_started.disconnect(start)
        signals.task_finished.disconnect(finish)
        result.refresh()
        assert (result.return_value, result.attempt, result.failures) == (3, 1, 0)
        assert set(Group.objects.values_list("name", flat=True)) == {
            "shared by us",
            "effect 3",
            "hook 3",
        }
        assert (len(started), finished) == (1, ["succeeded"])
        assert seen == [None, None, None], "what a run noted that was rolled back"

    def test_runs_again_ten_times_at_most(self) -> None:
        Group.objects.create(name="shared")
        change_what_others_change.enqueue(1000)

        drain()

        message = Message.objects.get()
        assert (message.state, message.failures, len(seen)) == (State.DEAD, 1, 11)
        assert "could not serialize access" in message.errors[0]["message"]
        assert Group.objects.count() == 1

    def test_that_gives_up_is_believed(self) -> None:
        Group.objects.create(name="shared")
        result = change_what_others_change.enqueue(1000, "discard")

        outcome = run(claim_one())

        result.refresh()
        assert (outcome, result.status, len(seen)) == (Closed(), Outcome.DISCARDED, 1)

    def test_runs_again_where_it_decided_from_what_others_changed(self) -> None:
        result = decide_from_a_count.enqueue()

        drain()

        result.refresh()
        assert (seen, result.return_value, result.failures) == (["run"] * 2, 1, 0)

    def test_runs_again_when_only_its_commit_fails(self, commit_fails_twice: None) -> None:
        finished = []
        signals.task_finished.connect(finish := lambda ending, **kw: finished.append(ending.word))
        result = note_any.using(atomic=True).enqueue("none")

        drain()

        signals.task_finished.disconnect(finish)
        result.refresh()
        assert (len(seen), result.status, result.failures) == (3, Outcome.SUCCEEDED, 0)
        assert finished == ["succeeded"]

    def test_runs_again_after_a_deadlock(self) -> None:
        result = meet_a_deadlock.enqueue(2)

        drain()

        result.refresh()
        assert (len(seen), result.status, result.failures) == (3, Outcome.SUCCEEDED, 0)

    def test_leaves_nothing_if_it_lost_its_lease_meanwhile(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        Group.objects.create(name="shared")
        change_what_others_change.enqueue(1)
        message = claim_one()

        def lose(seconds: float) -> None:
            Message.objects.update(state=State.READY, worker_id=None, lease_until=None)

        monkeypatch.setattr(atomic, "time", SimpleNamespace(sleep=lose))

        outcome = run(message)

        assert (outcome, seen) == (Closed(), [None])
        assert Message.objects.get().state == State.READY
        assert Group.objects.count() == 1

    def test_leaves_nothing_if_it_gave_its_own_message_away(self) -> None:
        give_away.enqueue()
        message = claim_one()

        outcome = run(message)

        assert isinstance(outcome.error, LeaseLost)
        assert Message.objects.get().state == State.RUNNING
        assert not Group.objects.exists()

    def test_keeps_its_lease_between_two_runs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        Group.objects.create(name="shared")
        change_what_others_change.enqueue(1)
        message = claim_one()
        with connection.cursor() as cursor:
            cursor.execute("UPDATE pgqueue_message SET lease_until = statement_timestamp()")
        leases = []
        # Its own alone: other threads of this process sleep, too.
        sleeping = SimpleNamespace(
            sleep=lambda seconds: leases.append(Message.objects.get().lease_until)
        )
        monkeypatch.setattr(atomic, "time", sleeping)

        run(message)

        assert leases[0] > message.claim.claimed_at + timedelta(seconds=20)
