"""Names and uses of steps that are refused."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import transaction

from pgqueue.durable import DurableContext
from tests.durable.running import (
    add,
    calls,
    double,
    durable,
    refused,
    returned,
    run,
)

pytestmark = pytest.mark.django_db(transaction=True)


class TestUnderOneName:
    def test_two_functions_are_refused(self) -> None:
        def works(run: DurableContext) -> None:
            run.step(add, 1, 2, name="first")
            run.step(double, 1, name="first")

        assert "Two steps are named 'first'" in refused(works)

    def test_two_functions_of_one_name_in_two_modules_are_refused(self) -> None:
        def add(left: int) -> int:
            return left

        add.__qualname__, add.__module__ = "add", "elsewhere"

        def works(run: DurableContext) -> None:
            run.step(globals()["add"], 1, 2)
            run.step(add, 1)

        assert "Two steps are named 'add'" in refused(works)

    def test_another_function_than_before_is_refused(self) -> None:
        function: Any = double

        def other(value: int) -> int:
            raise AssertionError("it is done")

        other.__name__ = double.__name__

        @durable(max_attempts=1)
        def works(run: DurableContext) -> None:
            run.step(function, 1)
            run.wait_for("go")

        result = works.enqueue()
        run(result)
        function = other
        result.signal("go")

        assert run(result) == "dead"
        said = result.errors[-1].traceback
        assert "The step 'double' was double in an earlier run, and is " in said
        assert "If it is the same step, give name='double'" in said

    def test_another_kind_than_before_is_refused(self) -> None:
        is_new = False

        @durable(max_attempts=1)
        def works(run: DurableContext) -> None:
            if is_new:
                with run.atomic("double"):
                    pass
            else:
                run.step(double, 1)
            run.wait_for("go")

        result = works.enqueue()
        run(result)
        is_new = True
        result.signal("go")

        assert run(result) == "dead"
        assert "was no block in an earlier run" in result.errors[-1].traceback


class TestWrongUse:
    def test_a_lambda_needs_a_name(self) -> None:
        assert "give it name=" in refused(lambda run: run.step(lambda: 1))

    @pytest.mark.parametrize("name", ["", "x" * 200, "nul\0", 7])
    def test_a_name_must_be_a_short_text(self, name: Any) -> None:
        def works(run: DurableContext) -> None:
            run.step(double, 1, name=name)

        assert "name" in refused(works)

    def test_what_is_no_function_is_refused(self) -> None:
        def works(run: DurableContext) -> None:
            run.step(7)  # type: ignore[arg-type]

        assert "7 can't be a step" in refused(works)

    def test_a_partial_and_a_lambda_with_names_are_steps(self) -> None:
        @durable
        def works(run: DurableContext) -> int:
            return run.step(partial(add, 1), 2, name="sum") + run.step(lambda: 4, name="four")

        assert returned(works.enqueue()) == 7

    def test_a_step_in_a_step_is_refused(self) -> None:
        def outer(run: DurableContext) -> None:
            run.step(double, 1)

        def works(run: DurableContext) -> None:
            run.step(outer, run)

        assert "can't begin in the step 'outer'" in refused(works)
        assert calls == []

    def test_a_wait_in_a_step_is_refused(self) -> None:
        def works(run: DurableContext) -> None:
            run.step(run.sleep, 1)

        assert "can't begin in the step 'sleep'" in refused(works)

    @pytest.mark.parametrize("verb", ["step", "sleep", "wait_for", "now", "atomic", "gather"])
    def test_a_step_in_an_open_transaction_is_refused(self, verb: str) -> None:
        given: Any = {
            "step": [double, 1],
            "sleep": [1],
            "wait_for": ["go"],
            "atomic": ["it"],
            "gather": [[]],
        }.get(verb, [])

        def works(run: DurableContext) -> None:
            with transaction.atomic():
                getattr(run, verb)(*given)

        assert "can't begin in a transaction" in refused(works)

    def test_a_transaction_that_is_over_is_no_hindrance(self) -> None:
        @durable
        def works(run: DurableContext) -> int:
            with transaction.atomic():
                Group.objects.create(name="a")
            return run.step(double, 1)

        assert returned(works.enqueue()) == 2

    @pytest.mark.parametrize(
        "options", [{"retries": -1}, {"retries": "two"}, {"backoff": ["x"]}, {"backoff": 7}]
    )
    def test_an_invalid_option_is_named(self, options: Any) -> None:
        def works(run: DurableContext) -> None:
            run.step(double, 1, **options)

        [name] = options
        assert f"{name}=" in refused(works)
        assert calls == []

    def test_idempotency_key_outside_of_a_step_is_refused(self) -> None:
        def works(run: DurableContext) -> None:
            run.idempotency_key  # noqa: B018

        assert "belongs to a step" in refused(works)
