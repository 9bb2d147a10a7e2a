"""The promises of the documentation about durable tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.db import transaction

from pgqueue import (
    Channel,
    DurableContext,
    InvalidStep,
    LeaseLost,
    MessageEnded,
    StepFailed,
    publish,
    signal,
)
from pgqueue.models import History, Message, Step, StoredSignal
from pgqueue.tasks import TaskResult
from pgqueue.testing import run_all
from tests.durable.promised import (
    changing,
    code,
    done,
    first,
    second,
    third,
    write,
    write_and_fail,
)

pytestmark = pytest.mark.django_db(transaction=True)

Program = Callable[[DurableContext], Any]


class Other:
    @staticmethod
    def first() -> str:
        raise AssertionError("another step is done")


@pytest.fixture(autouse=True)
def _nothing_done() -> Iterator[None]:
    done.clear()
    yield
    code.clear()


def started(program: Program) -> TaskResult[Any]:
    """Enqueue a message that runs this program, and run it until it waits."""
    code["now"] = program
    result = changing.enqueue()
    run_all(raise_errors=True)
    return result


def deployed(result: TaskResult[Any], program: Program) -> Any:
    """Send the signal that a message waits for, and let another program go on."""
    code["now"] = program
    result.signal("go")
    run_all(raise_errors=True)
    result.refresh()
    return result.return_value


def old(run: DurableContext) -> str:
    one = run.step(first)
    two = run.step(second)
    run.wait_for("go")
    return one + two


class TestChangedCode:
    def test_may_move_add_and_remove_steps(self) -> None:
        def new(run: DurableContext) -> str:
            three = run.step(third)
            two = run.step(second)
            run.wait_for("go")
            return three + two

        assert deployed(started(old), new) == "32"
        assert done == ["first", "second", "third"]

    def test_holds_for_new_runs_alone_where_it_asks_so(self) -> None:
        def new(run: DurableContext) -> str:
            three = run.step(third) if run.patched("third") else ""
            return three + old(run)

        assert deployed(started(old), new) == "12"
        assert deployed(started(new), new) == "312"

    def test_gives_no_value_of_another_function_unless_the_code_gives_its_name(self) -> None:
        def new(run: DurableContext) -> str:
            return run.step(Other.first)

        result = started(old)
        with pytest.raises(InvalidStep, match=r"'first' was first .* and is Other.first now"):
            deployed(result, new)

    def test_may_rename_the_function_of_a_step(self) -> None:
        def new(run: DurableContext) -> str:
            one = run.step(third, name="first")
            two = run.step(lambda: "9", name="second")
            run.wait_for("go")
            return one + two

        assert deployed(started(old), new) == "12"
        assert done == ["first", "second"]

    def test_shifts_steps_that_have_one_name(self) -> None:
        """Where names are no better than positions: the numbers of a loop."""

        def before(run: DurableContext) -> list[int]:
            found = [run.step(len, "x" * number, name="length") for number in (1, 2)]
            run.wait_for("go")
            return found

        def after(run: DurableContext) -> list[int]:
            found = [run.step(len, "x" * number, name="length") for number in (9, 1, 2)]
            run.wait_for("go")
            return found

        assert deployed(started(before), after) == [1, 2, 2]

    def test_does_not_shift_steps_with_names_of_their_own(self) -> None:
        def before(run: DurableContext) -> list[int]:
            found = [run.step(len, "x" * each, name=f"length {each}") for each in (1, 2)]
            run.wait_for("go")
            return found

        def after(run: DurableContext) -> list[int]:
            found = [run.step(len, "x" * each, name=f"length {each}") for each in (9, 1, 2)]
            run.wait_for("go")
            return found

        assert deployed(started(before), after) == [9, 1, 2]


class TestAStep:
    def test_that_is_done_is_not_done_again(self) -> None:
        assert deployed(started(old), old) == "12"
        assert done == ["first", "second"]

    def test_that_is_atomic_leaves_nothing_if_it_fails(self) -> None:
        def program(run: DurableContext) -> str:
            try:
                run.step(write_and_fail, "ada", atomic=True, retries=2, backoff=[0])
            except StepFailed as failure:
                return f"{failure.tries} {failure.text}"
            return ""

        result = started(program)

        result.refresh()
        assert result.return_value == "3 too late"
        assert not Group.objects.exists()

    def test_that_is_atomic_leaves_nothing_if_its_lease_is_lost(self) -> None:
        def program(run: DurableContext) -> str:
            Message.objects.update(worker_id=uuid4())  # as a rescue and another claim do
            return run.step(write, "ada", atomic=True)

        with pytest.raises(LeaseLost):
            started(program)

        assert not Group.objects.exists()
        assert not Step.objects.exists()

    def test_of_a_run_that_has_lost_its_lease_is_not_stored(self) -> None:
        def program(run: DurableContext) -> str:
            Message.objects.update(worker_id=uuid4())
            return run.step(first)

        with pytest.raises(LeaseLost):
            started(program)

        assert done == ["first"]
        assert not Step.objects.exists()

    def test_that_has_failed_for_good_fails_in_each_run(self) -> None:
        def program(run: DurableContext) -> str:
            try:
                run.step(write_and_fail, "ada", retries=0)
            except StepFailed as failure:
                run.wait_for("go")
                return failure.text
            return ""

        assert deployed(started(program), program) == "too late"
        assert done == ["ada"]


class TestASignal:
    def test_is_kept_if_it_comes_before_the_wait(self) -> None:
        code["now"] = old
        result = changing.enqueue()
        assert deployed(result, old) == "12"

    def test_is_a_part_of_its_transaction(self) -> None:
        result = started(old)

        with pytest.raises(ZeroDivisionError), transaction.atomic():
            result.signal("go")
            1 / 0  # noqa: B018
        run_all(raise_errors=True)

        result.refresh()
        assert result.status == "held"

    def test_counts_once_for_each_id_of_its_sender(self) -> None:
        result = started(old)

        assert [result.signal("more", dedupe_id="m-1") for _ in range(2)] == [True, False]
        assert StoredSignal.objects.count() == 1

    def test_to_a_message_that_has_ended_is_an_error_or_ignored(self) -> None:
        result = started(lambda run: None)

        with pytest.raises(MessageEnded, match="has ended"):
            result.signal("go")
        assert not signal(result.id, "go", if_ended="ignore")


class TestAWait:
    def test_for_an_event_misses_none_that_was_published_after_the_enqueue(self) -> None:
        code["now"] = lambda run: run.wait_for_event("paid", key="7").payload
        result = changing.enqueue()
        publish("paid", {"total": 3}, key="7")
        call_command("pgqueue_maintain")  # gives positions, and matches the waits

        run_all(raise_errors=True)

        result.refresh()
        assert result.return_value == {"total": 3}

    def test_takes_no_place_of_its_channel(self) -> None:
        Channel("default").policy(max_running=1)

        started(old)
        result = started(lambda run: "went by")

        result.refresh()
        assert result.return_value == "went by"

    def test_has_failures_counted_since_the_last_finished_step(self) -> None:
        def program(run: DurableContext) -> str:
            if run.attempt % 2:
                raise ValueError("for a moment")
            run.step(first, name=f"step {run.attempt}")
            if run.attempt < 12:
                run.sleep(0, name=f"nap {run.attempt}")
            return "weeks later"

        code["now"] = program
        result = changing.enqueue()
        run_all(retries=True)

        result.refresh()
        assert result.return_value == "weeks later"
        assert len(result.errors) == 6 > changing.max_attempts


def test_steps_live_as_long_as_their_message_then_in_its_history() -> None:
    result = started(old)
    assert Step.objects.filter(message_id=result.id).count() == 3

    deployed(result, old)

    assert not Step.objects.exists()
    kept = History.objects.get(pk=result.id).steps
    assert [each["name"] for each in kept["steps"]] == ["first", "second", "wait:go"]
    assert [each["name"] for each in kept["signals"]] == ["go"]


def test_a_fork_repeats_only_the_steps_behind_a_place() -> None:
    result = started(old)
    deployed(result, old)

    forked = result.fork(after="first")
    run_all(raise_errors=True)

    assert deployed(forked, old) == "12"
    assert done == ["first", "second", "second"]
