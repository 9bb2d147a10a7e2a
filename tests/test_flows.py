"""What a project writes about flows, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import transaction

from pgqueue import (
    Channel,
    DuplicateMessage,
    Flow,
    FlowDoesNotExist,
    InvalidArguments,
    InvalidFlow,
    TaskFailed,
    UnreadablePayload,
    chain,
    chord,
    flow,
    get_flow,
    group,
)
from pgqueue.models import Blocked, Dependency, History, Message
from pgqueue.models import Flow as FlowRow
from pgqueue.operating import bulk
from pgqueue.states import Outcome, State
from pgqueue.testing import immediate, run_all
from tests import flow_jobs as jobs
from tests.management.calling import call
from tests.testing import jobs as tasks

pytestmark = pytest.mark.django_db


def values(*members: Any) -> list[Any]:
    for each in members:
        each.refresh()
    return [each.return_value for each in members]


class TestArguments:
    def test_that_are_members_become_what_these_return(self) -> None:
        with flow("sum") as f:
            parts = [f.enqueue(jobs.number, each) for each in (1, 2, 3)]
            end = f.enqueue(jobs.total, parts, extra=f.enqueue(jobs.number, 10))

        run_all()

        assert values(end) == [16]

    def test_are_found_in_dicts_too(self) -> None:
        with flow("names") as f:
            found = {"a": f.enqueue(jobs.number, 1), "b": f.enqueue(jobs.number, 2)}
            end = f.enqueue(jobs.by_name, found)

        run_all()

        assert values(end) == ["a=1,b=2"]

    def test_are_read_as_the_parameter_says(self) -> None:
        with flow("days") as f:
            end = f.enqueue(jobs.year_of, f.enqueue(jobs.someday, 2030))

        run_all()

        assert values(end) == [2030]

    def test_are_what_the_parent_says_where_the_parameter_says_nothing(self) -> None:
        with flow("kinds") as f:
            ends = [
                f.enqueue(jobs.kind_of, f.enqueue(jobs.someday, 2030)),
                f.enqueue(jobs.kind_of, f.enqueue(jobs.moment, 2030)),
                f.enqueue(jobs.kind_of, f.enqueue(jobs.nothing)),
            ]

        run_all()

        assert values(*ends) == ["date", "datetime", "NoneType"]

    def test_are_shown_as_results_to_come_until_the_message_runs(self) -> None:
        with flow("shown") as f:
            first = f.enqueue(jobs.number, 1)
            end = f.enqueue(jobs.total, [first])

        found = jobs.total.get_result(end.id)

        assert found.args == [[(int(first.id),)]]
        assert found.status is State.HELD

    def test_of_an_async_task_are_results_as_well(self) -> None:
        with flow("async") as f:
            end = f.enqueue(jobs.number_async, f.enqueue(jobs.number_async, 7))

        run_all()

        assert values(end) == [7]


class TestStoring:
    def test_a_flow_is_stored_as_a_whole_or_not_at_all(self) -> None:
        with pytest.raises(InvalidArguments), flow("bad") as f:
            first = f.enqueue(jobs.number, 1)
            f.enqueue(jobs.total, [first])
            f.enqueue(jobs.number, object())  # type: ignore[arg-type]

        assert not Message.objects.exists()
        assert not FlowRow.objects.exists()
        assert not Dependency.objects.exists()

    def test_nothing_is_stored_if_the_block_raises(self) -> None:
        with pytest.raises(RuntimeError), flow("raises") as f:
            f.enqueue(jobs.number, 1)
            raise RuntimeError

        assert not Message.objects.exists()

    def test_it_vanishes_with_the_caller_s_transaction(self) -> None:
        with pytest.raises(RuntimeError), transaction.atomic():
            with flow("undone") as f:
                f.enqueue(jobs.total, [f.enqueue(jobs.number, 1)])
            raise RuntimeError

        assert not Message.objects.exists()
        assert not Blocked.objects.exists()
        with pytest.raises(FlowDoesNotExist):
            get_flow(f.id)

    def test_an_empty_one_is_none(self) -> None:
        with flow("empty", on_end=jobs.note):
            pass

        assert not FlowRow.objects.exists()
        assert not Message.objects.exists()

    def test_members_of_another_flow_are_refused(self) -> None:
        with flow("one") as one:
            stranger = one.enqueue(jobs.number, 1)

        with (
            pytest.raises(InvalidFlow, match="of the flow 'two'"),
            flow("two") as two,
        ):
            two.enqueue(jobs.nothing, after=[stranger])
        with (
            pytest.raises(InvalidFlow, match="of the flow 'two'"),
            flow("two") as two,
        ):
            two.enqueue(jobs.total, [stranger])
        with pytest.raises(InvalidArguments, match="only a message of the same flow"):
            jobs.number.enqueue(stranger)  # type: ignore[arg-type]

    def test_a_cycle_is_refused(self) -> None:
        parts: list[Any] = []
        with pytest.raises(InvalidFlow, match="cycle"), flow("cycle") as f:
            parts.append(f.enqueue(jobs.total, parts))

    @pytest.mark.parametrize(
        ("parent", "child"), [(jobs.text, jobs.number), (jobs.nothing, jobs.year_of)]
    )
    def test_a_result_that_can_not_fit_is_refused(self, parent: Any, child: Any) -> None:
        with pytest.raises(InvalidArguments, match="doesn't take"), flow("unfit") as f:
            f.enqueue(child, f.enqueue(parent))

    def test_an_unknown_failure_policy_is_refused(self) -> None:
        with pytest.raises(InvalidFlow, match="wait, cancel, run"), flow("unknown") as f:
            f.enqueue(jobs.nothing, on_failure="ignore")

    def test_a_task_that_is_stored_on_commit_or_held_is_refused(self) -> None:
        with pytest.raises(InvalidFlow, match="on_commit"), flow("later") as f:
            f.enqueue(jobs.number.using(enqueue_on_commit=True), 1)
        with pytest.raises(InvalidFlow, match="can't do both"), flow("held") as f:
            f.enqueue(jobs.nothing.hold(for_=5), after=f.enqueue(jobs.number, 1))

    def test_a_task_of_another_database_is_refused(self) -> None:
        with pytest.raises(InvalidFlow, match="not stored on 'default'"), flow("apart") as f:
            f.enqueue(jobs.number.using(database="second"), 1)

    def test_a_parent_that_is_a_duplicate_is_refused(self) -> None:
        once = jobs.number.using(dedupe_key="once")
        before = once.enqueue(1)

        with pytest.raises(DuplicateMessage, match=before.id), flow("twice") as f:
            f.enqueue(jobs.total, [f.enqueue(once, 1)])
        with flow("twice") as f:
            alone = f.enqueue(once, 1)

        assert (alone.id, alone.came_of) == (before.id, "existing")

    def test_members_with_dedupe_keys_and_order_wait_as_others_do(self) -> None:
        once = jobs.number.using(dedupe_key="first")
        then = jobs.number.using(ordered=True, key="lane", priority=3)
        with flow("once") as f:
            first = f.enqueue(once, 1)
            second = f.enqueue(then, first)
            third = f.enqueue(jobs.number.using(dedupe_key="last"), second)

        states = {str(each.pk): each.state for each in Message.objects.all()}
        assert states == {first.id: "ready", second.id: "held", third.id: "held"}

        run_all()
        assert values(first, second, third) == [1, 1, 1]

    def test_a_delay_begins_when_it_is_stored(self) -> None:
        with flow("later") as f:
            end = f.enqueue(jobs.number.using(run_after=3600), f.enqueue(jobs.number, 1))

        run_all()
        end.refresh()

        assert end.status is State.SCHEDULED

    def test_of_tasks_that_run_at_once_runs_whole(self) -> None:
        with immediate():
            with flow("at once") as f:
                end = f.enqueue(jobs.total, [f.enqueue(jobs.number, 1), f.enqueue(jobs.number, 2)])

            assert values(end) == [3]


class TestSavepoints:
    """A message that is added in a savepoint that is rolled back is not stored."""

    @pytest.fixture(autouse=True)
    def _noted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(jobs, "ran", [])

    def test_take_what_was_added_in_them_with_them(self) -> None:
        with transaction.atomic(), flow("partly") as f:
            f.enqueue(jobs.note, "outside")
            with suppress(ZeroDivisionError), transaction.atomic():
                f.enqueue(jobs.note, "rolled back")
                with transaction.atomic():
                    f.enqueue(jobs.note, "within that")
                _ = 1 / 0
            with transaction.atomic():
                first = f.enqueue(jobs.number, 1)
                f.enqueue(jobs.note, first)

        run_all()

        assert jobs.ran == ["outside", 1]
        assert f.progress == (3, 0, 0, 0, 0)

    @pytest.mark.django_db(transaction=True)
    def test_may_be_transactions_of_their_own(self) -> None:
        with flow("partly") as f:
            with suppress(ZeroDivisionError), transaction.atomic():
                f.enqueue(jobs.note, "rolled back")
                _ = 1 / 0
            with transaction.atomic():
                f.enqueue(jobs.note, "committed")
            with transaction.atomic():
                f.enqueue(jobs.note, "committed, too")

        run_all()

        assert sorted(jobs.ran) == ["committed", "committed, too"]

    def test_of_which_nothing_is_left_store_no_flow(self) -> None:
        with (
            flow("nothing", on_end=jobs.note) as f,
            suppress(ZeroDivisionError),
            transaction.atomic(),
        ):
            f.enqueue(jobs.note, "rolled back")
            _ = 1 / 0

        assert not FlowRow.objects.exists()
        assert not Message.objects.exists()

    def test_refuse_what_waits_for_what_is_gone(self) -> None:
        with (
            pytest.raises(InvalidFlow, match=r"note can't wait for .*number.* rolled back"),
            flow("broken") as f,
        ):
            with suppress(ZeroDivisionError), transaction.atomic():
                gone = f.enqueue(jobs.number, 1)
                _ = 1 / 0
            f.enqueue(jobs.note, gone)

        assert not Message.objects.exists()

    @pytest.mark.parametrize(
        "task", [jobs.grow_in_savepoints, jobs.grow_in_savepoints_atomically], ids=str
    )
    @pytest.mark.parametrize("commits", [False, True])
    def test_hold_for_what_a_run_adds(
        self, request: pytest.FixtureRequest, task: Any, commits: bool
    ) -> None:
        request.getfixturevalue("transactional_db" if commits else "db")
        with flow("grows") as f:
            end = f.enqueue(jobs.note, f.enqueue(task))

        run_all()

        assert sorted(map(str, jobs.ran)) == ["-1", "kept", "kept, too"]
        assert jobs.ran[-1] == -1 or jobs.ran[-2:] == [-1, "kept"]
        assert values(end) == [None]

    def test_may_leave_nothing_of_what_a_run_adds(self) -> None:
        with flow("grows") as f:
            f.enqueue(jobs.grow_in_vain)

        run_all()

        assert (jobs.ran, f.progress) == ([], (1, 0, 0, 0, 0))


class TestNames:
    def test_find_messages_within_the_block_and_after_it(self) -> None:
        with flow("etl") as f:
            load = f.enqueue(jobs.number, 5, name="load")
            f.enqueue(jobs.number, f["load"], name="next")

        assert f["load"] is load
        found = get_flow(f.id)["next"]
        run_all()
        found.refresh()

        assert (found.id, found.return_value) == (f["next"].id, 5)
        assert FlowRow.objects.get().names == {
            "load": load.message_id,
            "next": found.message_id,
        }

    def test_find_messages_whose_arguments_can_not_be_read(self) -> None:
        gone = Group.objects.create(name="gone")
        with flow("etl") as f:
            f.enqueue(tasks.delete, gone, name="group")
            f.enqueue(jobs.number, 5, name="number")
        gone.delete()
        Message.objects.filter(id=f["number"].message_id).update(payload=7)

        found = get_flow(f.id)

        assert found["group"].id == f["group"].id
        with pytest.raises(Group.DoesNotExist):
            found["group"].args  # noqa: B018
        with pytest.raises(UnreadablePayload):
            found["number"].kwargs  # noqa: B018

    def test_are_unique(self) -> None:
        with (
            pytest.raises(InvalidFlow, match="name='load' of .*note: .*number has this name"),
            flow("etl") as f,
        ):
            f.enqueue(jobs.number, 1, name="load")
            f.enqueue(jobs.note, 1, name="load")

        assert not FlowRow.objects.exists()

    @pytest.mark.parametrize("name", ["", 3, "a\0b", "x" * 201])
    def test_are_texts(self, name: Any) -> None:
        with flow("etl") as f, pytest.raises(InvalidFlow, match="name="):
            f.enqueue(jobs.number, 1, name=name)

    def test_that_no_message_has_are_refused_with_a_hint(self) -> None:
        with flow("etl") as f:
            f.enqueue(jobs.number, 1, name="load")
            with pytest.raises(InvalidFlow, match="Did you mean 'load'"):
                f["laod"]

        with pytest.raises(InvalidFlow, match="Did you mean 'load'"):
            get_flow(f.id)["laod"]

    def test_of_what_was_rolled_back_are_free(self) -> None:
        with flow("etl") as f:
            with suppress(ZeroDivisionError), transaction.atomic():
                f.enqueue(jobs.number, 1, name="load")
                _ = 1 / 0
            f.enqueue(jobs.number, 2, name="load")

        run_all()

        assert values(f["load"]) == [2]

    def test_of_duplicates_are_refused(self) -> None:
        jobs.number.using(dedupe_key="one").enqueue(1)

        with pytest.raises(DuplicateMessage, match="no name"), flow("etl") as f:
            f.enqueue(jobs.number.using(dedupe_key="one"), 1, name="load")

    def test_may_be_given_and_waited_for_by_a_run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(jobs, "ran", [])
        with flow("etl") as f:
            first = f.enqueue(jobs.number, 7, name="first")
            f.enqueue(jobs.grow_by_names, after=first)

        run_all()

        assert jobs.ran == [7]
        assert values(f["second"]) == [7]

    def test_that_a_run_gives_twice_fail_it(self) -> None:
        with flow("etl") as f:
            f.enqueue(jobs.number, 7, name="first")
            f.enqueue(jobs.number, 7, name="second")
            bad = f.enqueue(jobs.grow_by_names)

        run_all()
        bad.refresh()

        assert bad.status is State.DEAD
        assert "has this name in the flow already" in bad.errors[-1].message

    def test_may_not_lead_a_run_in_a_circle(self) -> None:
        with flow("circle") as f:
            bad = f.enqueue(jobs.grow_in_a_circle)
            f.enqueue(jobs.note, bad, name="last")

        run_all()
        bad.refresh()

        assert bad.status is State.DEAD
        assert "would never run" in bad.errors[-1].message


class TestAddingLater:
    @pytest.fixture(autouse=True)
    def _noted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(jobs, "ran", [])

    def test_stores_messages_that_wait_for_what_is_there(self) -> None:
        with flow("lives") as f:
            first = f.enqueue(jobs.number, 3, name="first")
            f.enqueue(jobs.number.using(run_after=3600), 1)
        run_all()
        first.refresh()

        with get_flow(f.id) as later:
            part = later.enqueue(jobs.total, [later["first"]], extra=1, name="part")
            later.enqueue(jobs.note, part)

        run_all()
        assert jobs.ran == [4]
        assert f.progress == (3, 0, 0, 0, 1)

    def test_may_be_done_with_the_flow_itself(self) -> None:
        with flow("lives") as f:
            first = f.enqueue(jobs.number, 3)
            f.enqueue(jobs.number.using(run_after=3600), 1)
        with f:
            f.enqueue(jobs.note, f.enqueue(jobs.total, [first]))
        with f:
            f.enqueue(jobs.note, first)

        run_all()

        assert sorted(jobs.ran) == [3, 3]

    def test_that_has_failed_leaves_nothing(self) -> None:
        with flow("lives") as f:
            f.enqueue(jobs.number, 3)
        with pytest.raises(ZeroDivisionError), f:
            gone = f.enqueue(jobs.note, 1, name="gone")
            _ = 1 / 0

        with pytest.raises(InvalidFlow, match="not a message of"), f:
            f.enqueue(jobs.note, gone)
        with pytest.raises(InvalidFlow, match="no message with the name 'gone'"):
            f["gone"]

    def test_has_the_handler_wait_for_more(self) -> None:
        with flow("lives", on_end=jobs.note) as f:
            f.enqueue(jobs.number, 1, name="first")
        with get_flow(f.id) as later:
            later.enqueue(jobs.note, later["first"])

        run_all()

        assert jobs.ran == [1, f.id]

    @pytest.mark.parametrize("handled", [False, True])
    def test_is_refused_once_the_flow_has_ended(self, handled: bool) -> None:
        with flow("ended", on_end=jobs.note if handled else None) as f:
            f.enqueue(jobs.number, 1)
        run_all()

        with pytest.raises(InvalidFlow, match="has ended"), get_flow(f.id) as later:
            later.enqueue(jobs.number, 2)

        assert not Message.objects.exists()

    def test_waits_no_more_for_what_has_failed(self) -> None:
        with flow("lives") as f:
            f.enqueue(jobs.give_up, name="gone")
            f.enqueue(jobs.number.using(run_after=3600), 1)
        run_all()

        with get_flow(f.id) as later:
            never = later.enqueue(jobs.note, later["gone"])
            clean = later.enqueue(jobs.failures, later["gone"], on_failure="run")
        run_all()

        never.refresh()
        assert never.status is Outcome.CANCELLED
        assert values(clean) == [["discarded: not worth it"]]

    def test_may_wait_for_a_message_that_waits_itself(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(jobs, "ran", [])
        with flow("lives") as f:
            f.enqueue(jobs.note, f.enqueue(jobs.number, 1), name="waits")
        with get_flow(f.id) as later:
            later.enqueue(jobs.note, 2, after=later["waits"])

        run_all()

        assert jobs.ran == [1, 2]

    def test_that_adds_nothing_changes_nothing(self) -> None:
        with flow("lives") as f:
            f.enqueue(jobs.number, 1)
        with get_flow(f.id):
            pass

        assert f.progress.total == 1

    def test_is_refused_for_a_member_of_another_flow(self) -> None:
        with flow("one") as one:
            one.enqueue(jobs.number, 1, name="a")
        with flow("two") as two:
            two.enqueue(jobs.number, 1, name="a")

        with get_flow(two.id) as later, pytest.raises(InvalidFlow, match="not a message of"):
            later.enqueue(jobs.note, after=get_flow(one.id)["a"])


class TestShortcuts:
    def test_a_call_is_added_with_its_arguments_and_takes_results(self) -> None:
        with flow("calls") as f:
            parts = [f.enqueue(jobs.number.call(number)) for number in (2, 3)]
            last = f.enqueue(jobs.total.call([part.result for part in parts]), name="total")

        run_all()

        last.refresh()
        assert last.return_value == 5
        assert f["total"].id == last.id

    def test_a_call_keeps_its_reaction_to_a_failure(self) -> None:
        with flow("calls") as f:
            member = f.enqueue(jobs.number.call(2).on_failure("run"))
            other = f.enqueue(jobs.number.call(2).on_failure("run"), on_failure="cancel")

        assert (member.on_failure, other.on_failure) == ("run", "cancel")

    def test_a_call_takes_no_further_arguments(self) -> None:
        with pytest.raises(InvalidFlow, match="its call has arguments already"), flow("calls") as f:
            f.enqueue(jobs.number.call(2), 3)  # type: ignore[call-overload]

    def test_a_chain_hands_on_what_each_step_returned(self) -> None:
        last = chain(jobs.number.call(1), jobs.add_to.call(10), jobs.add_to.call(100)).enqueue()

        run_all()

        assert values(last) == [111]
        assert last.flow.progress.done == 3

    def test_a_chain_may_take_nothing_over(self) -> None:
        last = chain(jobs.number.call(1), jobs.number.call(2).without_result()).enqueue()

        first = run_all()

        assert values(last) == [2]
        assert [each.args for each in first] == [[1], [2]]

    def test_a_chord_gives_its_callback_all_results(self) -> None:
        last = chord(jobs.number.map([1, 2, 3]), jobs.total.call(extra=4)).enqueue()

        run_all()

        assert values(last) == [10]

    def test_a_group_in_a_chain_gives_each_what_was_before_and_all_to_what_follows(self) -> None:
        words = chain(jobs.number.call(1), group(jobs.add_to.call(n) for n in (10, 20)), jobs.total)

        last = words.enqueue()
        run_all()

        assert values(last) == [32]

    @pytest.mark.parametrize(
        "empty",
        [
            group([]),
            group(group([]), group([])),
            chain(group([]), group([])),
            group(chain(jobs.number, group([]))),
        ],
        ids=["alone", "nested", "twice", "at the end of a chain"],
    )
    @pytest.mark.parametrize("takes", [True, False])
    def test_what_follows_an_empty_group_waits_for_what_is_before_it(
        self, empty: Any, takes: bool
    ) -> None:
        after = jobs.echo.call() if takes else jobs.echo.call("nothing").without_result()
        last = chain(jobs.number.call(1), empty, after).enqueue()

        [parent] = Dependency.objects.filter(child_id=last.id).values_list("parent_id", flat=True)
        ran = run_all()

        assert str(parent) == ran[-2].id
        [value] = values(last)
        assert value in ([], [[]], [[], []]) if takes else value == "nothing"

    def test_chains_side_by_side_end_in_the_last_of_each(self) -> None:
        first, second = group(
            chain(jobs.number.call(1), jobs.add_to.call(1)), jobs.number.call(5)
        ).enqueue(name="side by side")

        run_all()

        assert values(first, second) == [2, 5]
        assert first.flow is second.flow
        assert first.flow.name == "side by side"

    def test_a_call_has_options_and_says_what_a_failure_means(self) -> None:
        last = chain(
            jobs.fail.using(channel="other").call("gone"),
            jobs.failures.call().using(priority=7).on_failure("run"),
        ).enqueue()

        run_all()

        assert values(last) == [["dead: gone"]]
        assert History.objects.get(pk=last.id).priority == 7

    @pytest.mark.parametrize("empty", [chain(), group()])
    def test_an_empty_one_is_refused(self, empty: Any) -> None:
        with pytest.raises(InvalidFlow, match="nothing in this"):
            empty.enqueue()
        with pytest.raises(InvalidFlow, match="not empty"):
            chord([], jobs.total)

    def test_what_is_no_task_is_refused(self) -> None:
        with pytest.raises(InvalidFlow, match="no task of pgqueue's"):
            chain(jobs.number.call(1), print)
        with pytest.raises(InvalidFlow, match="wait, cancel, run"):
            jobs.number.call(1).on_failure("ignore")


class TestFailures:
    def test_are_passed_to_those_that_run_all_the_same(self) -> None:
        with flow("all the same") as f:
            end = f.enqueue(
                jobs.failures,
                f.enqueue(jobs.fail, "one"),
                f.enqueue(jobs.give_up),
                f.enqueue(jobs.number, 3),
                on_failure="run",
            )

        run_all()

        assert values(end) == [["dead: one", "discarded: not worth it", "3"]]

    def test_wait_for_a_retry_of_the_flow(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with flow("again") as f:
            bad = f.enqueue(jobs.fail)
            end = f.enqueue(jobs.total, [bad])
        run_all()
        assert f.progress == (0, 1, 0, 0, 1)

        assert f.retry().done == {int(bad.id)}
        monkeypatch.setitem(vars(jobs.fail), "func", lambda message="": 4)
        run_all()

        assert values(end) == [4]
        assert f.progress.has_ended

    def test_say_the_state_of_one_that_is_replayed_together_with_what_it_let_go(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with flow("together") as f:
            last = jobs.failures.using(max_attempts=1, priority=1)
            bad = f.enqueue(jobs.fail, "one")
            end = f.enqueue(last, bad, on_failure="run")
        with monkeypatch.context() as patched:
            patched.setitem(vars(jobs.failures), "func", jobs.fail.func)
            run_all()

        assert f.retry().done == {int(bad.id), int(end.id)}
        run_all()

        assert values(end) == [["ready: one"]]

    def test_end_what_says_so(self) -> None:
        with flow("cancel") as f:
            end = f.enqueue(jobs.total, [f.enqueue(jobs.fail)], on_failure="cancel")

        run_all()
        end.refresh()

        assert end.status is Outcome.CANCELLED
        with pytest.raises(TaskFailed):
            _ = end.return_value
        assert "did not succeed" in end.errors[-1].message


class TestTheHandler:
    @pytest.fixture(autouse=True)
    def _forget(self) -> None:
        jobs.ran.clear()

    def test_runs_once_all_have_ended_however_that_was(self) -> None:
        with flow("handled", on_end=jobs.note) as f:
            f.enqueue(jobs.total, [f.enqueue(jobs.fail)], on_failure="cancel")
            f.enqueue(jobs.number, 1)

        run_all()

        assert jobs.ran == [f.id]
        assert get_flow(f.id).progress == (2, 2, 0, 0, 0)

    @pytest.mark.parametrize(
        "cancel",
        [
            lambda f: f.cancel(),
            lambda f: call("pgqueue_cancel", "--flow", f.id),
            lambda f: bulk.start("cancel", bulk.Filter(flow=int(f.id)), newest=bulk.newest()),
        ],
        ids=["flow", "command", "bulk"],
    )
    def test_runs_also_where_the_flow_is_cancelled(self, cancel: Callable[[Flow], Any]) -> None:
        Channel("default").pause()
        with flow("cancelled", on_end=jobs.note) as f:
            f.enqueue(jobs.total, [f.enqueue(jobs.number, 1)])

        cancel(f)
        run_all()
        Channel("default").resume()
        run_all()

        assert f.progress == (1, 2, 0, 0, 0)
        assert jobs.ran == [f.id]

    def test_does_not_run_while_a_message_waits_for_a_dead_one(self) -> None:
        with flow("stuck", on_end=jobs.note) as f:
            dead = f.enqueue(jobs.fail)
            f.enqueue(jobs.total, [dead])
        run_all()
        assert jobs.ran == []

        Message.objects.filter(pk=dead.id).discard()
        run_all()

        assert jobs.ran == [f.id]

    def test_is_not_called_again_after_a_retry(self) -> None:
        with flow("once", on_end=jobs.note) as f:
            bad = f.enqueue(jobs.fail)
        run_all()
        assert jobs.ran == [f.id]

        assert f.retry().done == {int(bad.id)}
        run_all()

        assert jobs.ran == [f.id]

    def test_waits_for_what_is_added_meanwhile(self) -> None:
        with flow("grown", on_end=jobs.note) as f:
            f.enqueue(jobs.grow, 3)

        run_all()

        assert jobs.ran == [f.id]
        assert f.progress.done == 6


class TestGrowing:
    @pytest.mark.parametrize("task", [jobs.grow, jobs.grow_atomically, jobs.grow_async])
    def test_has_what_waits_for_the_task_wait_for_more(self, task: Any) -> None:
        with flow("grows") as f:
            end = f.enqueue(jobs.total, [f.enqueue(task, 3)])

        first = run_all()

        assert values(end) == [-1]
        assert first[-1].id == end.id, "it ran before what was added"

    def test_is_undone_with_an_attempt_that_fails(self) -> None:
        with flow("again") as f:
            f.enqueue(jobs.grow_the_second_time)

        run_all(retries=True)

        added = [each.payload for each in Message.objects.all()]
        assert added == []
        assert f.progress == (2, 0, 0, 0, 0)

    def test_fails_the_run_if_it_can_not_be_stored(self) -> None:
        with flow("bad") as f:
            bad = f.enqueue(jobs.grow_badly)

        run_all()
        bad.refresh()

        assert bad.status is State.DEAD
        assert "object" in bad.errors[-1].message
        assert f.progress.total == 1

    def test_waits_only_for_what_the_same_run_adds(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with flow("stored before") as f:
            monkeypatch.setattr(jobs, "ran", [f.enqueue(jobs.number, 1)])
            bad = f.enqueue(jobs.grow_after_what_ran)

        run_all()
        bad.refresh()

        assert bad.status is State.DEAD
        assert "it is not a message of the part" in bad.errors[-1].message

    def test_needs_a_flow(self) -> None:
        result = jobs.grow_where_there_is_no_flow.using(max_attempts=1).enqueue()

        run_all()
        result.refresh()

        assert result.status is State.DEAD
        assert "not part of a flow" in result.errors[-1].message


class TestOperating:
    def test_cancels_what_has_not_begun(self) -> None:
        with flow("cancelled") as f:
            f.enqueue(jobs.total, [f.enqueue(jobs.number, 1)])

        assert len(f.cancel().done) == 2
        assert f.progress == (0, 2, 0, 0, 0)
        assert run_all() == []
        assert f.wait(0).has_ended

    @pytest.mark.parametrize("keeps", [False, True])
    def test_cancels_clean_up_steps_unless_it_is_told_to_keep_them(
        self, keeps: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(jobs, "ran", [])
        monkeypatch.setattr("pgqueue.tasks.flows.BATCH", 1)
        with flow("cancelled", on_end=jobs.note) as f:
            part = f.enqueue(jobs.number, 1)
            whole = f.enqueue(jobs.total, [part])
            f.enqueue(jobs.note, "clean up", after=[part, whole], on_failure="run")

        f.cancel(keep_clean_up=keeps)
        run_all()

        assert jobs.ran == (["clean up"] if keeps else []) + [f.id]
        assert f.progress == (2, 2, 0, 0, 0) if keeps else (1, 3, 0, 0, 0)

    def test_says_which_option_is_none(self) -> None:
        with flow("cancelled") as f:
            f.enqueue(jobs.number, 1)

        with pytest.raises(InvalidFlow, match="keep_clean_up=1"):
            f.cancel(keep_clean_up=1)  # type: ignore[arg-type]

    @pytest.mark.parametrize("how", ["context", "by its id", "async"])
    def test_refuses_to_wait_for_the_flow_of_the_run_itself(self, how: str) -> None:
        with flow("waits") as f:
            waits = (
                f.enqueue(jobs.await_its_flow)
                if how == "async"
                else f.enqueue(jobs.wait_for_its_flow, how)
            )

        run_all()
        waits.refresh()

        assert "waiting for it would never end" in waits.errors[-1].message
        assert waits.errors[-1].exception_class_path.endswith("InvalidFlow")

    def test_cancels_what_a_run_has_added_although_it_was_to_be_cancelled_when_called_again(
        self,
    ) -> None:
        with flow("grows on") as f:
            grows = f.enqueue(jobs.grow_though_cancelled)
            end = f.enqueue(jobs.nothing, after=grows)

        run_all()

        (added,) = Message.objects.filter(flow_id=f.id).values_list("pk", flat=True)
        assert values(grows) == [[[end.message_id], [grows.message_id]]]
        assert f.progress == (1, 1, 0, 0, 1)
        assert f.cancel().done == {added}
        assert f.progress == (1, 2, 0, 0, 0)

    def test_looks_one_up_by_its_id(self) -> None:
        with flow("found") as f:
            f.enqueue(jobs.number, 1)

        found = get_flow(f.id)

        assert (found.id, found.name) == (f.id, "found")
        for unknown in ("0", "x", "", "9" * 30, "9" * 4301):
            with pytest.raises(FlowDoesNotExist):
                get_flow(unknown)

    def test_says_that_it_is_stored_or_not_yet(self) -> None:
        f = flow("not yet")
        with pytest.raises(InvalidFlow, match="Nothing of the flow 'not yet' is stored"):
            _ = f.progress
        with f:
            f.enqueue(jobs.number, 1)
        with pytest.raises(InvalidFlow, match="its block has ended"):
            f.enqueue(jobs.number, 1)

    def test_wait_returns_where_only_a_dead_one_is_waited_for(self) -> None:
        with flow("stuck") as f:
            f.enqueue(jobs.total, [f.enqueue(jobs.fail)])
        run_all()

        assert isinstance(f, Flow)
        assert f.wait(1) == (0, 1, 0, 0, 1)
