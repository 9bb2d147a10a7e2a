"""Other messages that a durable run stores and waits for, and loops that continue anew."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import pytest
from django.db import connection
from django.db.models import F
from django.utils import timezone

from pgqueue import Channel as Operated
from pgqueue import ChannelFull, ParentFailed, flow, get_flow
from pgqueue.database.connections import borrow, connect
from pgqueue.durable import DurableContext, waiting
from pgqueue.durable.cleaning import AGAIN
from pgqueue.durable.records import Records
from pgqueue.engine import flows, retention
from pgqueue.exceptions import InvalidArguments, InvalidFlow, InvalidStep, WaitTimeout
from pgqueue.models import Blocked, Channel, History, Message, StoredSignal
from pgqueue.options.retention import Retention
from pgqueue.states import Outcome
from pgqueue.testing import advance, run_all
from tests.durable.running import (
    Oops,
    attempts,
    calls,
    declared,
    double,
    durable,
    kept,
    names,
    refused,
    returned,
    run,
)
from tests.factories import limit

BRIEF: Retention = {
    **dict.fromkeys(Outcome.values, timedelta(days=30)),
    "succeeded": timedelta(hours=1),
}

pytestmark = pytest.mark.django_db(transaction=True)


def square(value: int) -> int:
    calls.append(("square", value))
    if value < 0:
        raise Oops("negative")
    return value * value


def declare_square(**options: Any) -> Any:
    def square(value: int) -> int:
        return globals()["square"](value)  # type: ignore[no-any-return]

    return declared(square, **{"max_attempts": 1, **options})


def waits_for_a_call(*, cancels: bool) -> tuple[Any, Any]:
    """Return a run that waits for the call that it has gathered, and the task of this call."""
    task = declare_square(run_after=3600)

    @durable
    def works(run: DurableContext) -> None:
        run.gather([run.call(task, 1)], cancels=cancels)

    result = works.enqueue()
    run(result)
    return result, task


def declare_double(**options: Any) -> Any:
    def double(value: int) -> int:
        return 2 * value

    return declared(double, **options)


def purge(kept: Retention) -> int:
    """Remove the history whose retention is over; return the number of its messages."""
    with borrow("default") as session:
        windows = retention.windows(session, kept)
        return sum(retention.purge(session, each, kept).removed for each in windows)


def declare_pay(answers: list[Any]) -> Any:
    """Declare a task of another channel, which fails or returns a number at each run."""

    def pay() -> Any:
        answer = answers.pop(0)
        if answer is Oops:
            raise Oops
        return answer

    return declared(pay, max_attempts=1, channel="others")


class TestAGather:
    def test_returns_results_in_their_order(self) -> None:
        task = declare_square()

        @durable
        def works(run: DurableContext) -> list[int]:
            calls.append("top")
            return run.gather([run.call(task, each) for each in (3, 1, 2)])

        result = works.enqueue()

        assert returned(result) == [9, 1, 4]
        assert calls.count("top") == attempts(result) == 2
        assert History.objects.count() == 4
        assert not Blocked.objects.exists()

    def test_returns_fractions_with_all_their_digits(self) -> None:
        def half(value: float) -> float:
            return value / 2

        def share(value: Decimal) -> list[Any]:
            return [value / 3, {"half": 0.1}, 1e300]

        halves, shares = declared(half), declared(share)

        @durable
        def works(run: DurableContext) -> None:
            calls.append(run.gather([run.call(halves, 0.5), run.call(shares, Decimal("0.10"))]))
            run.sleep(0)

        returned(works.enqueue())

        third = Decimal("0.10") / 3
        assert calls == 2 * [[0.25, [third, {"half": 0.1}, 1e300]]]
        assert type(calls[0][0]) is float

    def test_holds_no_worker(self) -> None:
        task = declare_square(run_after=3600)

        @durable
        def works(run: DurableContext) -> list[int]:
            return run.gather([run.call(task, 3)])

        result = works.enqueue()

        assert run(result) == "held"
        assert set(Message.objects.values_list("worker_id", flat=True)) == {None}

    def test_stores_its_messages_once(self) -> None:
        task = declare_square(run_after=3600)

        @durable
        def works(run: DurableContext) -> list[int]:
            return run.gather([run.call(task, 3)])

        result = works.enqueue()
        run(result)
        Message.objects.filter(state="held").update(state="ready")  # as after a lost lease
        run(result)
        assert Message.objects.count() == 2
        advance(3601)

        assert returned(result) == [9]

    def test_of_nothing_is_empty(self) -> None:
        @durable
        def works(run: DurableContext) -> list[int]:
            return run.gather([])

        assert returned(works.enqueue()) == []

    def test_raises_the_error_of_a_call(self) -> None:
        task = declare_square()

        @durable
        def works(run: DurableContext) -> str:
            try:
                run.gather([run.call(task, 2), run.call(task, -1)])
            except ParentFailed as error:
                failed = error
            run.sleep(0)
            return f"{failed}"

        assert "dead: tests.durable.running.Oops: negative" in returned(works.enqueue())

    def test_may_return_the_errors(self) -> None:
        task = declare_square()

        @durable
        def works(run: DurableContext) -> list[str]:
            found = run.gather(
                [run.call(task, 2), run.call(task, -1), run.call(task, 3)], on_failure="return"
            )
            return [type(each).__name__ for each in found]

        assert returned(works.enqueue()) == ["int", "ParentFailed", "int"]

    def test_meets_calls_that_were_cancelled(self) -> None:
        task = declare_square(run_after=3600)

        @durable
        def works(run: DurableContext) -> list[str]:
            [found] = run.gather([run.call(task, 2)], on_failure="return")
            return [found.outcome]

        result = works.enqueue()
        run(result)
        Message.objects.filter(state="scheduled").cancel()

        assert returned(result) == ["cancelled"]

    def test_waits_for_a_duplicate_of_somebody_else(self) -> None:
        task = declare_square(dedupe_key="one", run_after=3600)
        theirs = task.enqueue(4)

        @durable
        def works(run: DurableContext) -> list[int]:
            return run.gather([run.call(task, 5), run.call(task, 6)])

        result = works.enqueue()
        run(result)
        assert Message.objects.count() == 2
        advance(3601)
        assert returned(theirs) == 16
        with borrow("default") as connection:
            assert flows.ring_stale(connection) == 1

        assert returned(result) == [16, 16]

    def test_of_durable_tasks_waits_for_their_waits(self) -> None:
        @durable
        def inner(run: DurableContext) -> Any:
            return run.wait_for("go", int)

        @durable
        def works(run: DurableContext) -> list[Any]:
            return run.gather([run.call(inner), run.call(inner)])

        result = works.enqueue()
        run(result)
        first, second = Message.objects.filter(task__endswith="inner").values_list("id", flat=True)
        inner.get_result(second).signal("go", 2)
        run(result)
        assert Message.objects.count() == 2
        inner.get_result(first).signal("go", 1)

        assert returned(result) == [1, 2]

    def test_behind_its_own_lane_is_refused(self) -> None:
        @durable(key="lane", ordered=True)
        def works(run: DurableContext) -> None:
            run.gather([run.call(behind, 1)])

        behind = declare_square(key="lane", ordered=True)
        result = works.using(max_attempts=1).enqueue()

        assert run(result) == "dead"
        assert "InvalidFlow" in result.errors[-1].traceback
        assert Message.objects.count() == 1

    def test_of_an_encrypted_task_is_refused_where_its_result_would_be_plain(self) -> None:
        task = declare_square(encrypted=True)

        @durable(max_attempts=1)
        def works(run: DurableContext) -> list[int]:
            return run.gather([run.call(task, 2)])

        result = works.enqueue()

        assert run(result) == "dead"
        assert "declare tests.durable.test_calls.works with encrypted=True" in (
            result.errors[-1].traceback
        )

    def test_keeps_the_results_until_the_run_has_read_them(self) -> None:
        task = declare_square(channel="children")

        @durable(channel="late")
        def works(run: DurableContext) -> list[int]:
            return run.gather([run.call(task, 2), run.call(task, 3)])

        Operated("children").pause()
        result = works.enqueue()
        run(result)
        Operated("late").pause()
        Operated("children").resume()
        run_all()

        with borrow("default") as session:
            ended_before = flows.end(session)
            Operated("late").resume()
            assert returned(result) == [4, 9]
            ended_after = flows.end(session)

        assert (ended_before, ended_after) == (0, 1)

    def test_keeps_the_result_of_a_duplicate_until_the_run_has_read_it(self) -> None:
        task = declare_square(dedupe_key="one", run_after=60)
        late = declare_double(run_after=3600)
        task.enqueue(4)

        @durable
        def works(run: DurableContext) -> list[int]:
            return run.gather([run.call(task, 5), run.call(late, 6)])

        result = works.enqueue()
        run(result)
        advance(61)
        run_all()
        History.objects.update(finished_at=F("finished_at") - timedelta(hours=2))
        purge(BRIEF)
        advance(3600)
        run_all()
        with borrow("default") as session:
            flows.ring_stale(session)

        assert returned(result) == [16, 12]
        History.objects.update(finished_at=F("finished_at") - timedelta(hours=2))
        with borrow("default") as session:
            flows.end(session)
        assert purge({**BRIEF, "cancelled": timedelta(days=20)}) == 3

    def test_of_what_is_no_call_is_refused(self) -> None:
        def works(run: DurableContext) -> None:
            run.gather([7])  # type: ignore[list-item]

        assert "and not 7" in refused(works)

    def test_with_invalid_options_is_refused(self) -> None:
        def works(run: DurableContext) -> None:
            run.gather([], on_failure="ignore")  # type: ignore[arg-type]

        assert "on_failure='ignore'" in refused(works)

    def test_of_invalid_arguments_stores_nothing(self) -> None:
        task = declare_square()

        def works(run: DurableContext) -> None:
            run.gather([run.call(task, 1), run.call(task)])

        refused(works, with_=InvalidArguments)
        assert Message.objects.count() == 1

    @pytest.mark.parametrize("cancels", [True, False])
    def test_cancels_its_calls_with_the_run_if_it_says_so(self, cancels: bool) -> None:
        result, _ = waits_for_a_call(cancels=cancels)
        result.cancel()
        run_all()

        assert Message.objects.exists() is not cancels

    def test_cancels_its_calls_also_in_a_full_channel_in_which_others_store(self) -> None:
        result, _ = waits_for_a_call(cancels=True)
        limit(scope="channel", max_size=2)
        with connect("default", name="producer") as producer, producer.transaction():
            producer.execute("SELECT pgqueue_room_v1('default', NULL)")
            with connection.cursor() as cursor:
                cursor.execute("SET lock_timeout = '2s'")
                result.cancel()
                cursor.execute("RESET lock_timeout")

        run_all()

        assert not Message.objects.exists()

    def test_cancels_a_call_later_that_another_transaction_has_locked(self) -> None:
        result, task = waits_for_a_call(cancels=True)
        with connect("default", name="other") as other, other.transaction():
            other.execute("SELECT FROM pgqueue_message WHERE task = %s FOR UPDATE", [task.name])
            result.cancel()
            run_all()
            assert Message.objects.filter(task=task.name).exists()
        advance(AGAIN)
        run_all()

        assert not Message.objects.exists()

    def test_may_follow_a_gather_whose_run_was_lost_before_it_had_waited(self) -> None:
        task = declare_square()
        real = waiting.suspend

        def lose(*given: Any, **options: Any) -> None:
            # The calls end before another run looks for them, and the router finds no wait.
            with patch.object(waiting, "suspend", real):
                run_all()
            raise SystemExit

        @durable(backoff=[0])
        def works(run: DurableContext) -> list[int]:
            if run.attempt == 1:
                with patch.object(waiting, "suspend", lose):
                    run.gather([run.call(task, 1)])
            return run.gather([run.call(task, 1)]) + run.gather([run.call(task, 2)])

        assert returned(works.enqueue()) == [1, 4]

    def test_whose_calls_end_before_its_run_waits_wakes_it(self) -> None:
        task = declare_square()
        real = waiting.suspend

        def suspend_late(*given: Any, **options: Any) -> None:
            # The calls end, and the router takes their bells while the run is still under way.
            with patch.object(waiting, "suspend", real):
                run_all()
            real(*given, **options)

        @durable
        def works(run: DurableContext) -> list[int]:
            with patch.object(waiting, "suspend", suspend_late):
                return run.gather([run.call(task, 1), run.call(task, 2)])

        result = works.enqueue()

        assert returned(result) == [1, 4]
        assert attempts(result) == 2

    def test_waits_again_for_a_call_that_was_replayed_before_its_results_were_read(self) -> None:
        task = declare_pay([Oops, 7])
        others, own = Operated("others"), Operated("default")

        @durable
        def works(run: DurableContext) -> list[int]:
            return run.gather([run.call(task)])

        result = works.enqueue()
        others.pause()
        assert run(result) == "held"
        own.pause()
        others.resume()
        assert run(result) == "ready"  # the call is dead
        others.pause()
        others.replay()
        own.resume()
        assert run(result) == "held"
        others.resume()

        assert returned(result) == [7]

    def test_that_has_stored_a_failure_stays_dead_where_the_call_is_replayed(self) -> None:
        answers: list[Any] = [Oops, 7]
        task = declare_pay(answers)

        @durable(max_attempts=1)
        def works(run: DurableContext) -> list[int]:
            calls.append("top")
            return run.gather([run.call(task)])

        result = works.enqueue()
        assert run(result) == "dead"
        runs = calls.count("top")
        Operated("others").replay()

        assert run(result) == "dead"
        assert (calls.count("top"), answers) == (runs, [])

    def test_may_follow_a_gather(self) -> None:
        task = declare_square()

        @durable
        def works(run: DurableContext) -> int:
            value = 2
            for _ in range(3):
                [value] = run.gather([run.call(task, value)])
            return value

        assert returned(works.enqueue()) == 256


class TestAnEnqueue:
    def test_stores_its_message_once(self) -> None:
        task = declare_square()
        ids = []

        @durable
        def works(run: DurableContext) -> None:
            ids.append(run.enqueue(task, 3).id)
            ids.append(run.enqueue(task, value=4).id)
            run.sleep(0)

        result = works.enqueue()
        returned(result)

        assert sorted(calls) == [("square", 3), ("square", 4)]
        assert ids[:2] == ids[2:]
        assert [each["name"] for each in kept(result)["steps"]] == [
            *("enqueue:square", "enqueue:square#2", "sleep")
        ]

    def test_is_rolled_back_where_it_is_refused(self) -> None:
        task = declare_square()

        def works(run: DurableContext) -> None:
            run.enqueue(task)

        refused(works, with_=InvalidArguments)
        assert Message.objects.count() == 1

    def test_gives_the_result_of_a_task_that_is_enqueued_on_commit(self) -> None:
        task = declare_square(enqueue_on_commit=True)

        @durable
        def works(run: DurableContext) -> str:
            other = run.enqueue(task, 3)
            run.sleep(0)
            return other.id

        stored = []
        real = Records.store

        def store(*given: Any, **options: Any) -> Any:
            stored.append(Message.objects.filter(task=task.name).count())
            return real(*given, **options)

        with patch.object(Records, "store", store):
            id = returned(works.enqueue())

        assert stored == [1]  # in the transaction that stores the step
        assert calls == [("square", 3)]
        assert task.get_result(id).return_value == 9

    def test_in_another_database_is_refused(self) -> None:
        task = declare_square(database="second")

        def works(run: DurableContext) -> None:
            run.enqueue(task, 3)

        assert "second" in refused(works)

    def test_of_what_is_no_task_is_refused(self) -> None:
        def works(run: DurableContext) -> None:
            run.enqueue(double, 3)

        assert "double" in refused(works)

    @pytest.mark.parametrize("verb", ["enqueue", "gather"])
    def test_of_a_message_that_a_full_channel_drops_is_an_error(self, verb: str) -> None:
        Channel.objects.create(name="narrow", on_full="drop")
        limit("narrow", scope="channel", max_size=1)
        task = declare_square(channel="narrow", run_after=3600)
        task.enqueue(1)

        def works(run: DurableContext) -> None:
            run.enqueue(task, 3) if verb == "enqueue" else run.gather([run.call(task, 3)])

        assert "'narrow' is full" in refused(works, with_=ChannelFull)


class TestAMemberOfAFlow:
    @pytest.mark.parametrize("is_async", [False, True])
    def test_adds_its_messages_once_when_it_has_waited(self, is_async: bool) -> None:
        task = declare_square()

        def works(run: DurableContext) -> int:
            run.flow.enqueue(task, 3, awaited=True)
            run.sleep(0)
            return -1

        async def works_in_a_loop(run: DurableContext) -> int:
            run.flow.enqueue(task, 3, awaited=True)
            await run.asleep(0)
            return -1

        def note(number: int) -> None:
            calls.append(number)

        with flow("grows") as draft:
            own = draft.enqueue(durable(works_in_a_loop if is_async else works))
            draft.enqueue(declared(note), own)
        run_all()

        assert calls == [("square", 3), -1]

    @pytest.mark.parametrize("wait", ["sleep", "signal", "gather"])
    def test_goes_on_for_the_flow_while_it_waits(self, wait: str) -> None:
        task = declare_square(run_after=3600)

        @durable
        def works(run: DurableContext) -> None:
            if wait == "sleep":
                run.sleep(3600)
            elif wait == "signal":
                run.wait_for("go")
            else:
                run.gather([run.call(task, 1)])

        with flow("waits") as draft:
            member = draft.enqueue(works)
        run_all()

        with pytest.raises(WaitTimeout):
            draft.wait(timeout=0.2)
        member.cancel()
        run_all()
        assert draft.wait(timeout=5).total == 1

    def test_adds_its_messages_in_each_round(self) -> None:
        task = declare_square()

        @durable
        def works(run: DurableContext, number: int) -> None:
            run.flow.enqueue(task, number)
            if number < 3:
                run.continue_as(number + 1)

        with flow("grows") as draft:
            draft.enqueue(works, 1)
        run_all()

        assert calls == [("square", 1), ("square", 2), ("square", 3)]


class TestContinuing:
    def test_goes_on_as_the_same_message_with_other_arguments(self) -> None:
        @durable(dedupe_key="loop")
        def works(run: DurableContext, number: int, *, text: str = "") -> str:
            run.step(double, number)
            if number < 3:
                run.continue_as(number + 1, text=f"{text}{number}")
            return f"{text} {run.id}"

        result = works.enqueue(1)
        assert returned(result) == f"12 {result.id}"

        assert calls == [("double", 1), ("double", 2), ("double", 3)]
        assert [each["name"] for each in kept(result)["steps"]] == ["double"]
        assert History.objects.get().metadata["continued"] == 2
        assert History.objects.get().dedupe_key == "loop"

    def test_keeps_signals_that_no_step_has_taken(self) -> None:
        @durable
        def works(run: DurableContext, sum: int) -> int:
            value = run.wait_for("add", int)
            if not value:
                return sum
            raise run.continue_as(sum + value)

        result = works.enqueue(0)
        for value in (1, 2, 3, 0):
            result.signal("add", value)

        assert returned(result) == 6
        assert not StoredSignal.objects.exists()

    def test_keeps_the_dedupe_ids_of_signals_for_a_while(self) -> None:
        @durable(dedupe_key="loop")
        def works(run: DurableContext, month: int) -> None:
            run.wait_for("paid")
            run.continue_as(month + 1)

        result = works.enqueue(1)
        assert result.signal("paid", dedupe_id="evt_1")
        run(result)
        assert not result.signal("paid", dedupe_id="evt_1")
        assert result.signal("paid", dedupe_id="evt_2")
        StoredSignal.objects.filter(dedupe_id="evt_1").update(
            sent_at=timezone.now() - timedelta(days=31)
        )
        run(result)

        assert Message.objects.get().payload["args"] == [3]
        assert list(StoredSignal.objects.values_list("dedupe_id", flat=True)) == ["evt_2"]

    def test_keeps_its_place_in_a_flow(self) -> None:
        @durable
        def works(run: DurableContext, number: int) -> int:
            run.sleep(0)
            if number < 3:
                run.continue_as(number + 1)
            return number

        def after(number: int) -> None:
            calls.append(number)

        child = declared(after)
        with flow("rounds") as draft:
            draft.enqueue(child, draft.enqueue(works, 1))
        run_all()

        assert calls == [3]

    @pytest.mark.parametrize("is_governed", [False, True])
    def test_cancels_calls_that_are_of_no_use_without_the_round(self, is_governed: bool) -> None:
        task = declare_square(run_after=3600)
        if is_governed:
            Operated("default").policy(max_running=5)

        @durable
        def works(run: DurableContext, number: int) -> int:
            if number == 1 and run.attempt > 1:
                run.continue_as(2)  # as new code does that no longer gathers
            if number == 1:
                run.gather([run.call(task, 1)], cancels=True)
            return number

        result = works.enqueue(1)
        run(result)
        Message.objects.filter(id=result.id).update(state="ready")

        assert returned(result) == 2
        assert not Message.objects.exists()

    def test_keeps_its_turn_in_an_ordered_lane(self) -> None:
        @durable(key="lane", ordered=True)
        def works(run: DurableContext, number: int) -> None:
            calls.append(number)
            if number % 10 < 3:
                run.continue_as(number + 1)

        works.enqueue(1)
        works.enqueue(11)
        run_all()

        assert calls == [1, 2, 3, 11, 12, 13]

    def test_has_a_budget_of_steps_of_its_own(self, settings: Any) -> None:
        settings.PGQUEUE = {**settings.PGQUEUE, "MAX_STEPS": 3}

        @durable
        def works(run: DurableContext, round: int) -> int:
            for number in range(3):
                run.step(double, number)
            if round < 3:
                run.continue_as(round + 1)
            return round

        assert returned(works.enqueue(1)) == 3

    def test_with_arguments_that_do_not_fit_is_refused(self) -> None:
        def works(run: DurableContext) -> None:
            run.continue_as(1)

        refused(works, with_=InvalidArguments)

    def test_in_a_step_is_refused(self) -> None:
        def works(run: DurableContext) -> None:
            run.step(run.continue_as)

        assert "in the step" in refused(works)


def test_a_step_before_a_gather_is_kept_with_it() -> None:
    task = declare_square(run_after=3600)

    @durable
    def works(run: DurableContext) -> None:
        run.now()
        run.gather([run.call(task, 1)], name="pages")

    result = works.enqueue()
    run(result)

    assert names(result) == ["now", "pages"]


def test_the_calls_of_a_run_are_a_flow() -> None:
    task = declare_square(run_after=3600)

    @durable
    def works(run: DurableContext) -> None:
        run.gather([run.call(task, 1), run.call(task, 2)])

    run(works.enqueue())
    [flow_id] = set(Message.objects.filter(state="scheduled").values_list("flow_id", flat=True))

    assert get_flow(flow_id) is not None


def test_runs_that_would_wait_for_each_other_are_refused() -> None:
    def build(run: DurableContext, name: str, *needed: str) -> str:
        run.gather([run.call(task.using(dedupe_key=each), each, *needs[each]) for each in needed])
        return name

    needs = {"a": ["b"], "b": ["c"], "c": ["a"], "d": []}
    task = durable(build, max_attempts=1)
    result = task.using(dedupe_key="a").enqueue("a", "b")

    run_all()

    [dead] = Message.objects.dead().filter(payload__args__0="c")
    assert "build #" in dead.errors[-1]["message"]
    assert "waits for it, directly or indirectly" in dead.errors[-1]["message"]
    result.refresh()
    assert result.status != "held"


def test_a_run_that_would_wait_for_itself_is_refused() -> None:
    @durable(dedupe_key="me", max_attempts=1)
    def works(run: DurableContext) -> None:
        run.gather([run.call(works)])

    result = works.enqueue()

    assert run(result) == "dead"
    assert InvalidFlow.__name__ in result.errors[-1].traceback
    assert InvalidStep.__name__ not in result.errors[-1].traceback
