"""The spans of a durable run: one for each try of a step, in the trace of its message."""

from __future__ import annotations

import pytest
from opentelemetry.trace import StatusCode

from pgqueue.testing import run_all
from tests.durable import tasks
from tests.telemetry.reading import Traces

pytestmark = pytest.mark.django_db


def test_a_step_has_a_span_in_the_span_of_its_run_and_only_once(traces: Traces) -> None:
    result = tasks.asks_late.enqueue(2)
    run_all(raise_errors=True)
    result.signal("go", 1)
    run_all(raise_errors=True)

    first, second = traces.consumed
    steps = [traces.one("step add"), traces.one("step double")]

    assert [each.parent and each.parent.span_id for each in steps] == [first.context.span_id] * 2
    assert dict(steps[0].attributes or {}) == {
        "messaging.pgqueue.step.name": "add",
        "messaging.message.id": result.id,
        "messaging.pgqueue.message.attempt": 1,
    }
    assert first.context.trace_id == second.context.trace_id
    assert {each.status.status_code for each in (first, second)} == {StatusCode.UNSET}


def test_a_failed_try_has_its_error_and_the_wait_for_the_next_one_is_none(traces: Traces) -> None:
    tasks.failing["on"] = True
    tasks.may_fail.enqueue()
    run_all()

    tries = traces.named("step fails")

    assert [each.status.description for each in tries] == ["ValueError: no"] * 2
    assert [each.status.status_code.name for each in traces.consumed] == ["UNSET", "ERROR"]


@pytest.mark.django_db(transaction=True)
def test_the_span_of_a_coroutine_ends_with_it(traces: Traces) -> None:
    tasks.asynchronous.enqueue()
    run_all(raise_errors=True)

    assert [each.name for each in traces.all if each.name.startswith("step ")] == [
        "step fetch",
        "step add",
        "step double",
    ]
