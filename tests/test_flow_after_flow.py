"""A flow that waits for another flow, and the outcome of both."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction
from django.test import TestCase

from pgqueue import Flow, FlowDoesNotExist, InvalidFlow, TaskContext, flow, get_flow, task
from pgqueue.engine import flows as engine
from pgqueue.models import Blocked, Dependency, History, Message
from pgqueue.models import Flow as FlowRow
from pgqueue.states import Outcome, State
from pgqueue.tasks import latches
from pgqueue.testing import immediate, run_all
from tests import flow_jobs as jobs
from tests.processes import worker

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _forget() -> None:
    jobs.ran.clear()


@task(takes_context=True, max_attempts=1)
def grow_after(context: TaskContext, name: str, awaited: bool) -> None:
    other = get_flow(FlowRow.objects.get(name=name).pk)
    context.flow.enqueue(jobs.note, "grown", after=other, awaited=awaited)


@task(takes_context=True, max_attempts=1)
def wait_for(context: TaskContext, flow_id: str) -> None:
    get_flow(flow_id).wait(timeout=5)


@task(takes_context=True, max_attempts=1)
def grow_in_lane(context: TaskContext, key: str) -> None:
    context.flow.enqueue(jobs.note.using(ordered=True, key=key), "behind")


def stored(name: str, *values: Any, **options: Any) -> Flow:
    """Return a flow that notes these values."""
    with flow(name, **options) as f:
        for value in values or (name,):
            f.enqueue(jobs.note, value)
    return f


def failing(name: str = "first") -> Flow:
    with flow(name) as f:
        f.enqueue(jobs.fail)
    return f


def mend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(vars(jobs.fail), "func", lambda message="": 4)


def latch_of(f: Flow) -> Any:
    """Return the row of the message by which a flow waits for another one."""
    rows = Message.objects.filter(flow_id=f.id, task=engine.LATCH)
    return rows.first() or History.objects.filter(flow_id=f.id, task=engine.LATCH).get()


class TestAMessage:
    def test_waits_until_another_flow_has_ended(self) -> None:
        # The higher priority would have it run first.
        first = stored("first", 1, 2)
        with flow("second") as second:
            second.enqueue(jobs.note.using(priority=9), "after", after=first)

        run_all()

        assert jobs.ran == [1, 2, "after"]
        assert first.progress == (3, 0, 0, 0, 0)
        assert second.progress == (2, 0, 0, 0, 0)
        assert not Blocked.objects.exists()

    def test_may_wait_for_flows_and_messages_together(self) -> None:
        flows = [stored(name) for name in ("one", "two")]
        with flow("second") as second:
            early = second.enqueue(jobs.note, "early")
            second.enqueue(jobs.note.using(priority=9), "late", after=[*flows, early])

        run_all()

        assert jobs.ran[-1] == "late"
        assert sorted(jobs.ran) == ["early", "late", "one", "two"]
        assert second.progress.done == 4

    def test_shares_the_wait_with_others_of_its_flow(self) -> None:
        first = stored("first")
        with flow("second") as second:
            second.enqueue_many(jobs.note, [("a",), ("b",)], after=first)
            second.add(jobs.note, ("c",), {}, after=(first,))

        assert Message.objects.filter(flow_id=second.id, task=engine.LATCH).count() == 1
        assert Dependency.objects.filter(flow_id=second.id).count() == 4

    def test_waits_for_one_that_is_added_to_a_stored_flow(self) -> None:
        first, second = stored("first"), stored("second")
        with get_flow(second.id) as later:
            later.enqueue(jobs.note.using(priority=9), "after", after=first)

        run_all()

        assert sorted(jobs.ran[:2]) == ["first", "second"]
        assert jobs.ran[2:] == ["after"]

    @pytest.mark.parametrize("awaited", [True, False])
    def test_that_a_run_adds_waits_for_another_flow(self, awaited: bool) -> None:
        stored("other")
        with flow("grows") as f:
            run = f.enqueue(grow_after.using(priority=9), "other", awaited)
            f.enqueue(jobs.note.using(priority=9), "end", after=run)

        run_all()

        assert jobs.ran == (["other", "grown", "end"] if awaited else ["end", "other", "grown"])

    def test_has_the_message_that_waits_in_its_own_channel(self) -> None:
        first = stored("first")
        with flow("second") as second:
            second.enqueue(jobs.note, 1)
            second.enqueue(jobs.note.using(channel="mail"), 2, after=first)
            second.enqueue(jobs.note, 3, after=first)

        assert latch_of(second).channel == "mail"
        handler = Message.objects.get(task=latches.end_of_flow.name)
        assert handler.pk == FlowRow.objects.get(pk=first.id).handler_id
        assert (handler.channel, handler.task) == ("default", latches.end_of_flow.name)


class TestAFlow:
    def test_waits_with_all_messages_that_would_wait_for_nothing(self) -> None:
        first = stored("first")
        with flow("second", after=first) as second:
            number = second.enqueue(jobs.number.using(priority=9), 1)
            second.enqueue(jobs.note.using(priority=9), number)
            second.enqueue(jobs.note.using(priority=8), "beside")

        latch = latch_of(second).pk
        waiting = Dependency.objects.filter(parent_id=latch).values_list("child_id", flat=True)
        assert len(waiting) == 2
        run_all()
        assert jobs.ran == ["first", 1, "beside"]

    def test_waits_for_several_and_its_end_for_all(self) -> None:
        flows = [stored("one"), stored("two")]
        with flow("second", after=flows, on_end=jobs.note) as second:
            second.enqueue(jobs.note.using(priority=9), "second", after=stored("three"))

        run_all()

        assert jobs.ran == ["one", "two", "three", "second", second.id]
        assert second.progress == (5, 0, 0, 0, 0)

    def test_waits_for_the_handler_of_one_that_has_one(self) -> None:
        first = stored("first", on_end=jobs.note)
        with flow("second", after=first) as second:
            second.enqueue(jobs.note.using(priority=9), "second")

        run_all()

        assert jobs.ran == ["first", first.id, "second"]
        assert first.progress.total == 2

    def test_that_follows_one_that_has_ended_runs_at_once(self) -> None:
        first, handled = stored("first"), stored("handled", on_end=jobs.note)
        run_all()
        jobs.ran.clear()

        with flow("second", after=[first, handled]) as second:
            second.enqueue(jobs.note, "second")
        run_all()

        assert jobs.ran == ["second"]
        assert (first.progress.total, handled.progress.total) == (1, 2)
        assert second.progress.done == 3

    def test_waits_for_messages_that_the_other_one_grows_by(self) -> None:
        with flow("first") as first:
            first.enqueue(jobs.grow, 2)
        with flow("second", after=first) as second:
            second.enqueue(jobs.note.using(priority=9), "second")
        with get_flow(first.id) as later:
            later.enqueue(jobs.note, "added later")

        ran = run_all()

        assert jobs.ran == ["added later", "second"]
        assert ran[-1].args == ["second"]
        assert first.progress.done == 6

    def test_may_wait_for_one_that_waits(self) -> None:
        first = stored("first")
        second = stored("second", after=first)
        stored("third", after=second)

        run_all()

        assert jobs.ran == ["first", "second", "third"]

    def test_that_is_opened_again_adds_messages_that_wait_for_nothing(self) -> None:
        first = stored("first")
        second = stored("second", after=first)
        with second:
            second.enqueue(jobs.note.using(priority=9), "at once")

        run_all()

        assert jobs.ran == ["at once", "first", "second"]

    def test_is_stored_with_the_other_one_or_not_at_all(self) -> None:
        first = stored("first")

        with suppress(ZeroDivisionError), transaction.atomic():
            stored("second", after=first)
            assert FlowRow.objects.get(pk=first.id).handler_id is not None
            _ = 1 / 0

        assert FlowRow.objects.get().handler_id is None
        assert Message.objects.count() == 1
        assert not Dependency.objects.exists()
        assert not Blocked.objects.exists()

    def test_leaves_out_a_wait_that_was_added_in_a_savepoint_that_is_rolled_back(self) -> None:
        first = stored("first")
        with flow("second") as second, transaction.atomic():
            second.enqueue(jobs.note, "kept")
            with suppress(ZeroDivisionError), transaction.atomic():
                second.enqueue(jobs.note, "gone", after=first)
                _ = 1 / 0

        assert second.progress.total == 1
        assert first.progress.total == 1

    def test_gives_the_other_one_a_single_handler(self) -> None:
        first = stored("first")
        for name in ("second", "third"):
            stored(name, after=first)

        assert first.progress.total == 2
        assert Message.objects.filter(task=latches.end_of_flow.name).count() == 1


@pytest.mark.django_db(transaction=True)
def test_async_code_stores_and_waits_for_flows_that_wait() -> None:
    async def store() -> Flow:
        async with flow("first") as first:
            first.enqueue(jobs.note, "first")
        async with flow("second", after=first) as second:
            second.enqueue(jobs.note.using(priority=9), "second")
        return second

    async_to_sync(store)()
    run_all()

    assert jobs.ran == ["first", "second"]


class TestAFailure:
    def test_is_a_dead_letter_that_names_the_flow_and_says_what_to_do(self) -> None:
        first = failing()
        second = stored("second", after=first)

        run_all()

        latch = latch_of(second)
        [error] = latch.errors
        assert (latch.state, latch.failures) == (State.DEAD, 1)
        assert error["class"] == "pgqueue.exceptions.FlowFailed"
        assert f"The flow 'first' #{first.id} has failed: 1 of its messages" in error["message"]
        assert f"get_flow({first.id}).retry()" in error["message"]
        assert second.progress == (0, 1, 0, 0, 1)
        assert second.wait(1) == (0, 1, 0, 0, 1)

    def test_is_waited_for_until_both_are_retried(self, monkeypatch: pytest.MonkeyPatch) -> None:
        first = failing()
        second = stored("second", after=first)
        run_all()
        mend(monkeypatch)

        assert len(first.retry().done) == 1
        run_all()
        assert jobs.ran == []
        assert second.retry().done == {latch_of(second).pk}
        run_all()

        assert jobs.ran == ["second"]
        assert first.progress == (2, 0, 0, 0, 0)
        assert second.progress == (2, 0, 0, 0, 0)

    def test_of_a_retry_is_told_again(self) -> None:
        first = failing()
        second = stored("second", after=first)
        run_all()
        first.retry()
        run_all()
        second.retry()
        run_all()

        assert len(latch_of(second).errors) == 2
        assert second.progress.failed == 1

    def test_of_the_handler_is_one_of_the_flow(self) -> None:
        first = stored("first", on_end=jobs.fail)
        second = stored("second", after=first)

        run_all()

        assert latch_of(second).state == State.DEAD

    @pytest.mark.parametrize(("on_failure", "ran"), [("run", ["second"]), ("cancel", [])])
    def test_means_to_a_message_that_waits_as_it_says(
        self, on_failure: str, ran: list[str]
    ) -> None:
        with flow("second") as second:
            end = second.enqueue(jobs.note, "second", after=failing(), on_failure=on_failure)

        run_all()

        end.refresh()
        assert jobs.ran == ran
        assert end.status is (Outcome.SUCCEEDED if ran else Outcome.CANCELLED)

    @pytest.mark.parametrize("on_failure", ["wait", "cancel", "run"])
    def test_for_good_cancels_all_that_do_not_run_all_the_same(self, on_failure: str) -> None:
        with flow("first") as first:
            first.enqueue(jobs.give_up)
        with flow("second", on_end=jobs.note) as second:
            end = second.enqueue(jobs.note, "second", after=first, on_failure=on_failure)

        run_all()

        end.refresh()
        latch = latch_of(second)
        runs = on_failure == "run"
        assert latch.outcome == Outcome.CANCELLED
        assert "1 of its messages were cancelled or discarded" in latch.errors[-1]["message"]
        assert end.status is (Outcome.SUCCEEDED if runs else Outcome.CANCELLED)
        assert jobs.ran == [*(["second"] if runs else []), second.id]

    def test_of_a_cancelled_flow_is_one_for_good(self) -> None:
        first = stored("first")
        second = stored("second", after=first)

        first.cancel()
        run_all()

        assert jobs.ran == []
        assert first.progress == (1, 1, 0, 0, 0)
        assert second.progress == (0, 2, 0, 0, 0)

    def test_does_not_end_the_wait_while_a_message_waits_for_a_dead_one(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with flow("first") as first:
            first.enqueue(jobs.note, first.enqueue(jobs.fail))
        second = stored("second", after=first)
        run_all()
        assert second.progress == (0, 0, 0, 0, 2)
        assert second.wait(1) == (0, 0, 0, 0, 2), "nothing goes on"

        mend(monkeypatch)
        first.retry()
        run_all()

        assert jobs.ran == [4, "second"]

    def test_is_looked_for_again_while_a_flow_that_was_retried_goes_on(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with flow("first") as first:
            first.enqueue(jobs.fail)
        second = stored("second", after=first)
        run_all()
        mend(monkeypatch)
        Message.objects.filter(flow_id=first.id).update(priority=-1)
        first.retry()
        second.retry()

        run_all()

        latch = latch_of(second)
        assert (latch.state, latch.progress) == (State.SCHEDULED, 2.0)
        assert jobs.ran == []
        assert Message.objects.filter(pk=latch.pk).run_now().done
        run_all()
        assert jobs.ran == ["second"]

    def test_is_unknown_once_the_other_flow_is_not_kept_any_more(self) -> None:
        first = failing()
        second = stored("second", after=first)
        run_all()
        FlowRow.objects.filter(pk=first.id).delete()

        second.retry()
        run_all()

        latch = latch_of(second)
        assert latch.state == State.DEAD
        assert "is not kept any more" in latch.errors[-1]["message"]

    def test_of_the_database_is_tried_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        second = stored("second", after=stored("first"))

        def fail(*arguments: Any) -> None:
            raise RuntimeError("once")

        with monkeypatch.context() as patched:
            patched.setattr(engine, "came_to", fail)
            run_all()

        assert latch_of(second).state == State.SCHEDULED


@pytest.mark.django_db(transaction=True)
def test_a_worker_goes_on_with_both_flows_once_they_are_retried() -> None:
    with worker("--threads=2"):
        with flow("first") as first:
            first.enqueue(jobs.need_flow, "third")
        with flow("second", after=first) as second:
            end = second.enqueue(jobs.number, 7)

        assert second.wait(timeout=20) == (0, 1, 0, 0, 1)
        assert first.progress == (1, 1, 0, 0, 0)
        stored("third")
        first.retry()
        second.retry()

        assert second.wait(timeout=20) == (2, 0, 0, 0, 0)
        assert end.wait(timeout=20).return_value == 7
        assert first.progress == (2, 0, 0, 0, 0)


class TestWhatIsRefused:
    def refused(self, store: Callable[[], Any], *, match: str) -> None:
        before = (Message.objects.count(), Dependency.objects.count(), FlowRow.objects.count())
        with pytest.raises(InvalidFlow, match=match), transaction.atomic():
            store()
        after = (Message.objects.count(), Dependency.objects.count(), FlowRow.objects.count())
        assert before == after

    def test_is_a_flow_whose_block_goes_on(self) -> None:
        with flow("first") as first:
            first.enqueue(jobs.nothing)
            with (
                flow("second") as second,
                pytest.raises(InvalidFlow, match="'first', which is not stored: its `with`"),
            ):
                second.enqueue(jobs.note, 1, after=first)
            with (
                pytest.raises(InvalidFlow, match=r"flow 'third' can't wait for the flow 'first'"),
                flow("third", after=first),
            ):
                pass

    def test_is_a_flow_without_messages(self) -> None:
        with flow("empty") as empty:
            pass

        self.refused(lambda: stored("second", after=empty), match="or nothing was added")

    def test_is_a_flow_of_another_database(self) -> None:
        first = stored("first")
        first.database = "elsewhere"

        self.refused(lambda: stored("second", after=first), match="stored on 'elsewhere'")

    def test_is_its_own_flow(self) -> None:
        first = stored("first")

        with get_flow(first.id) as later, pytest.raises(InvalidFlow, match="wait for itself"):
            later.enqueue(jobs.note, 1, after=first)
        with flow("new") as new, pytest.raises(InvalidFlow, match="wait for itself"):
            new.enqueue(jobs.note, 1, after=new)

    @pytest.mark.parametrize("between", [0, 1, 3])
    def test_is_a_flow_that_waits_for_it_already(self, between: int) -> None:
        first = last = stored("first")
        for number in range(between + 1):
            last = stored(f"number {number}", after=last)

        def close() -> None:
            with get_flow(first.id) as later:
                later.enqueue(jobs.note, 1, after=last)

        self.refused(close, match=f"#{first.id} can't wait for the flow .* #{last.id}, which waits")
        run_all()
        assert last.progress.has_ended

    def test_is_a_flow_that_waits_for_a_retry_of_it(self) -> None:
        with flow("first") as first:
            run = first.enqueue(grow_after, "second", False)
        run_all()
        second = stored("second", after=first)
        run_all()
        assert latch_of(second).state == State.DEAD

        first.retry()
        run_all()

        run.refresh()
        assert "which waits for it" in run.errors[-1].message

    def test_is_a_flow_that_waits_for_the_run_that_adds_it(self) -> None:
        with flow("first") as first:
            first.enqueue(jobs.note, "first")
        stored("second", after=first)
        with get_flow(first.id) as later:
            run = later.enqueue(grow_after, "second", False)

        run_all()

        run.refresh()
        assert "which waits for it" in run.errors[-1].message

    def test_is_something_else(self) -> None:
        first = stored("first")
        wrong: Any
        for wrong in (7, None, jobs.note, [first, 7]):
            self.refused(partial(stored, "second", after=wrong), match="must be a flow")
        for wrong in (7, None, [first, 7], ["first"]):
            with flow("second") as second, pytest.raises(InvalidFlow, match="jobs.note"):
                second.enqueue(jobs.note, 1, after=wrong)

    def test_is_a_message_of_another_flow_beside_a_flow(self) -> None:
        with flow("first") as first:
            member = first.enqueue(jobs.nothing)

        with flow("second") as second, pytest.raises(InvalidFlow, match="not a message of"):
            second.enqueue(jobs.note, 1, after=[first, member])

    def test_is_a_flow_that_is_not_kept_any_more(self) -> None:
        first = stored("first")
        FlowRow.objects.all().delete()

        with pytest.raises(FlowDoesNotExist, match=f"the flow 'first' #{first.id}: it was rolled"):
            stored("second", after=first)

        assert Message.objects.count() == 1

    def test_is_a_held_message(self) -> None:
        first = stored("first")
        held = jobs.nothing.hold(for_=60)

        def store() -> None:
            with flow("second", after=first) as second:
                second.enqueue(held)

        self.refused(store, match="is held until it is committed, and waits")


class TestOrder:
    def test_that_leads_back_from_a_message_that_a_flow_grows_by_is_refused(self) -> None:
        with flow("first") as first:
            run = first.enqueue(grow_in_lane, "lane")
        with flow("second", after=first) as second:
            second.enqueue(jobs.note.using(ordered=True, key="lane"), "second")

        run_all()

        run.refresh()
        assert "neither could ever run" in run.errors[-1].message

    def test_that_leads_back_from_a_flow_that_a_run_waits_for_is_refused(self) -> None:
        ordered = jobs.note.using(ordered=True, key="lane")
        with flow("first") as first:
            run = first.enqueue(grow_after, "other", True)
            child = first.enqueue(ordered, "first", after=run)
        with flow("other") as other:
            behind = other.enqueue(ordered, "other")

        run_all()

        run.refresh()
        assert f"Message {behind.id} of a flow" in run.errors[-1].message
        assert f"is behind message {child.id}" in run.errors[-1].message

    def test_that_leads_forward_is_kept(self) -> None:
        ordered = jobs.note.using(ordered=True, key="lane")
        with flow("other") as other:
            other.enqueue(ordered, "other")
        with flow("first") as first:
            first.enqueue(ordered, "first", after=first.enqueue(grow_after, "other", True))

        run_all()

        assert jobs.ran == ["other", "grown", "first"]


class TestOperating:
    def test_a_cancel_ends_the_wait(self) -> None:
        first = stored("first")
        second = stored("second", after=first)

        assert len(second.cancel().done) == 2
        run_all()

        assert jobs.ran == ["first"]
        assert first.progress == (2, 0, 0, 0, 0)
        assert second.progress == (0, 2, 0, 0, 0)

    def test_a_cancel_that_keeps_clean_up_does_not_wait_any_more(self) -> None:
        first = stored("first")
        with flow("second", after=first) as second:
            second.enqueue(jobs.note, "work")
            clean_up = jobs.note.using(priority=9)
            second.enqueue(clean_up, "clean up", after=first, on_failure="run")

        assert len(second.cancel(keep_clean_up=True).done) == 2
        run_all()

        assert jobs.ran == ["clean up", "first"]

    def test_a_run_of_a_flow_does_not_wait_for_one_that_waits_for_it(self) -> None:
        with flow("first") as first:
            first.enqueue(jobs.note, 1)
        second = stored("second", after=first)
        with get_flow(first.id) as later:
            run = later.enqueue(wait_for, second.id)

        run_all()

        run.refresh()
        assert "waiting for it would never end" in run.errors[-1].message


class TestATestCase(TestCase):
    def test_runs_flows_one_after_the_other(self) -> None:
        jobs.ran.clear()
        first = stored("first")
        stored("second", after=first)

        run_all()

        assert jobs.ran == ["first", "second"]

    def test_runs_them_as_soon_as_they_are_stored(self) -> None:
        jobs.ran.clear()
        with immediate():
            second = stored("second", after=stored("first"))

        assert jobs.ran == ["first", "second"]
        assert second.progress.has_ended
