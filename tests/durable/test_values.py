"""Side values, and patches of the code under way."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from pgqueue.durable import DurableContext
from pgqueue.exceptions import TaskTimeout
from pgqueue.models import Step
from tests.durable.running import add, calls, double, durable, kept, names, returned, run

pytestmark = pytest.mark.django_db(transaction=True)


def test_side_values_are_the_same_in_each_run() -> None:
    seen: list[Any] = []

    @durable
    def works(run: DurableContext) -> None:
        seen.append((run.now(), run.random(), run.uuid(), run.uuid()))
        run.sleep(0)

    returned(works.enqueue())

    assert seen[0] == seen[1]
    assert isinstance(seen[0][2], UUID)
    assert seen[0][2] != seen[0][3]


def test_side_values_of_a_run_that_waits_for_a_signal_are_stored() -> None:
    seen: list[Any] = []

    @durable
    def works(run: DurableContext) -> None:
        seen.append(run.random())
        run.wait_for("go")
        seen.append(run.random())
        run.wait_for("go")
        seen.append(run.random())

    result = works.enqueue()
    run(result)
    result.signal("go")
    run(result)
    result.signal("go")
    returned(result)

    assert len(set(seen)) == 3


@pytest.mark.parametrize("name", [None, "pay"])
def test_side_values_are_kept_where_the_step_that_uses_them_is_cut_off(name: str | None) -> None:
    """Else a service would get another key for the same payment."""
    used: list[UUID] = []

    def pay(token: UUID) -> None:
        used.append(token)
        if len(used) == 1:
            raise TaskTimeout("the run's own time is over")

    @durable(max_attempts=2, backoff=[0])
    def works(run: DurableContext) -> None:
        token = run.uuid()
        run.step(pay, token, name=name)

    returned(works.enqueue())

    assert used[0] == used[1]


def test_side_values_are_kept_where_an_awaited_step_is_cut_off() -> None:
    used: list[float] = []

    async def pay(amount: float) -> None:
        used.append(amount)
        if len(used) == 1:
            raise TaskTimeout("the run's own time is over")

    @durable(max_attempts=2, backoff=[0])
    async def works(run: DurableContext) -> None:
        await run.astep(pay, run.random())

    returned(works.enqueue())

    assert used[0] == used[1]


def test_side_values_cost_no_statement() -> None:
    @durable
    def works(run: DurableContext) -> int:
        with CaptureQueriesContext(connection) as queries:
            for _ in range(5):
                run.now()
        return len(queries)

    result = works.enqueue()

    assert returned(result) == 0


def test_side_values_of_a_run_that_ends_are_kept() -> None:
    @durable
    def works(run: DurableContext) -> float:
        return run.random()

    result = works.enqueue()
    value = returned(result)

    assert [each["result"] for each in kept(result)["steps"]] == [value]


class TestAPatch:
    """`run.patched()` is true for runs that have not passed the place before."""

    def of(self, version: dict[str, bool]) -> Any:
        @durable
        def works(run: DurableContext) -> str:
            if not version.get("drops"):
                run.step(add, 1, 1)
            run.wait_for("first")
            is_patched = version.get("new") and run.patched("2026-12")
            run.step(double, 1)
            run.wait_for("second")
            return f"{is_patched} {bool(version.get('new') and run.patched('later'))}"

        return works

    def test_holds_for_a_run_that_has_not_passed_it(self) -> None:
        version = {"new": False}
        result = self.of(version).enqueue()
        run(result)
        version["new"] = True
        result.signal("first")
        run(result)
        assert "patched:2026-12" in names(result)
        result.signal("second")

        assert returned(result) == "True True"

    def test_does_not_hold_for_a_run_with_a_step_that_the_code_no_longer_has(self) -> None:
        """The step may be ahead or behind; the old way is the safe one."""
        version = {"new": False}
        result = self.of(version).enqueue()
        run(result)
        version.update(new=True, drops=True)
        result.signal("first")
        result.signal("second")

        assert returned(result) == "False False"

    def test_does_not_hold_for_a_run_that_has_passed_it(self) -> None:
        version = {"new": False}
        result = self.of(version).enqueue()
        run(result)
        result.signal("first")
        run(result)
        version["new"] = True
        result.signal("second")

        assert returned(result) == "False True"

    def test_holds_for_a_new_run(self) -> None:
        result = self.of({"new": True}).enqueue()
        result.signal("first")
        result.signal("second")

        assert returned(result) == "True True"

    def test_is_stored(self) -> None:
        result = self.of({"new": True}).enqueue()
        result.signal("first")
        run(result)

        assert Step.objects.get(name="patched:2026-12").result is True
        assert calls == [("add", 1, 1), ("double", 1)]
