"""Reruns and forks of durable runs, and what history keeps of them."""

from __future__ import annotations

from datetime import date
from traceback import format_exception
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from cryptography.fernet import Fernet

from pgqueue import flow
from pgqueue.database.connections import borrow
from pgqueue.durable import DurableContext
from pgqueue.engine import steps
from pgqueue.exceptions import InvalidArgument, InvalidArguments, InvalidStep
from pgqueue.models import History, Message, Step, StoredSignal
from pgqueue.testing import run_all
from tests import cards, encrypted_jobs, flow_jobs
from tests.durable.running import (
    Oops,
    add,
    calls,
    declared,
    double,
    durable,
    kept,
    names,
    returned,
    run,
)
from tests.management.calling import call

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("atomic", [False, True])
def test_a_step_that_is_done_again_keeps_its_place_for_a_fork(atomic: bool) -> None:
    @durable
    def works(run: DurableContext) -> list[int]:
        done = [run.step(add, n, 0, name=f"step {n}", atomic=atomic) for n in (1, 2, 3)]
        run.wait_for("go")
        return done

    result = works.enqueue()
    run(result)
    with borrow("default") as session:
        assert steps.again(session, int(result.id), "step 2") == "held"
    run(result)
    calls.clear()

    fork = result.fork(after="step 3")
    run(fork)
    fork.signal("go")

    assert returned(fork) == [1, 2, 3]
    assert calls == []


class TestARerun:
    @pytest.mark.parametrize("is_ended", [True, False])
    def test_begins_without_steps(self, is_ended: bool) -> None:
        @durable
        def works(run: DurableContext, start: int) -> int:
            return run.step(double, start)

        result = works.enqueue(2)
        if is_ended:
            returned(result)
        again = result.rerun()

        assert returned(again) == 4
        assert calls == [("double", 2)] * 2
        assert History.objects.get(id=int(again.id)).metadata == {"rerun_of": int(result.id)}

    def test_is_there_for_all_tasks(self) -> None:
        def plain(value: int) -> int:
            return value + 1

        result = declared(plain).enqueue(2)
        returned(result)

        assert returned(result.rerun()) == 3

    def test_has_the_arguments_of_the_last_round(self) -> None:
        @durable
        def works(run: DurableContext, number: int) -> str:
            if number < 3:
                run.continue_as(number + 1)
            return f"round {number}"

        result = works.enqueue(1)
        returned(result)
        again = result.rerun()

        assert Message.objects.get(id=int(again.id)).payload["args"] == [3]
        assert returned(again) == "round 3"

    def test_may_have_other_arguments(self) -> None:
        def plain(value: int, more: int = 1) -> int:
            return value + more

        result = declared(plain).using(key="k", priority=3).enqueue(2, more=5)
        returned(result)

        assert returned(result.rerun(args=[10])) == 11
        assert returned(result.rerun(kwargs={"value": 20, "more": 2})) == 22
        again = result.rerun(args=(30,), kwargs={"more": 3})
        message = Message.objects.get(id=int(again.id))
        assert message.payload == {"args": [30], "kwargs": {"more": 3}}
        assert (message.key, message.priority) == ("k", 3)
        assert message.metadata == {"rerun_of": int(result.id)}

    @pytest.mark.parametrize("is_ordered", [True, False])
    def test_keeps_the_order_that_its_message_had(self, is_ordered: bool) -> None:
        def plain() -> None: ...

        task = declared(plain, key="k", ordered=not is_ordered)
        result = task.get_result(task.using(ordered=is_ordered).enqueue().id)
        live = result.rerun()
        run_all()
        ended = result.rerun()

        stored = [
            History.objects.get(id=int(live.id)).ordered,
            Message.objects.get(id=int(ended.id)).ordered,
        ]
        assert stored == [is_ordered] * 2

    def test_is_ordered_also_of_a_message_that_has_left_its_lane_to_wait(self) -> None:
        @durable(key="k", ordered=True, keeps_lane=False)
        def works(run: DurableContext) -> None:
            run.sleep(60)

        result = works.enqueue()
        run_all()

        again = [result.rerun(), result.fork(after=None)]

        assert not Message.objects.get(id=int(result.id)).ordered
        assert all(Message.objects.get(id=int(each.id)).ordered for each in again)

    @pytest.mark.parametrize(
        "given", [{"args": [1, 2, 3]}, {"args": []}, {"kwargs": {"other": 1}}, {"args": [object()]}]
    )
    def test_with_arguments_that_enqueue_would_refuse_is_refused(self, given: Any) -> None:
        def plain(value: int, more: int = 1) -> int:
            return value + more

        result = declared(plain).enqueue(2)
        returned(result)

        with pytest.raises((InvalidArguments, InvalidArgument)):
            result.rerun(**given)
        assert not Message.objects.exists()

    def test_works_from_async_code(self) -> None:
        def plain(value: int) -> int:
            return value + 1

        result = declared(plain).enqueue(2)
        returned(result)

        assert returned(async_to_sync(result.arerun)(args=[7])) == 8

    @pytest.mark.parametrize("is_named", [True, False])
    def test_of_a_flow_takes_what_its_parents_have_returned(self, is_named: bool) -> None:
        with flow("days") as f:
            day = f.enqueue(flow_jobs.someday, 2030)
            total = f.enqueue(flow_jobs.total, [f.enqueue(flow_jobs.number, 3)], extra=4)
            year = f.enqueue(flow_jobs.year_of, day)
        run_all()

        if is_named:
            call("pgqueue_rerun", total.id, year.id)
        else:
            total.rerun()
            year.rerun()

        assert [each.return_value for each in run_all()] == [7, 2030]

    def test_of_a_flow_is_refused_where_a_parent_has_failed_or_is_gone(self) -> None:
        with flow("failing") as f:
            parents = [f.enqueue(flow_jobs.fail), f.enqueue(flow_jobs.number, 1)]
            failed, gone = (f.enqueue(flow_jobs.note, each, on_failure="run") for each in parents)
        run_all()
        History.objects.filter(id=int(parents[1].id)).delete()

        with pytest.raises(InvalidArguments, match=f"note #{failed.id} can't be .* is dead: "):
            failed.rerun()
        with pytest.raises(InvalidArguments, match=f"note #{gone.id} can't be .* kept any more. "):
            gone.rerun()
        assert returned(gone.rerun(args=[1])) is None

    def test_of_a_flow_without_results_keeps_its_arguments_unread(self) -> None:
        with flow("days") as f:
            year = f.enqueue(flow_jobs.year_of, date(2030, 1, 1))
        run_all()
        History.objects.update(payload={"args": ["unreadable"], "kwargs": {}})

        year.rerun()

        assert Message.objects.get().payload["args"] == ["unreadable"]

    def test_of_a_flow_stores_no_encrypted_result_in_the_open(self, settings: Any) -> None:
        settings.PGQUEUE = {**settings.PGQUEUE, "ENCRYPTION_KEYS": [Fernet.generate_key().decode()]}
        with flow("secret") as f:
            result = f.enqueue(flow_jobs.note, f.enqueue(encrypted_jobs.keep, "hush"))
        run_all()

        with pytest.raises(InvalidArguments, match=r"keep #\d+ is encrypted, and .*note is not"):
            result.rerun()

    def test_of_a_flow_stores_no_redacted_result_in_the_open(self) -> None:
        with flow("cards") as f:
            hidden, partly = f.enqueue(cards.issue_hidden), f.enqueue(cards.charge, 7, cards.CARD)
            shown = [f.enqueue(flow_jobs.note, hidden), f.enqueue(flow_jobs.note, [partly])]
            redacted = [f.enqueue(cards.decline, hidden), f.enqueue(cards.book, partly)]
        run_all()

        for result, of in zip(shown, ("issue_hidden", "charge"), strict=True):
            with pytest.raises(InvalidArguments, match=rf"{of} #\d+ is redacted, and .*note would"):
                result.rerun()
        stored = [int(result.rerun().id) for result in redacted]

        again = [Message.objects.get(id=id).payload["args"] for id in stored]
        assert [again[0], again[1][0]["receipt"]] == [[cards.CARD], cards.CARD]

    def test_of_a_flow_quotes_no_result_that_does_not_fit(self) -> None:
        with flow("cards") as f:
            result = f.enqueue(cards.take, f.enqueue(cards.issue_hidden))
        run_all()

        with pytest.raises(InvalidArguments, match="UnreadablePayload") as refused:
            result.rerun()

        assert cards.CARD not in "".join(format_exception(refused.value))

    def test_of_metadata_that_python_does_not_read_is_refused(self) -> None:
        result = flow_jobs.note.enqueue(1)
        run_all()
        with borrow("default") as connection:
            connection.execute(
                "UPDATE pgqueue_history SET metadata = jsonb_build_object('n', 10::numeric ^ 5000)"
            )

        with pytest.raises(InvalidArguments, match=rf"note #{result.id} can't .* its metadata: "):
            result.rerun()


class TestAFork:
    def of(self) -> Any:
        @durable
        def works(run: DurableContext, start: int) -> int:
            total = run.step(double, run.step(add, start, 1))
            return total + (run.wait_for("go", int) or 0) + start

        return works

    @pytest.mark.parametrize("is_ended", [True, False])
    def test_begins_with_the_steps_up_to_one(self, is_ended: bool) -> None:
        result = self.of().enqueue(2)
        run(result)
        if is_ended:
            result.signal("go", 1)
            returned(result)
        forked = result.fork(after="add", args=[100])
        run(forked)
        forked.signal("go", 5)

        assert returned(forked) == 6 + 5 + 100
        assert calls == [("add", 2, 1), ("double", 3), ("double", 3)]
        metadata = History.objects.get(id=int(forked.id)).metadata
        assert metadata == {"forked_from": int(result.id), "forked_after": "add"}

    def test_of_a_flow_takes_what_its_parents_have_returned(self) -> None:
        with flow("days") as f:
            result = f.enqueue(self.of(), f.enqueue(flow_jobs.number, 2))
        result.signal("go", 1)
        returned(result)

        assert returned(result.fork()) == 6 + 1 + 2

    def test_of_all_steps_begins_with_all_that_are_done(self) -> None:
        result = self.of().enqueue(2)
        result.signal("go", 1)
        returned(result)

        assert returned(result.fork()) == returned(result) == 9
        assert len(calls) == 2

    def test_is_a_message_of_its_own(self) -> None:
        keys = []

        def charge(run: DurableContext) -> None:
            keys.append(run.idempotency_key)

        @durable(dedupe_key="one")
        def works(run: DurableContext) -> None:
            run.step(add, 1, 1)
            run.step(charge, run)
            run.wait_for("go")

        result = works.enqueue()
        run(result)
        forked = result.fork(after="add")

        assert forked.id != result.id
        assert run(forked) == run(result) == "held"
        assert len(set(keys)) == 2
        forked.signal("go")
        assert (run(forked), run(result)) == ("succeeded", "held")

    def test_keeps_the_failures_that_were_handled(self) -> None:
        def charge() -> None:
            calls.append("charge")
            raise Oops

        @durable
        def works(run: DurableContext) -> str:
            try:
                run.step(charge, retries=0)
            except Exception as error:
                name = type(error).__name__
            return f"{name} {run.step(double, 2)} {run.random()}"

        result = works.enqueue()
        first = returned(result)

        assert returned(result.fork(after="double")).startswith("StepFailed 4 ")
        assert returned(result.fork()) == first
        assert calls == ["charge", ("double", 2)]

    def test_of_a_fork_says_what_it_is_of(self) -> None:
        result = self.of().enqueue(2)
        run(result)
        again = result.fork(after="double").fork()

        assert set(Message.objects.get(id=int(again.id)).metadata) == {"forked_from"}
        assert set(Message.objects.get(id=int(again.rerun().id)).metadata) == {"rerun_of"}

    def test_after_a_step_that_is_not_done_names_those_that_are(self) -> None:
        result = self.of().enqueue(2)
        run(result)

        for name in ("ad", "wait:go"):
            with pytest.raises(InvalidStep, match="has done no step"):
                result.fork(after=name)
        with pytest.raises(InvalidStep, match="add"):
            result.fork(after="ad")
        assert Message.objects.count() == 1

    def test_of_a_task_that_is_not_durable_is_refused(self) -> None:
        result = declared(lambda: None).enqueue()

        with pytest.raises(InvalidStep, match="is not durable"):
            result.fork()


class TestWhatIsKept:
    def test_moves_into_history_with_the_end(self) -> None:
        @durable
        def works(run: DurableContext) -> None:
            run.step(add, 1, 1)
            run.random()

        result = works.enqueue()
        result.signal("unread")
        returned(result)

        assert [each["name"] for each in kept(result)["steps"]] == ["add", "random"]
        assert [each["name"] for each in kept(result)["signals"]] == ["unread"]
        assert not Step.objects.exists()
        assert not StoredSignal.objects.exists()

    def test_shows_each_step_once(self) -> None:
        @durable
        def works(run: DurableContext) -> None:
            run.sleep(0)
            run.random()

        result = works.enqueue()
        returned(result)

        steps = kept(result)["steps"]
        assert [(each["name"], each["state"]) for each in steps] == [
            ("sleep", "done"),
            ("random", "done"),
        ]

    def test_is_nothing_for_a_run_without_steps(self) -> None:
        @durable
        def works(run: DurableContext) -> None:
            pass

        result = works.enqueue()
        returned(result)

        assert kept(result) is None

    def test_stays_with_a_dead_message(self) -> None:
        @durable(max_attempts=1)
        def works(run: DurableContext) -> None:
            run.step(add, 1, 1)
            raise Oops

        result = works.enqueue()
        assert run(result) == "dead"
        assert names(result) == ["add"]
        Message.objects.all().discard()

        assert [each["name"] for each in kept(result)["steps"]] == ["add"]
        assert not Step.objects.exists()

    def test_goes_on_by_a_replay(self) -> None:
        is_broken = True

        @durable(max_attempts=1)
        def works(run: DurableContext) -> int:
            value = run.step(add, 1, 1)
            if is_broken:
                raise Oops
            return value

        result = works.enqueue()
        run(result)
        is_broken = False
        Message.objects.all().replay()

        assert returned(result) == 2
        assert calls == [("add", 1, 1)]
