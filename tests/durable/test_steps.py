"""Steps: done once, found by their names, tried again, failed for good."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from pgqueue.durable import DurableContext
from pgqueue.exceptions import StepFailed, TooManySteps
from pgqueue.models import Message, Step
from pgqueue.redaction import MASK
from pgqueue.testing import advance
from tests.durable.running import (
    Oops,
    add,
    calls,
    double,
    durable,
    kept,
    names,
    refused,
    returned,
    run,
)

pytestmark = pytest.mark.django_db(transaction=True)


class TestAStep:
    def test_that_has_been_done_is_not_done_again(self) -> None:
        @durable
        def works(run: DurableContext, start: int) -> int:
            calls.append("top")
            total = run.step(add, start, right=1)
            run.sleep(0)
            return run.step(double, total)

        result = works.enqueue(3)

        assert returned(result) == 8
        assert calls == ["top", ("add", 3, 1), "top", ("double", 4)]

    def test_is_named_by_its_function_and_counted(self) -> None:
        @durable
        def works(run: DurableContext) -> None:
            for number in range(3):
                run.step(double, number)
            run.step(double, 7, name="seven")
            run.step(add, 1, 1)
            run.sleep(3600, name="rest")

        result = works.enqueue()
        run(result)

        assert names(result) == ["double", "double#2", "double#3", "seven", "add", "rest"]

    def test_is_found_by_its_name_where_steps_have_moved(self) -> None:
        order = [add, double]

        def one(function: Any, run: DurableContext) -> int:
            return run.step(function, *([2, 3] if function is add else [10]))

        @durable
        def works(run: DurableContext) -> list[int]:
            results = [one(each, run) for each in order]
            run.wait_for("go")
            return results

        result = works.enqueue()
        run(result)
        order.reverse()
        result.signal("go")

        assert returned(result) == [20, 5]
        assert len(calls) == 2

    def test_returns_a_typed_value_in_each_run(self) -> None:
        seen = []

        def when() -> timedelta:
            return timedelta(days=2)

        @durable
        def works(run: DurableContext) -> None:
            seen.append(run.step(when))
            run.sleep(0)

        returned(works.enqueue())

        assert seen == [timedelta(days=2)] * 2

    def test_returns_an_equal_value_in_each_run(self) -> None:
        seen = []

        def pair() -> Any:
            return [1, {"a": None}]

        def floats() -> list[float]:
            return (1.5, 2)  # type: ignore[return-value]

        @durable
        def works(run: DurableContext) -> None:
            seen.append((run.step(pair), run.step(floats)))
            run.sleep(0)

        returned(works.enqueue())

        assert seen[0] == seen[1]

    def test_has_one_key_for_outside_systems_over_all_its_tries(self) -> None:
        keys = []

        def charge(run: DurableContext) -> None:
            keys.append((run.step_name, run.idempotency_key))
            if len(keys) in (1, 2):
                raise Oops

        @durable
        def works(run: DurableContext) -> None:
            run.step(charge, run, backoff=[0])
            run.step(charge, run)

        returned(works.enqueue())
        returned(works.enqueue())

        first, second, third, other, others, *_ = keys
        assert first == second == third
        assert len({third, other, others}) == 3
        assert other[0] == "charge#2"

    def test_has_another_key_where_a_loop_has_continued(self) -> None:
        keys = []

        def charge(run: DurableContext) -> None:
            keys.append(run.idempotency_key)

        @durable
        def works(run: DurableContext, month: int) -> None:
            run.step(charge, run)
            if month < 3:
                run.continue_as(month + 1)

        returned(works.enqueue(1))

        assert len(set(keys)) == 3

    def test_may_not_be_more_than_the_setting_says(self, settings: Any) -> None:
        settings.PGQUEUE = {**settings.PGQUEUE, "MAX_STEPS": 3}

        def works(run: DurableContext) -> None:
            while True:
                run.step(double, 1)

        assert "continue_as" in refused(works, with_=TooManySteps)
        assert len(calls) == 3

    def test_that_its_code_no_longer_has_hinders_nothing(self) -> None:
        is_new = False

        @durable
        def works(run: DurableContext) -> int:
            if not is_new:
                run.step(add, 1, 1)
            value = run.step(double, 4)
            run.wait_for("go")
            return value + run.step(double, 5)

        result = works.enqueue()
        run(result)
        is_new = True
        result.signal("go")

        assert returned(result) == 18
        assert [(each["name"], each["unvisited"]) for each in kept(result)["steps"]] == [
            *(("add", True), ("double", False), ("wait:go", False), ("double#2", False))
        ]

    def test_that_a_waiting_run_did_not_call_is_marked_until_a_run_calls_it(self) -> None:
        has_step = True

        @durable
        def works(run: DurableContext) -> None:
            if has_step:
                run.step(add, 1, 1)
            for number in range(3):
                run.wait_for(f"go {number}")

        def marked() -> list[str]:
            steps = Step.objects.filter(message_id=int(result.id), unvisited=True)
            return list(steps.values_list("name", flat=True))

        result = works.enqueue()
        run(result)
        assert marked() == []
        has_step = False
        result.signal("go 0")
        run(result)
        assert marked() == ["add"]
        result.signal("go 1")
        run(result)
        assert marked() == ["add"]
        has_step = True
        result.signal("go 2")
        returned(result)

        assert calls == [("add", 1, 1)]
        assert not any(each["unvisited"] for each in kept(result)["steps"])

    @pytest.mark.parametrize("value", ["2", None, True, 2.5, [1], Decimal("1.0")])
    def test_returns_in_each_run_what_its_hint_does_not_say(self, value: Any) -> None:
        seen = []

        def wrong() -> int:
            result: int = value
            return result

        @durable
        def works(run: DurableContext) -> None:
            seen.append(run.step(wrong))
            run.sleep(0)

        returned(works.enqueue())

        assert seen[0] == seen[1]
        assert type(seen[0]) is type(seen[1])


class TestAResult:
    @pytest.mark.parametrize("atomic", [False, True])
    def test_that_is_not_storable_is_not_tried_again(self, atomic: bool) -> None:
        def opens() -> Any:
            calls.append("opens")
            return object()

        def works(run: DurableContext) -> None:
            run.step(opens, atomic=atomic, retries=3)

        assert "InvalidResult" in refused(works, with_=StepFailed)
        assert calls == ["opens"]

    @pytest.mark.parametrize("atomic", [False, True])
    def test_above_64_kib_is_refused_with_advice(self, atomic: bool) -> None:
        def pages() -> str:
            return "x" * (64 * 1024)

        def works(run: DurableContext) -> None:
            run.step(pages, atomic=atomic)

        assert "65,53" in (text := refused(works, with_=StepFailed))
        assert "elsewhere" in text

    def test_just_below_64_kib_is_kept(self) -> None:
        def pages() -> str:
            return "x" * (64 * 1024 - 2)

        @durable
        def works(run: DurableContext) -> int:
            run.step(pages)
            run.sleep(0)
            return len(run.step(pages, name="pages again"))

        assert returned(works.enqueue()) == 64 * 1024 - 2


class TestAStepThatFails:
    @pytest.mark.parametrize("atomic", [False, True])
    def test_is_tried_again_and_holds_no_worker_meanwhile(self, atomic: bool) -> None:
        def charge() -> str:
            calls.append("charge")
            if len(calls) < 3:
                raise Oops("declined")
            return "paid"

        @durable
        def works(run: DurableContext) -> str:
            return run.step(charge, atomic=atomic, retries=2, backoff=[60, 600])

        result = works.enqueue()

        assert run(result) == "scheduled"
        [step] = Step.objects.all()
        assert (step.state, step.tries, step.error["message"]) == ("retrying", 1, "declined")
        advance(30)
        assert run(result) == "scheduled"
        assert calls == ["charge"]
        advance(31)
        assert run(result) == "scheduled"
        assert calls == ["charge"] * 2
        advance(601)
        assert returned(result) == "paid"
        assert kept(result)["steps"][0]["tries"] == 3
        assert result.errors == []

    def test_has_as_many_tries_as_its_task_by_default(self) -> None:
        def charge() -> None:
            calls.append("charge")
            raise Oops

        @durable(max_attempts=3, backoff=[0])
        def works(run: DurableContext) -> str:
            try:
                run.step(charge)
            except StepFailed as error:
                return f"after {error.tries}"
            raise AssertionError

        assert returned(works.enqueue()) == "after 3"
        assert len(calls) == 3

    def test_raises_the_same_error_in_each_run_and_is_compensated(self) -> None:
        seen = []

        def charge() -> None:
            calls.append("charge")
            raise Oops("declined")

        def refund() -> str:
            calls.append("refund")
            return "refunded"

        @durable
        def works(run: DurableContext) -> str:
            try:
                run.step(charge, retries=1, backoff=[0])
            except StepFailed as error:
                seen.append((error.step, error.class_name, error.text, error.tries))
                seen.append('raise Oops("declined")' in error.traceback)
                value = run.step(refund)
            run.sleep(0)
            return value

        assert returned(works.enqueue()) == "refunded"
        assert calls == ["charge", "charge", "refund"]
        assert seen == [("charge", "tests.durable.running.Oops", "declined", 2), True] * 2

    def test_that_nothing_catches_kills_the_run(self) -> None:
        def charge() -> None:
            calls.append("charge")
            raise Oops("declined")

        @durable(max_attempts=1)
        def works(run: DurableContext) -> None:
            run.step(charge, retries=0)

        result = works.enqueue()

        assert run(result) == "dead"
        assert calls == ["charge"]
        assert "declined" in result.errors[-1].traceback

    def test_is_tried_again_by_a_replay_of_the_dead_message(self) -> None:
        def charge() -> str:
            calls.append("charge")
            if len(calls) < 3:
                raise Oops
            return "paid"

        def lookup() -> None:
            raise Oops

        @durable(max_attempts=1)
        def works(run: DurableContext) -> str:
            with pytest.raises(StepFailed):
                run.step(lookup, retries=0)
            return run.step(charge, retries=1, backoff=[0])

        result = works.enqueue()
        assert run(result) == "dead"
        Message.objects.all().replay()

        assert returned(result) == "paid"
        assert [each["state"] for each in kept(result)["steps"]] == ["failed", "done"]

    def test_shows_nothing_that_is_redacted(self) -> None:
        def charge(number: str) -> None:
            raise Oops(f"card {number}")

        @durable(redact=["card"], max_attempts=1)
        def works(run: DurableContext, card: str) -> None:
            run.step(charge, card, retries=0)

        result = works.enqueue("hush hush")
        run(result)

        assert "hush" not in str(Step.objects.get().error)

    @pytest.mark.parametrize("atomic", [False, True])
    def test_keeps_redacted_results_of_steps_and_payloads_out_of_errors_and_the_log(
        self, caplog: pytest.LogCaptureFixture, atomic: bool
    ) -> None:
        def card() -> dict[str, str]:
            return {"number": "4111 1111"}

        def charge(number: str, pin: str) -> None:
            raise Oops(f"card {number} with {pin}")

        @durable(redact=["steps.card.number", "signals.pin"], max_attempts=1)
        def works(run: DurableContext) -> None:
            pin, number = run.wait_for("pin"), run.step(card)["number"]
            with suppress(StepFailed):
                run.step(charge, number, pin, retries=0, atomic=atomic)
            raise Oops(f"card {number} with {pin}")

        result = works.enqueue()
        result.signal("pin", "the-pin-98765")
        run(result)

        said = [str(result.errors), str(Step.objects.get(name="charge").error), caplog.text]
        for text in said[:2]:
            assert MASK in text
        assert [each for each in said if "4111" in each or "the-pin-98765" in each] == []

    def test_whose_run_ends_amid_it_is_called_again(self) -> None:
        @durable(backoff=[0])
        def works(run: DurableContext) -> None:
            run.step(add, 1, 1)
            run.step(dies)
            run.step(double, 1)

        def dies() -> None:
            calls.append("dies")
            if calls.count("dies") == 1:
                raise SystemExit

        result = works.enqueue()
        returned(result)

        assert calls == [("add", 1, 1), "dies", "dies", ("double", 1)]


def test_a_function_of_each_run_leaves_nothing_behind() -> None:
    import gc
    import weakref

    class Big:
        pass

    refs = []

    @durable
    def works(run: DurableContext) -> None:
        big = Big()
        refs.append(weakref.ref(big))
        run.step(lambda: str(big) and None, name="it")

    for _ in range(3):
        returned(works.enqueue())
    gc.collect()

    assert [ref() for ref in refs] == [None] * 3
